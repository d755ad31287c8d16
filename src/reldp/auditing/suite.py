"""All audits of a plan, one after the other: the training step, its parts, and a search for a counterexample.

* `reldp.auditing.audit_step` runs the training step itself;
* `reldp.auditing.audit_mechanism` runs sampler, clipping and noise without the gradient engine, so many more times;
* `reldp.auditing.search_neighbors` looks for a batch that contradicts the sensitivity that the clipping rule states.

The results are public: they come from graphs that the auditor made. The exception is `AuditResults.training`, which
comes from a run on the private graph (`reldp.auditing.run_audit`) and is sensitive.

Public to the package: `AuditResults`, `audit_plan`.

>>> plan = PrivacyPlan(num_entities=12, num_relations=4, max_degree=1, num_negatives=0, sample_rate=0.4,
...                    num_steps=1, noise_multiplier=1.0, delta=0.01)
>>> results = audit_plan(plan, trials=100, seed=1)
>>> sorted(results.parts), results.refuted
(['mechanism', 'search'], False)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reldp._optional import text_packages
from reldp._validate import check_integer
from reldp.auditing.audit import LEAST_TRIALS, MAX_TRIALS, audit_mechanism
from reldp.auditing.real_step import StepSettings
from reldp.auditing.results import MechanismAudit
from reldp.auditing.search import Finding, search_neighbors
from reldp.auditing.step_audit import audit_step
from reldp.auditing.step_results import StepAudit
from reldp.auditing.training_audit import TrainingAudit
from reldp.errors import InputError
from reldp.plan import PrivacyPlan

__all__ = ["AuditResults", "Progress", "audit_plan"]

Progress = Callable[[str, int, int], None]
"""Called with what is audited, the steps done since the last call, and the total number of steps."""

_MECHANISM_TRIALS = 20  # trials of the mechanism for each trial of the training step
_PARALLEL_TRIALS = 500  # fewer trials are over before other processes have started
_MAX_SEARCHED = 5  # counterexamples exist at small degrees and few negatives if they exist at all
_EVALUATIONS = 1000


@dataclass(frozen=True, kw_only=True)
class AuditResults:
    """What the audits of one plan or run showed.

    Attributes:
        mechanism: The audit of sampler, clipping and noise.
        step: The audit of the training step; None for a plan without negatives.
        search: The search for a counterexample; None where the unit of privacy is a relation.
        training: The audit with canaries, if there was one. Sensitive.
    """

    mechanism: MechanismAudit
    step: StepAudit | None = None
    search: Finding | None = None
    training: TrainingAudit | None = None

    @property
    def parts(self) -> dict[str, Any]:
        """The audits that ran, by name."""
        audits = {
            "step": self.step,
            "mechanism": self.mechanism,
            "search": self.search,
            "training": self.training,
        }
        return {name: audit for name, audit in audits.items() if audit is not None}

    @property
    def refuted(self) -> bool:
        """Whether any audit refuted the claim."""
        return any(audit.refuted for audit in self.parts.values())

    @property
    def verdicts(self) -> list[str]:
        """One sentence for each audit."""
        return [audit.verdict for audit in self.parts.values()]

    def to_records(self) -> list[dict[str, Any]]:
        """Return what belongs in the ledger: everything but the audit with canaries, which is sensitive."""
        return [audit.to_record() for name, audit in self.parts.items() if name != "training"]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, by the name of the audit."""
        return {name: audit.to_dict() for name, audit in self.parts.items()}


def audit_plan(
    plan: PrivacyPlan,
    *,
    trials: int = 1000,
    num_steps: int = 1,
    deltas: Sequence[float] | None = None,
    confidence: float = 0.99,
    seed: int | None = None,
    settings: StepSettings | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> AuditResults:
    """Try to refute the epsilon that a plan claims: what ``reldp audit`` runs, and `reldp.audit`.

    Takes a minute or two of one core with the default number of trials.

    Args:
        plan: The plan.
        trials: Trials of the training step on each graph; the mechanism gets twenty times as many.
        num_steps: Steps composed in one trial of the mechanism.
        deltas: Deltas at which to compare; a few by default.
        confidence: Probability with which all bounds of one audit hold together.
        seed: Seed of a repeatable audit; fresh random draws if None.
        settings: Performance settings of the run whose plan it is; those of a default run if None.
        workers: Processes for the training step. With more than one, a script must call this below
            ``if __name__ == "__main__":``, because they are started by importing it.
        progress: Called as steps are done.

    Returns:
        The results of all audits; ``refuted`` and ``verdicts`` summarize them.

    Raises:
        InputError: The plan has no noise, or a setting is out of range.
    """
    if not isinstance(plan, PrivacyPlan):
        raise InputError(
            f"`plan` must be a PrivacyPlan, got {type(plan).__name__}. For a run folder use the command reldp audit."
        )
    if seed is not None:
        check_integer(
            "seed", seed, high=2**64 - 1, error=InputError, rule="an integer from 0 to 2^64 - 1"
        )
    check_integer(
        "trials", trials, low=LEAST_TRIALS, high=MAX_TRIALS // _MECHANISM_TRIALS, error=InputError
    )
    with text_packages():
        import torch  # noqa: F401  # without it, say so before anything is computed
    key = None if seed is None else seed.to_bytes(32, "big")
    common: dict[str, Any] = {"deltas": deltas or None, "confidence": confidence, "key": key}
    search = _search(plan)
    step = None
    if plan.num_negatives:
        settings = settings or StepSettings()
        parallel = trials >= _PARALLEL_TRIALS and settings.device == "cpu"
        step = audit_step(
            plan,
            trials=trials,
            settings=settings,
            workers=workers if parallel else 1,
            progress=_reporter(progress, "auditing the training step"),
            **common,
        )
    mechanism = audit_mechanism(
        plan,
        trials=_MECHANISM_TRIALS * trials,
        num_steps=num_steps,
        progress=_reporter(progress, "auditing its parts"),
        **common,
    )
    return AuditResults(mechanism=mechanism, step=step, search=search)


def _reporter(progress: Progress | None, stage: str) -> Callable[[int, int], None] | None:
    """Return the progress function of one audit."""
    return None if progress is None else lambda done, total: progress(stage, done, total)


def _search(plan: PrivacyPlan) -> Finding | None:
    """Search for a batch that contradicts the clipping rule's stated sensitivity."""
    if plan.unit == "relation":
        return None
    return search_neighbors(
        plan.clipping,
        max_degree=min(plan.max_degree, _MAX_SEARCHED),
        num_negatives=min(plan.num_negatives, _MAX_SEARCHED),
        evaluations=_EVALUATIONS,
    )
