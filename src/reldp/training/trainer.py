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
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

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
from reldp.training.checkpoint_schedule import checkpoint_schedule
from reldp.training.chosen_loss import (
    recorded_settings,
    refuse_loss_settings,
    relation_loss,
    resolve_loss,
    with_defaults,
)
from reldp.training.config import TrainingConfig
from reldp.training.counted_steps import BLOCK, CountedSteps, spent_after, warn_about_plan
from reldp.training.distributed import check_end, processes_for_bits
from reldp.training.facts import TrainingFacts
from reldp.training.fit import check_device, check_fit, check_parts, make_table
from reldp.training.holdout import HeldOut, check_holdout
from reldp.training.loss_check import check_loss
from reldp.training.memory import fit_memory, refuse_selection
from reldp.training.metrics import ReexecutionDiffers, progress_bar
from reldp.training.objective import Objective
from reldp.training.optimizers import (
    WeightAverage,
    check_optimizer,
    learning_rate,
    load_optimizer_state,
    make_optimizer,
    optimizer_state,
)
from reldp.training.public_graphs import refuse_private_pool
from reldp.training.repeatability import is_repeatable, no_random_numbers, repeatable
from reldp.training.result import TrainResult
from reldp.training.selection import Chosen, Selection
from reldp.training.shared_run import SharedLog, SharedRun
from reldp.training.state import TrainingState
from reldp.training.step import PrivateStep
from reldp.training.stopping import stop_requests
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
                warn_about_plan(self.plan, self.encoder, stacklevel=3)
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
                    _Loop(self, session, step, watch).run()
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


class _Loop:
    """The steps of one session."""

    def __init__(
        self, trainer: Trainer, session: Session, step: PrivateStep, watch: WeightWatch
    ) -> None:
        self._plan, self._config, self._callbacks = trainer.plan, trainer.config, trainer._callbacks
        self._processes = trainer._processes
        self._objective, self._session, self._step = trainer._objective, session, step
        self._selection, self._chosen = trainer._selection, Chosen()
        self._names = list(step.parameters)
        self._optimizer = make_optimizer(
            self._config.learning.optimizer,
            step.parameters.values(),
            self._config.learning.learning_rate,
            self._config.learning.optimizer_options,
        )
        self._steps = CountedSteps(step, session, self._plan, clip=self._config.learning.clip)
        with no_random_numbers():
            self._schedule = checkpoint_schedule(self._config.logging, step)
        self._average: WeightAverage | None = None
        self._restore(TrainingState.from_bytes(session.read_checkpoint()))
        self._watch = watch
        watch.note_trained()

    def _restore(self, state: TrainingState) -> None:
        self._objective.load(state.weights)
        self._chosen = Chosen.of(state)
        if state.optimizer or state.numbers:
            load_optimizer_state(self._optimizer, self._names, state.optimizer, state.numbers)
        if self._config.learning.average is not None:
            device = self._objective.encoder.device
            on_device = {name: value.to(device) for name, value in state.current.items()}
            self._average = WeightAverage(self._config.learning.average, on_device)

    def run(self) -> None:
        """Take every step that is left; a first Ctrl-C, SIGTERM or SIGHUP stops after a checkpoint."""
        first, stop = self._session.next_step, self._session.stop
        branch = self._session.ledger.branch
        config, processes = self._config, self._processes
        spent = spent_after(self._plan, self._session)
        shown = config.logging.progress if processes.is_first else False
        with (
            stop_requests() as asked_to_stop,
            SharedLog(processes, self._session, config, asked_to_stop) as log,
            progress_bar(shown, first, stop, spent) as advance,
        ):

            def calls(event: str, step: int) -> AbstractContextManager[None]:
                save = partial(self._save_stop, step, branch)
                return self._callbacks.called(event, self._watch, asked_to_stop, save)

            for step in range(first, stop):
                self._reserve(step)
                with calls("on_step_begin", step):
                    self._callbacks.begin(step, stop, spent)
                rate, report = self._take(step)
                log.write(step, rate, report, self._step.parameters)
                advance(step + 1)
                self._choose(step + 1, stop)
                self._watch.note_trained()
                with calls("on_step_end", step + 1):
                    asked = self._callbacks.end(rate, report)
                asked = log.agreed(asked)
                due = self._schedule.is_due(step + 1, stop)
                must_stop = log.must_stop
                if due or asked.checkpoint or asked.stop or must_stop:
                    by = self._callbacks.stopper if asked.stop and step + 1 < stop else None
                    self._watch.check_beside()
                    state = self._state(step + 1, branch)
                    self._session.save(step + 1, state.to_bytes(), stopped_by=by)
                    with calls("on_checkpoint", step + 1):
                        self._callbacks.saved()
                if must_stop and step + 1 < stop:
                    raise KeyboardInterrupt
                if asked.stop and step + 1 < stop:
                    self._callbacks.raise_stopped()
        self._watch.check_beside()  # before anything is released

    def _save_stop(self, step: int, branch: int, by: str) -> None:
        self._session.save_stop(step, self._state(step, branch).to_bytes(), stopped_by=by)

    def _reserve(self, step: int) -> None:
        """Count the next steps before the first of them runs."""
        repeated = is_repeatable(self._config.performance.device)
        block = self._schedule.steps_to_next(step) if repeated else BLOCK
        self._steps.reserve(step, min(block, self._config.logging.checkpoint_every))

    def _take(self, step: int) -> tuple[float, Any]:
        """One step: batch, noisy gradient, optimizer."""
        report = self._steps.take(step)
        config = self._config
        rate = learning_rate(
            config.learning.schedule,
            config.learning.learning_rate,
            step,
            self._plan.num_steps,
            config.learning.warmup_steps,
        )
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        if self._average is not None:
            self._average.update(self._step.parameters, step)
        return rate, report

    def _choose(self, step: int, stop: int) -> None:
        """Keep the weights if they are the best ones on the public graph."""
        if self._selection is not None and self._selection.is_due(step, stop):
            average = None if self._average is None else self._average.values
            current = self._step.parameters if average is None else average
            self._chosen = self._selection.better(self._chosen, step, self._objective, current)

    def _state(self, step: int, branch: int) -> TrainingState:
        tensors, numbers = optimizer_state(self._optimizer, self._names)
        return TrainingState(
            step=step,
            branch=branch,
            weights=dict(self._step.parameters),
            optimizer=tensors,
            numbers=numbers,
            average={} if self._average is None else self._average.values,
            best=self._chosen.weights,
            chosen=self._chosen.facts,
        )
