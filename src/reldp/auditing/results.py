"""What a mechanism audit says: lower bounds against a claim, and one verdict.

Everything here is computed from graphs that the audit made itself, so it is public. An audit can refute a claim, at a
stated confidence; it can never prove one.

Public: `Bound`, `MechanismAudit`.

>>> bound = Bound(delta=0.01, claimed=2.0, epsilon=1.5, direction="removal", method="counting",
...               score="likelihood ratio", design="zero elsewhere")
>>> bound.refuted, bound.share
(False, 0.75)
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Bound", "MechanismAudit"]


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The best lower bound found at one delta.

    Attributes:
        delta: The delta.
        claimed: Epsilon that the accountant claims.
        epsilon: The lower bound.
        direction: ``"removal"`` (with against without the entity) or ``"insertion"``.
        method: ``"counting"`` or ``"gaussian"`` (`reldp.auditing.bounds`).
        score: What was thresholded.
        design: The gradients (`reldp.auditing.designs`).
        case: The graphs (`reldp.auditing.cases`); ``"plan"`` are the plan's own.
    """

    delta: float
    claimed: float
    epsilon: float
    direction: str
    method: str
    score: str
    design: str
    case: str = "plan"

    @property
    def refuted(self) -> bool:
        """Whether the claim is below the bound."""
        return self.epsilon > self.claimed

    @property
    def share(self) -> float:
        """Bound divided by claim; 1 is tight, more is a refutation."""
        if self.claimed == 0:
            return math.inf if self.epsilon > 0 else 0.0
        return self.epsilon / self.claimed


@dataclass(frozen=True, kw_only=True)
class MechanismAudit:
    """The outcome of `reldp.auditing.audit_mechanism`.

    Attributes:
        bounds: The best bound at each delta, by rising delta.
        num_steps: Steps composed in one trial.
        trials: Trials on each of the two graphs that judge; half as many choose.
        confidence: All bounds together hold with this probability.
        seconds: How long it took.
        plan: The audited plan, as plain values.
        plan_hash: Its hash.
    """

    bounds: tuple[Bound, ...]
    num_steps: int
    trials: int
    confidence: float
    seconds: float
    plan: dict[str, Any]
    plan_hash: str

    @property
    def refuted(self) -> bool:
        """Whether any bound exceeds its claim."""
        return any(bound.refuted for bound in self.bounds)

    @property
    def tightest(self) -> Bound:
        """The bound that comes closest to its claim, or exceeds it most."""
        return max(self.bounds, key=lambda bound: bound.share)

    @property
    def headline(self) -> Bound:
        """The bound at the plan's own delta where it says something, else the tightest."""
        at_plan = [bound for bound in self.bounds if bound.delta == self.plan.get("delta")]
        if self.refuted or not at_plan or at_plan[0].epsilon == 0:
            return self.tightest
        return at_plan[0]

    @property
    def verdict(self) -> str:
        """One line for people."""
        best = self.headline
        steps = "one step" if self.num_steps == 1 else f"{self.num_steps:,} steps"
        outcome = (
            f"for {steps} at delta {best.delta:.2g} the audit shows epsilon >= {best.epsilon:.3g}"
        )
        claim = f"the claim for {steps} is {best.claimed:.3g}"
        sure = f"{self.confidence:.3%}".rstrip("0%").rstrip(".") + " % confidence"
        if self.refuted:
            return f"REFUTED: {outcome}; {claim} ({sure}, {self.trials:,} trials)."
        return f"Consistent: {outcome}; {claim} ({sure}, {self.trials:,} trials)."

    def to_record(self) -> dict[str, Any]:
        """Return the few values that belong on a certificate."""
        best = self.headline
        return {
            "kind": "mechanism",
            "verdict": self.verdict,
            "refuted": self.refuted,
            "steps composed": self.num_steps,
            "trials": self.trials,
            "confidence": self.confidence,
            "bound": {"delta": best.delta, "audited": best.epsilon, "claimed": best.claimed},
            "plan": self.plan_hash,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = asdict(self)
        values["kind"] = "mechanism"
        values["bounds"] = [
            {**asdict(bound), "share": bound.share, "refuted": bound.refuted}
            for bound in self.bounds
        ]
        values["refuted"], values["verdict"] = self.refuted, self.verdict
        return values
