"""Clipping rules: what is clipped, to which norm, and how far one entity can then move the sum.

There is one class per rule. Each states its sensitivity and the layout of its clip units
(theory.md 2); the plan hands these numbers to the accountant, and nothing else does. The accountant
assumes that one tuple adds at most one clip norm to the sum, so larger thresholds are refused.
Sensitivities are in units of ``clip_norm``; u is the entity in which two neighboring graphs differ.

`TupleClipping` and `PairClipping` are local: what a tuple contributes depends on that tuple alone.
`FrequencyClipping` is the published FREQ-CLIP rule, kept for reproduction. Its status is "claimed",
because the claim is false in the worst case (theory.md 2.1): removing u changes the
thresholds of tuples that do not contain u.

Public: `ClippingRule`, `TupleClipping`, `PairClipping`, `FrequencyClipping`, `RULES`, `get_rule`,
`is_builtin`.
Needs numpy only.

>>> get_rule("tuple").replacement_sensitivity(num_negatives=4)
2.0
>>> get_rule("pair").replacement_sensitivity(num_negatives=4)
0.5
>>> get_rule("frequency").status
'claimed'
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from reldp._validate import CLIPPING_RULES, check_choice, check_number
from reldp.clipping.units import (
    ClipUnits,
    check_batch,
    clip_units,
    max_frequencies,
)
from reldp.errors import InputError, PlanError

__all__ = [
    "RULES",
    "ClippingRule",
    "FrequencyClipping",
    "PairClipping",
    "TupleClipping",
    "get_rule",
    "is_builtin",
]

_ROUNDING = 1 + 1e-9  # k times clip_norm / k may exceed clip_norm by rounding


@dataclass(frozen=True)
class ClippingRule(ABC):
    """A clipping rule with its stated sensitivity and the layout of its clip units.

    Rules of the same class are equal, and ``str(rule)`` is the rule's name.

    Attributes:
        name: Name in plans, flags and certificates.
        status: ``"proven"`` for the rules of theory.md 2 with a proof in 3, else ``"claimed"``, the default: a
            subclass has no proof.
        is_local: Whether a tuple's contribution depends on that tuple alone, which the proofs need.
        splits_tuples: Whether a clip unit is one pair of a tuple, so that the loss must be a sum over
            negatives.
        max_tuple_norm: Largest norm that one tuple adds to the sum, in units of the clip norm; at most 1, which is
            what the accountant assumes of every rule.
        min_negatives: Fewest negatives per tuple with which the rule can be used.
        summary: One sentence for readers of a certificate.
    """

    name: ClassVar[str]
    status: ClassVar[str] = "claimed"  # a rule from outside has no proof here
    is_local: ClassVar[bool] = True
    splits_tuples: ClassVar[bool] = False
    max_tuple_norm: ClassVar[float] = 1.0
    min_negatives: ClassVar[int] = 0
    summary: ClassVar[str]

    def __str__(self) -> str:
        return self.name

    def rows_per_unit(self, num_negatives: int) -> int:
        """Rows of the forward pass that belong to one clip unit: both endpoints and the negatives."""
        return num_negatives + 2

    def units_per_tuple(self, num_negatives: int) -> int:
        """Clip units into which one tuple is split."""
        return 1

    def replacement_sensitivity(self, num_negatives: int) -> float:
        """Return the bound on the change of the sum when another entity replaces u as a negative (theory.md 3.1)."""
        return 2.0

    def removal_sensitivity(self) -> float | None:
        """Return the bound on the change of the sum without the tuple of which u is a negative (theory.md 3.2).

        None for a rule that is not local.
        """
        return 1.0 if self.is_local else None

    def thresholds(
        self, positives: npt.ArrayLike, negatives: npt.ArrayLike, *, clip_norm: float
    ) -> npt.NDArray[np.float64]:
        """Return the largest norm that each clip unit may keep, from the whole logical batch.

        Args:
            positives: Endpoints of each positive relation, (l, 2) entity indices.
            negatives: Negatives of each tuple, (l, k) entity indices.
            clip_norm: Bound on what one tuple adds to the sum.

        Returns:
            (units,) float64; tuple-major for pairs.

        Raises:
            PlanError: The thresholds of a tuple add up to more than the clip norm.
        """
        check_number("clip_norm", clip_norm, above=0, error=InputError)
        pos, neg, _, _ = check_batch(positives, negatives, None, None)
        limits = self._thresholds(pos, neg, clip_norm)
        per_tuple = limits.reshape(len(neg), -1).sum(axis=1) if len(neg) else limits  # (l,)
        if not (per_tuple <= clip_norm * _ROUNDING).all():
            raise PlanError(
                f"`clipping` must let one tuple add at most the clip norm, {clip_norm:g}, got the {self} rule with "
                f"thresholds of up to {per_tuple.max():g} per tuple. Epsilon would be too small: clip to smaller norms."
            )
        return limits

    @abstractmethod
    def _thresholds(
        self, positives: npt.NDArray[np.int64], negatives: npt.NDArray[np.int64], clip_norm: float
    ) -> npt.NDArray[np.float64]:
        """Thresholds of a batch that has been checked, (units,)."""

    def units(
        self,
        positives: npt.ArrayLike,
        negatives: npt.ArrayLike,
        *,
        clip_norm: float,
        endpoints: npt.ArrayLike | None = None,
        mask: npt.ArrayLike | None = None,
        types: npt.ArrayLike | None = None,
    ) -> ClipUnits:
        """Lay out the whole logical batch in clip units with their thresholds.

        >>> units = get_rule("pair").units([[0, 1]], [[2, 3]], clip_norm=1.0)
        >>> units.entities.tolist(), units.thresholds.tolist()
        ([[0, 1, 2], [0, 1, 3]], [0.5, 0.5])
        """
        limits = self.thresholds(positives, negatives, clip_norm=clip_norm)
        split = self.splits_tuples
        return clip_units(
            positives, negatives, endpoints, mask, limits, split_tuples=split, types=types
        )


class TupleClipping(ClippingRule):
    """Clip every tuple gradient to the clip norm."""

    name = "tuple"
    status = "proven"
    summary = "every tuple gradient is clipped to the clip norm"

    def _thresholds(
        self, positives: npt.NDArray[np.int64], negatives: npt.NDArray[np.int64], clip_norm: float
    ) -> npt.NDArray[np.float64]:
        return np.full(len(negatives), clip_norm)


class PairClipping(ClippingRule):
    """Clip every pair gradient to the clip norm divided by k, the public number of negatives."""

    name = "pair"
    status = "proven"
    splits_tuples = True
    min_negatives = 1
    summary = "every pair gradient is clipped to the clip norm divided by the number of negatives"

    def rows_per_unit(self, num_negatives: int) -> int:
        """Both endpoints and one negative."""
        return 3

    def units_per_tuple(self, num_negatives: int) -> int:
        """One unit per negative."""
        return num_negatives

    def replacement_sensitivity(self, num_negatives: int) -> float:
        """2/k: one pair of the tuple changes."""
        return 2.0 / max(num_negatives, 1)

    def _thresholds(
        self, positives: npt.NDArray[np.int64], negatives: npt.NDArray[np.int64], clip_norm: float
    ) -> npt.NDArray[np.float64]:
        size, k = negatives.shape
        return np.full(size * k, clip_norm / max(k, 1))


class FrequencyClipping(ClippingRule):
    """Clip a tuple gradient to the clip norm divided by twice the largest frequency of its entities."""

    name = "frequency"
    is_local = False
    max_tuple_norm = 0.5
    summary = (
        "every tuple gradient is clipped by how often its entities occur in the batch; "
        "the published sensitivity claim is false in the worst case"
    )

    def replacement_sensitivity(self, num_negatives: int) -> float:
        """Return the published claim, 1, which is false in the worst case (theory.md 2.1)."""
        return 1.0

    def _thresholds(
        self, positives: npt.NDArray[np.int64], negatives: npt.NDArray[np.int64], clip_norm: float
    ) -> npt.NDArray[np.float64]:
        return np.asarray(clip_norm / (2.0 * max_frequencies(positives, negatives)))


# Read-only: a rule that somebody adds has no proof here.
RULES: Mapping[str, ClippingRule] = MappingProxyType(
    {rule.name: rule for rule in (TupleClipping(), PairClipping(), FrequencyClipping())}
)


def is_builtin(rule: ClippingRule) -> bool:
    """Return whether a rule is one of reldp; a subclass of one is another rule, whatever its name."""
    return any(type(rule) is type(known) for known in RULES.values())


def get_rule(rule: str | ClippingRule) -> ClippingRule:
    """Return the rule of that name, or the rule itself; refuse an unknown name."""
    if isinstance(rule, ClippingRule):
        return rule
    return RULES[check_choice("clipping", rule, CLIPPING_RULES, error=PlanError)]
