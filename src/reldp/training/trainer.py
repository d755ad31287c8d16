"""Trainer: executes a privacy plan on a graph, and nothing else.

    result = Trainer(encoder, capped, plan, learning_rate=2e-3).fit("run")

The loop draws the batches, takes exactly the plan's steps, counts each of them in the ledger
before it runs, and writes a certificate from that ledger. Calling `fit` again on the same folder
resumes a run that was stopped, however it was stopped (theory.md 6), and returns at once
for a complete one.

Public: `Trainer`, `TrainResult`.

>>> from reldp.encoders import FeatureEncoder
>>> from reldp.graph import EntityGraph
>>> from reldp.plan import PrivacyPlan
>>> import numpy as np, tempfile
>>> graph = EntityGraph.from_lists(list(range(400)), [(i, (i + 1) % 400) for i in range(400)],
...                                features=np.eye(400, 8, dtype=np.float32))
>>> capped = graph.promise_degrees(2)
>>> plan = PrivacyPlan.for_graph(capped, sizes="public", num_negatives=2, expected_batch_size=10, num_steps=3,
...                              noise_multiplier=2.0)
>>> with tempfile.TemporaryDirectory() as home:
...     result = Trainer(FeatureEncoder(8), capped, plan).fit(home + "/run")
>>> result.certificate.values["steps"]["counted"]
3
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from reldp._torch_state import plain_torch
from reldp._validate import refuse
from reldp.encoders import Encoder
from reldp.encoders.folders import state_hash
from reldp.errors import ConfigError
from reldp.graph import CappedGraph
from reldp.graph.holdout import Holdout
from reldp.losses import Loss
from reldp.plan import PrivacyPlan
from reldp.processes import join_processes
from reldp.runs.run_folder import RunFolder
from reldp.runs.session import Session
from reldp.training.agreement import check_facts
from reldp.training.callbacks import CallbackList, TrainingCallback
from reldp.training.chosen_loss import (
    recorded_settings,
    refuse_loss_settings,
    relation_loss,
    resolve_loss,
    with_defaults,
)
from reldp.training.config import TrainingConfig
from reldp.training.counted_steps import warn_about_plan
from reldp.training.distributed import check_end, processes_for_bits
from reldp.training.facts import TrainingFacts
from reldp.training.fit import check_device, check_fit, check_parts, make_table
from reldp.training.holdout import HeldOut, check_holdout
from reldp.training.loggers import check_loggers
from reldp.training.loop import TrainingLoop
from reldp.training.loss_check import check_loss
from reldp.training.memory import fit_memory, refuse_selection
from reldp.training.metrics import ReexecutionDiffers
from reldp.training.objective import Objective
from reldp.training.optimizers import (
    check_optimizer,
)
from reldp.training.public_graphs import refuse_private_pool
from reldp.training.repeatability import no_random_numbers, repeatable
from reldp.training.result import TrainResult
from reldp.training.selection import Selection
from reldp.training.shared_run import SharedRun
from reldp.training.state import TrainingState
from reldp.training.step import PrivateStep
from reldp.training.weight_watch import WeightWatch

__all__ = ["TrainResult", "Trainer"]


class Trainer:
    """Train an encoder on a capped graph under a privacy plan.

    Args:
        encoder: The encoder to train; changed in place.
        capped: The training graph.
        plan: The privacy plan; must fit the graph.
        loss: A name of an included loss, which takes the settings ``score``, ``temperature``, ``margin``,
            ``pairing`` and ``matryoshka_dims``, and ``objective`` and ``distance`` for typed relations; or any
            callable that follows `reldp.losses.Loss`.
        pool: Public entities for ``negatives="public"``: another graph, texts or features.
        pool_shares_entities: Whether a pool with protected entities, by id and content, is public all the same.
        callbacks: Run between steps (`reldp.training.callbacks`).
        selection: Evaluations on a public graph by which the released weights are chosen (`reldp.training.selection`);
            by default the last ones are released.
        holdout: The split that capped is the training part of (`reldp.graph.holdout`): the encoder is evaluated on its
            other part, before and after training. The results are sensitive.
        budget: Folder of the budget to enter the run in (`reldp budget`); by default that of the graph's folder, if
            it has one.
        **settings: Fields of `LearningSettings`, `PerformanceSettings` and `LoggingSettings`.
    """

    @plain_torch()
    def __init__(
        self,
        encoder: Encoder,
        capped: CappedGraph,
        plan: PrivacyPlan,
        *,
        loss: str | Loss | None = None,
        pool: Any = None,
        pool_shares_entities: bool = False,
        callbacks: Sequence[TrainingCallback] = (),
        selection: Selection | None = None,
        holdout: Holdout | None = None,
        budget: str | Path | None = None,
        **settings: Any,
    ) -> None:
        """Check that everything fits together, before anything is computed."""
        check_parts(encoder, plan)
        self.encoder, self.capped, self.plan = encoder, capped, plan
        self._is_named = loss is None or isinstance(loss, str)
        if not self._is_named:
            refuse_loss_settings(settings)
        elif loss is not None:
            settings["loss"] = loss
        config = TrainingConfig.make(**settings)
        self.config = replace(config, learning=with_defaults(config.learning, plan.negatives))
        self._callbacks = CallbackList(callbacks, log_sensitive=self.config.logging.log_sensitive)
        check_fit(capped, plan, clip=self.config.learning.clip)
        check_loggers(self.config.logging)
        check_optimizer(self.config.learning.optimizer, self.config.learning.optimizer_options)
        if self._is_named:
            self._loss = relation_loss(
                self.config.learning,
                negatives=plan.negatives,
                type_names=capped.type_names,
                dim=encoder.dim,
            )
        else:
            self._loss = resolve_loss(loss, plan, capped, encoder)
        self._objective = Objective(encoder, self._loss, plan)
        check_loss(self._objective)
        self._processes = join_processes()
        check_device(self.config.performance.device, self._processes)
        refuse_selection(self.config.performance, selection)
        check_holdout(holdout, capped, self.config.performance)
        if selection is not None:
            chosen: object = selection
            if not isinstance(chosen, Selection):
                fix = "Use Selection(public_graph, eval_every, capped)."
                refuse("selection", "a Selection", chosen, error=ConfigError, fix=fix)
            selection.refuse_private(capped, holdout)  # it may have been made with other graphs
        if (pool is None) == (plan.negatives == "public"):
            raise ConfigError(
                "`pool` must be given with negatives='public' and only then, "
                f"got {'none' if pool is None else 'one'} with {plan.negatives!r}."
            )
        refuse_private_pool(pool, capped, holdout, shares_entities=pool_shares_entities)
        self._pool = pool
        self._budget, self._purpose, self._selection = budget, "train", selection
        self._holdout = holdout
        self._search: Mapping[str, Any] | None = None
        self._table: Any = None
        self._step: PrivateStep | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse to exchange a part that was checked: the ledger must name what runs."""
        if name in ("encoder", "capped", "plan", "config") and name in vars(self):
            raise AttributeError(f"`{name}` of a Trainer cannot be changed. Make a new Trainer.")
        super().__setattr__(name, value)

    @plain_torch()
    def fit(self, folder: str | Path) -> TrainResult:
        """Run the plan in a folder, or resume the run there; return at once if it is complete.

        Raises:
            ResumeError: The folder holds a run of other data or another objective.
            RunError: The disk is full, or another process has the folder open.
            TrainingStopped: A callback stopped the run after a checkpoint.
        """
        with self._processes.reporting():
            run = SharedRun(self._processes, RunFolder(folder))
            held_out = HeldOut(self._holdout, self._objective) if self._holdout else None
            result = self._fit(run)
            return result if held_out is None else replace(result, holdout=held_out.results(run))

    def _fit(self, run: SharedRun) -> TrainResult:
        if not run.has_run:
            self._objective.check_untrained()
            if self._processes.is_first:
                warn_about_plan(self.plan, self.encoder, stacklevel=4)
        threads = run.threads(self.config.performance.threads, torch.get_num_threads())
        with repeatable(self.config.performance.device, threads), ExitStack() as stack:
            # Before anything is computed: dropout would give other sums every time.
            performance = self.config.performance
            place = "cpu" if performance.shard_weights else performance.device
            self.encoder.to(place).eval().check_finite()
            facts = self._facts(threads)
            sensitive = {"logging.log_sensitive": self.config.logging.log_sensitive}
            check_facts(self._processes, facts, is_new=not run.has_run, shown=sensitive)
            whole = fit_memory(self.encoder, performance, self._processes, facts)
            stack.callback(whole.restore)
            if whole.is_changed:
                self._step = None  # a step is made for the module as it is
            if not run.has_run and self.plan.num_steps:
                self._check_selection()
                with no_random_numbers():
                    self._prepared().prepare()  # a refusal leaves no run behind
            with self._objective.held(self), run.open(facts, self._first_state) as session:
                self._objective.mark_trained()
                if not session.is_complete:
                    self._run(session)
                    self._objective.check_unchanged()
                whole.restore()
                state = TrainingState.from_bytes(session.read_checkpoint())
                self._objective.load(state.released)
                if not session.is_complete:
                    hashed = state_hash(self._objective.parameters)
                    chosen = {"chosen": dict(state.chosen)} if state.chosen else {}
                    session.complete(self._objective.save, hashed, **chosen)
        return TrainResult(
            certificate=run.certificate(),
            encoder=self.encoder,
            loss=self._loss,
            folder=run.run.path,
            metrics=run.metrics(),
        )

    def _facts(self, threads: int) -> TrainingFacts:
        """Return what the run is, for its ledger."""
        clip = self.config.learning.clip
        return TrainingFacts(
            objective=self._objective,
            capped=self.capped,
            plan=self.plan,
            training=recorded_settings(self.config.learning, is_named=self._is_named),
            performance=self.config.performance,
            threads=threads,
            make_table=self._rows,
            pool=self._pool,
            budget_folder=self._budget,
            purpose=self._purpose,
            selection=None if self._selection is None else self._selection.facts,
            search=self._search,
            holdout=self._holdout,
            count_processes=lambda: processes_for_bits(self._objective, self.plan, clip=clip),
        )

    def _check_selection(self) -> None:
        """Refuse a graph to choose weights by that cannot be evaluated."""
        if self._selection is not None:
            self.encoder.to(self.config.performance.device).eval()
            self._selection.check(self.encoder, self._objective.loss)

    def _rows(self) -> Any:
        """Return the rows that steps use, made once."""
        if self._table is None:
            performance = self.config.performance
            self._table = make_table(self.encoder, self.capped, performance, self._pool)
        return self._table

    def _first_state(self) -> bytes:
        """Return the checkpoint before the first step."""
        return TrainingState(step=0, branch=0, weights=self._objective.parameters).to_bytes()

    def _run(self, session: Session) -> None:
        """Run all steps that are left."""
        if session.next_step >= session.stop or session.streams is None:
            return
        step = self._prepared()
        step._open(session.streams)
        watch = WeightWatch(self._objective, is_on=self._callbacks.run_code_from_outside)
        try:
            while True:
                try:
                    TrainingLoop(self, session, step, watch).run()
                    check_end(step)
                    return
                except ReexecutionDiffers:
                    session.open_branch("re-executed steps were not bitwise identical")
        finally:
            step.close()

    def _prepared(self) -> PrivateStep:
        if self._step is None:
            self._step = PrivateStep(
                self.encoder,
                self.capped,
                self.plan,
                loss=self._loss,
                clip=self.config.learning.clip,
                performance=self.config.performance,
                pool=self._pool,
                pool_shares_entities=True,  # looked at before
                table=self._rows(),
            )
        return self._step
