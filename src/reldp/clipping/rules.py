"""What is clipped, to which norm, and how far one entity can then move the batch sum.

A rule states its own sensitivity (theory.md section 2); the plan hands those numbers to the
accountant and nothing else does. Shifts are in units of ``clip_norm``: u is the entity that two
neighboring graphs differ in, i its relations in the batch, j whether it is a negative of a tuple
that does not touch it.

``tuple`` and ``pair`` are local: what a tuple contributes depends on that tuple alone.
``frequency`` is the published FREQ-CLIP rule, kept for reproduction: its status is "claimed, false
in the worst case" (theory.md section 2.1), because removing u changes the thresholds of tuples that
do not contain u.

Public: `ClippingRule`, `RULES`, `get_rule`. Needs numpy only.

>>> get_rule("tuple").replacement_shift(num_negatives=4)
2.0
>>> get_rule("pair").replacement_shift(num_negatives=4)
0.5
>>> get_rule("frequency").status
'claimed'
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reldp.clipping.units import (
    ClipUnits,
    check_batch,
    max_frequencies,
    pair_units,
    tuple_units,
)
from reldp.errors import InputError, PlanError

__all__ = ["RULES", "ClippingRule", "get_rule"]


@dataclass(frozen=True, kw_only=True)
class ClippingRule:
    """A clipping rule and its stated sensitivity.

    Attributes:
        name: The word used in plans, flags and certificates.
        local: Whether a tuple's contribution depends on that tuple alone, which both proofs need.
        status: ``"proven"``, or ``"claimed"`` where the published claim is false in the worst case.
        summary: One sentence for people.
    """

    name: str
    local: bool
    status: str
    summary: str

    def replacement_sensitivity(self, num_negatives: int) -> float:
        """How far replacing u as a negative moves the sum: 2, or 2/k for pairs (theory.md 3.1)."""
        if self.name == "pair":
            return 2.0 / max(num_negatives, 1)
        return 2.0

    def removal_sensitivity(self) -> float | None:
        """How far removing a tuple with u as a negative moves the sum (3.2), None if not local."""
        return 1.0 if self.local else None

    def rows_per_unit(self, num_negatives: int) -> int:
        """Rows of the forward that belong to one clip unit: k + 2 for tuples, 3 for pairs."""
        return 3 if self.name == "pair" else num_negatives + 2

    def units_per_tuple(self, num_negatives: int) -> int:
        """Clip units that one tuple is cut into: k for pairs, else 1."""
        return num_negatives if self.name == "pair" else 1

    def thresholds(
        self, positives: npt.ArrayLike, negatives: npt.ArrayLike, *, clip_norm: float
    ) -> npt.NDArray[np.float64]:
        """The largest norm each clip unit may keep, from the whole logical batch.

        Args:
            positives: Ends of each positive relation, (l, 2) entity indices.
            negatives: Negatives of each tuple, (l, k) entity indices.
            clip_norm: Bound on what one tuple adds to the sum.

        Returns:
            (units,) float64; tuple-major for pairs.
        """
        if not (math.isfinite(clip_norm) and clip_norm > 0):
            raise InputError(f"`clip_norm` must be a finite number above 0, got {clip_norm}.")
        size, k = check_batch(positives, negatives, None, None)[1].shape
        if self.name == "tuple":
            return np.full(size, clip_norm)
        if self.name == "pair":
            return np.full(size * k, clip_norm / max(k, 1))
        return np.asarray(clip_norm / (2.0 * max_frequencies(positives, negatives)))

    def units(
        self,
        positives: npt.ArrayLike,
        negatives: npt.ArrayLike,
        *,
        clip_norm: float,
        endpoints: npt.ArrayLike | None = None,
        mask: npt.ArrayLike | None = None,
    ) -> ClipUnits:
        """The whole logical batch as clip units with their thresholds.

        >>> units = get_rule("pair").units([[0, 1]], [[2, 3]], clip_norm=1.0)
        >>> units.entities.tolist(), units.thresholds.tolist()
        ([[0, 1, 2], [0, 1, 3]], [0.5, 0.5])
        """
        build = pair_units if self.name == "pair" else tuple_units
        limits = self.thresholds(positives, negatives, clip_norm=clip_norm)
        return build(positives, negatives, endpoints, mask, limits)


RULES: dict[str, ClippingRule] = {
    rule.name: rule
    for rule in (
        ClippingRule(
            name="tuple",
            local=True,
            status="proven",
            summary="every tuple gradient is clipped to the clip norm",
        ),
        ClippingRule(
            name="pair",
            local=True,
            status="proven",
            summary=(
                "every pair gradient is clipped to the clip norm divided by the number of negatives"
            ),
        ),
        ClippingRule(
            name="frequency",
            local=False,
            status="claimed",
            summary=(
                "every tuple gradient is clipped by how often its entities occur in the batch; "
                "the published sensitivity claim is false in the worst case"
            ),
        ),
    )
}


def get_rule(name: str) -> ClippingRule:
    """The rule of that name; an unknown name is refused with the names there are."""
    try:
        return RULES[name]
    except (KeyError, TypeError):
        names = ", ".join(sorted(RULES))
        raise PlanError(f"`clipping` must be one of {names}, got {name!r}.") from None
