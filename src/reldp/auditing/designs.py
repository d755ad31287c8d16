"""Gradients that the auditor chooses, as adversarially as the guarantee allows.

A guarantee holds for any gradients that are a function of the clip unit alone. So the auditor gives every unit that
contains the entity one long gradient along a direction, and every other unit nothing at all (`ZERO_ELSEWHERE`) or the
opposite (`OPPOSING_ELSEWHERE`). Opposing gradients make theory.md 3.1 tight (replacing a negative then moves the sum
by 2) and, for 3.2, let the output tell the batch size, which is where the reweighting shows.

Public: `Design`, `ZERO_ELSEWHERE`, `OPPOSING_ELSEWHERE`, `DESIGNS`, `KEY_LABELS`.

>>> OPPOSING_ELSEWHERE.gradients(np.array([True, False])).tolist()
[[100.0], [-100.0]]
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reldp.errors import InputError

__all__ = ["DESIGNS", "KEY_LABELS", "OPPOSING_ELSEWHERE", "ZERO_ELSEWHERE", "Design"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Design:
    """Two gradients: one for units that contain the entity, one for all others.

    Attributes:
        name: For tables.
        touching: Gradient of a unit that contains the entity, in clip norms.
        other: Gradient of every other unit, in clip norms.
    """

    name: str
    touching: tuple[float, ...] = (100.0,)
    other: tuple[float, ...] = (0.0,)

    def __post_init__(self) -> None:
        if len(self.touching) != len(self.other) or not any(self.touching):
            raise InputError(
                "`touching` must be a gradient of the size of `other` and not zero, "
                f"got {self.touching} and {self.other}."
            )

    @property
    def num_dimensions(self) -> int:
        """Size of the gradients."""
        return len(self.touching)

    @property
    def direction(self) -> Array:
        """Unit vector along which the entity pushes.  (d,)."""
        push = np.array(self.touching)
        return np.asarray(push / np.linalg.norm(push), dtype=np.float64)

    def gradients(self, touching: npt.NDArray[np.bool_]) -> Array:
        """One gradient per unit.  (U,) -> (U, d)."""
        return np.where(touching[:, None], np.array(self.touching), np.array(self.other))


ZERO_ELSEWHERE = Design(name="zero elsewhere")
OPPOSING_ELSEWHERE = Design(name="opposing elsewhere", other=(-100.0,))
DESIGNS = {design.name: design for design in (ZERO_ELSEWHERE, OPPOSING_ELSEWHERE)}
KEY_LABELS = {ZERO_ELSEWHERE.name: "still", OPPOSING_ELSEWHERE.name: "against"}
"""Labels in the derivation of keys: they never change, so that a seed repeats an audit whatever designs are called."""
