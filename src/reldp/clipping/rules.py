"""What is clipped, to which norm, and how far one entity can then move the batch sum.

A rule states its own sensitivity (theory.md section 2); the plan hands those numbers to the accountant and
nothing else does. Shifts are in units of ``clip_norm``: u is the entity that two neighbouring graphs differ
in, i its relations in the batch, j whether it is a negative of a tuple that does not touch it.

>>> get_rule("tuple").replacement_shift(num_negatives=4)
2.0
>>> get_rule("pair").replacement_shift(num_negatives=4)
0.5
>>> get_rule("frequency").status
'claimed'
"""

from dataclasses import dataclass

from reldp.errors import PlanError

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

    def replacement_shift(self, num_negatives: int) -> float:
        """How far replacing u as a negative moves the sum: 2j, or 2j/k for pairs (theory.md 3.1)."""
        if self.name == "pair":
            return 2.0 / max(num_negatives, 1)
        return 2.0

    def removal_shift(self) -> float | None:
        """How far removing the tuple in which u is a negative moves the sum (theory.md 3.2); None if not local."""
        return 1.0 if self.local else None


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
            summary="every pair gradient is clipped to the clip norm divided by the number of negatives",
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
