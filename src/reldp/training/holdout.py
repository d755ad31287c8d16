"""Evaluation on held-out entities, before and after training.

Both evaluations are made when the run is complete, on the same relations among held-out entities
(`reldp.graph.holdout`), with held-out entities as the only candidates. The results are written to the run's
evaluations.jsonl and to no other file. They are **sensitive**: the released model does not depend on held-out
entities, but these numbers do, without noise, and so does whatever is decided by them (theory.md 2.5).

Inside the package: `HeldOut`, `check_holdout`, `refuse_another_holdout`, `stored_results`.

>>> stored_results([{"graph": "verbs", "mrr": 0.5}]) is None
True
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from reldp._validate import shown
from reldp.errors import ConfigError, ResumeError
from reldp.evaluation import EvaluationResult, evaluate
from reldp.evaluation.lines import BEFORE, evaluation_lines
from reldp.runs.start_entry import read_start

if TYPE_CHECKING:
    from torch import Tensor

    from reldp.graph import CappedGraph
    from reldp.graph.holdout import Holdout
    from reldp.runs.run_folder import RunFolder
    from reldp.training.config import PerformanceSettings
    from reldp.training.objective import Objective
    from reldp.training.shared_run import SharedRun

__all__ = ["HeldOut", "check_holdout", "refuse_another_holdout", "stored_results"]

CANDIDATES = 256
MAX_RELATIONS = 80 * CANDIDATES
GRAPH = "held-out entities"
_MARK = "holdout"


def check_holdout(
    holdout: "Holdout | None", capped: "CappedGraph", performance: "PerformanceSettings"
) -> None:
    """Refuse a holdout that is not the other part of the training graph.

    Raises:
        ConfigError: The parts are not those of a split, the training graph is another one, or the weights are sharded.
    """
    if holdout is None:
        return
    from reldp.graph.holdout import Holdout

    if not isinstance(holdout, Holdout):
        raise ConfigError(
            f"`holdout` must be a Holdout, got {shown(holdout)}. Use Holdout.split(graph, 0.2), and train on its part "
            "`train`."
        )
    holdout.check()
    if capped.graph is not holdout.train and capped.graph.fingerprint != holdout.train.fingerprint:
        raise ConfigError(
            "`capped` must be the training part of the holdout, got another graph. Use "
            "holdout.train.cap_degrees or holdout.train.promise_degrees."
        )
    if performance.shard_weights:
        raise ConfigError(
            "`holdout` must be used without shard_weights, got both: the whole model may not fit into the memory of "
            "one device. Train without a holdout, and evaluate on public relations."
        )


def refuse_another_holdout(run: "RunFolder", facts: Mapping[str, Any] | None) -> None:
    """Refuse to resume a run with a holdout that it was not started with.

    Args:
        run: The run folder.
        facts: Share and seed of the split, or None without one.

    Raises:
        ResumeError: It was started with another one.
    """
    if not run.has_run:
        return
    started = read_start(run.ledger)["graph"].get(_MARK)
    if started != facts:
        raise ResumeError(
            f"`holdout` of a resumed run must be {_words(started)}, with which it was started, got {_words(facts)}. "
            "Use what it was started with, or another folder."
        )


def stored_results(lines: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]] | None:
    """Return the newest results on held-out entities among lines of evaluations.jsonl, by when they were taken.

    Returns:
        The lines under ``"after"`` and, if it was measured, ``"before"``; None if there are none. Sensitive.
    """
    results: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        if _MARK in line:
            results["before" if line.get("encoder") == BEFORE else "after"] = line
    return results if "after" in results else None


class HeldOut:
    """The evaluation of one run.

    Args:
        holdout: The split.
        objective: Encoder and loss, before `Trainer` resumes or starts a run.
    """

    def __init__(self, holdout: "Holdout", objective: "Objective") -> None:
        self._holdout, self._objective = holdout, objective
        self._start: dict[str, Tensor] | None = None
        if not objective.is_trained:
            values = objective.parameters.items()
            self._start = {name: value.detach().cpu().clone() for name, value in values}

    def results(self, run: "SharedRun") -> dict[str, Mapping[str, Any]]:
        """Return the results of a complete run, evaluated and stored by the first call; sensitive.

        There is none from before training if the encoder in memory was trained already when the run was resumed.
        """
        known = stored_results(run.evaluations())
        if known is not None:
            return known
        after = self._evaluate()
        before = self._before()
        named = {"graph": GRAPH, "pooling": None, _MARK: self._holdout.facts}
        lines = evaluation_lines(named, before, after)
        if run.processes.is_first:
            for line in lines:
                run.run.append_line(run.run.evaluations, line)
        run.processes.wait("the results on held-out entities")
        made = stored_results(lines)
        assert made is not None
        return made

    def _before(self) -> EvaluationResult | None:
        """Evaluate the weights that the run started from; those in memory are put back."""
        if self._start is None:
            return None
        values = self._objective.parameters.items()
        trained = {name: value.detach().cpu().clone() for name, value in values}
        self._objective.load(self._start)
        try:
            return self._evaluate()
        finally:
            self._objective.load(trained)

    def _evaluate(self) -> EvaluationResult:
        test, loss = self._holdout.test, self._objective.loss
        is_typed = bool(test.type_names) and hasattr(loss, "query_vectors")
        return evaluate(
            self._objective.encoder,
            test,
            min(CANDIDATES, test.num_relations),
            loss=loss if is_typed else None,
            max_relations=MAX_RELATIONS,
        )


def _words(facts: Mapping[str, Any] | None) -> str:
    return "none" if facts is None else f"{facts['share']:g} with seed {facts['seed']}"
