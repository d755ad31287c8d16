"""What an audit of the training step says: lower bounds on epsilon, direct checks, and one verdict.

Everything here is computed from graphs that the audit made itself, so it is public.

Public: `StepAudit`.

>>> audit = StepAudit(bounds=(), checks=(), trials=100, confidence=0.99, seconds=1.0, settings={}, plan={},
...                   plan_hash="")
>>> audit.refuted
False
"""

from dataclasses import asdict, dataclass
from typing import Any

from reldp.auditing.checks import Check
from reldp.auditing.results import Bound

__all__ = ["StepAudit"]


@dataclass(frozen=True, kw_only=True)
class StepAudit:
    """The outcome of `reldp.auditing.audit_step`.

    Attributes:
        bounds: The best bound of each case at each of its deltas.
        checks: Direct checks of noise, batches and clipping at the plan's own settings.
        trials: Trials on each graph of a case that judge; half as many choose.
        confidence: All bounds and checks together hold with this probability.
        seconds: How long it took.
        settings: The run's settings that were audited, and where.
        plan: The audited plan, as plain values.
        plan_hash: Its hash.
    """

    bounds: tuple[Bound, ...]
    checks: tuple[Check, ...]
    trials: int
    confidence: float
    seconds: float
    settings: dict[str, Any]
    plan: dict[str, Any]
    plan_hash: str

    @property
    def refuted(self) -> bool:
        """Whether a bound exceeds its claim, or a check fails."""
        return any(bound.refuted for bound in self.bounds) or any(c.refuted for c in self.checks)

    @property
    def failures(self) -> list[str]:
        """What refutes the claim, in words."""
        refuted_bounds = [
            f"in the case '{b.case}' epsilon is at least {b.epsilon:.3g} at delta {b.delta:.2g}, "
            f"the claim is {b.claimed:.3g}"
            for b in self.bounds
            if b.refuted
        ]
        return refuted_bounds + [
            f"{c.name}: {c.seen}, expected {c.expected} (p = {c.p_value:.2g})"
            for c in self.checks
            if c.refuted
        ]

    @property
    def verdict(self) -> str:
        """One line for people."""
        sure = f"{self.confidence:.3%}".rstrip("0%").rstrip(".") + " % confidence"
        if self.refuted:
            return (
                f"REFUTED: the training step breaks its claim ({sure}): {'; '.join(self.failures)}."
            )
        cases = len({bound.case for bound in self.bounds})
        return (
            f"Consistent: the training step kept its claim in {cases} cases and {len(self.checks)} checks "
            f"of noise, batches and clipping ({sure}, {self.trials:,} trials)."
        )

    def to_record(self) -> dict[str, Any]:
        """Return the few values that belong on a certificate."""
        return {
            "kind": "training step",
            "verdict": self.verdict,
            "refuted": self.refuted,
            "trials": self.trials,
            "confidence": self.confidence,
            "settings": dict(self.settings),
            "plan": self.plan_hash,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = asdict(self)
        values["kind"] = "training step"
        values["bounds"] = [
            {**asdict(bound), "share": bound.share, "refuted": bound.refuted}
            for bound in self.bounds
        ]
        values["checks"] = [check.to_dict() for check in self.checks]
        values["refuted"], values["verdict"] = self.refuted, self.verdict
        return values
