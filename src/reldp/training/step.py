"""One private step: draw a batch, clip and sum its gradients, add noise, set ``.grad``.

A step is theory.md 1 for the plan at hand. The plan builds the sampler, the clipping rule and
the noise, so that they belong together. Gradients are clipped per unit over the whole logical batch,
noise is added to the sum also when the batch is empty, and the divisor is the public expected batch
size, never the realized one.

For small parameters, each unit's clipped gradient is a whole multiple of the grid on which the noise
lies, so the sum is exact. For large weights it is within a stated bound of the exact sum, and
thresholds are lowered to cover it. That a unit's gradient does not depend on its
position or on other units in any other way is checked on public rows (`reldp.training.guard`): before
the first step, at random steps, and whenever threads or precision have changed.

With noise, what a step leaves in ``parameter.grad`` is differentially private. Everything before the
noise is sensitive: batches, sums, and the `StepReport`.

A step refuses whatever would make the plan's epsilon false: a step that runs twice on one branch,
more steps than the plan has, a batch that was not drawn for it, and a module that was changed.

Public: `PrivateStep`.

>>> import numpy as np, tempfile
>>> from reldp.encoders import FeatureEncoder
>>> from reldp.graph import EntityGraph
>>> from reldp.plan import PrivacyPlan
>>> ring = [(i, (i + 1) % 400) for i in range(400)]
>>> graph = EntityGraph.from_lists(range(400), ring, features=np.eye(400, 3, dtype=np.float32))
>>> capped = graph.promise_degrees(2)
>>> plan = PrivacyPlan.for_graph(capped, sizes="public", num_negatives=2, expected_batch_size=10,
...                              num_steps=3, noise_multiplier=2.0)
>>> step = PrivateStep(FeatureEncoder(3), capped, plan)
>>> optimizer = torch.optim.Adam(step.parameters.values())
>>> with tempfile.TemporaryDirectory() as home:
...     with step.record(home + "/run") as run:
...         for number in run:
...             report = run.backward()  # sets .grad
...             optimizer.step()
>>> run.certificate.values["steps"]["counted"]
3
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from reldp._torch_state import plain_torch
from reldp.encoders import Encoder
from reldp.errors import ConfigError, RunError
from reldp.gradients import ClippedSum, GradientSettings, PerUnitGradients
from reldp.gradients.cuda_graphs import MicrobatchRunner
from reldp.gradients.microbatches import Microbatch, MicrobatchShapes
from reldp.noise import GaussianNoise, Streams, add_noise
from reldp.training.chosen_loss import resolve_loss
from reldp.training.config import PerformanceSettings
from reldp.training.distributed import BatchShares
from reldp.training.encoder_contract import checked_embeddings
from reldp.training.fit import check_batch, check_fit, check_table, make_table
from reldp.training.guard import LocalityGuard
from reldp.training.loss_check import check_loss
from reldp.training.margins import MAX_SUM, max_batch_units, threshold_margin
from reldp.training.memory import refuse_memory_settings
from reldp.training.messages import same_messages
from reldp.training.objective import Objective
from reldp.training.precision import autocast
from reldp.training.public_graphs import refuse_private_pool
from reldp.training.repeatability import is_repeatable, repeatable_attention
from reldp.training.shapes import microbatch_shapes
from reldp.training.step_report import StepReport
from reldp.training.step_state import StepState
from reldp.training.unit_inputs import unit_inputs
from reldp.training.unit_rows import UnitRows

if TYPE_CHECKING:
    from reldp.clipping import ClipUnits
    from reldp.graph import CappedGraph
    from reldp.losses import Loss
    from reldp.plan import PrivacyPlan
    from reldp.sampling import TupleBatch, TupleSampler
    from reldp.training.recording import RecordedRun

__all__ = ["PrivateStep"]


class PrivateStep:
    """Noisy gradients of an encoder and a loss, for a training loop of one's own.

    A loop takes its steps inside of `record`, which counts them in a ledger and gives a certificate. Tests and
    benchmarks may `open` a step with streams of their own: nothing is counted, and no guarantee covers it.

    A *branch* numbers the random streams that steps draw from: a step that is executed again with other weights, data
    or arithmetic needs another, so that no noise is used for two sums. A run uses 0 first, then random numbers.

    Attributes:
        parameters: The trainable parameters by name, whose ``.grad`` a step sets.
    """

    @plain_torch()
    def __init__(
        self,
        encoder: Encoder,
        capped: "CappedGraph",
        plan: "PrivacyPlan",
        *,
        loss: "str | Loss | None" = None,
        clip: bool = True,
        performance: PerformanceSettings | None = None,
        pool: Any = None,
        pool_shares_entities: bool = False,
        table: Any = None,
    ) -> None:
        """Prepare everything that does not depend on the key.

        Args:
            encoder: The encoder to train; changed in place.
            capped: The training graph.
            plan: The privacy plan, which must be about this graph.
            loss: A name of an included loss, or any callable that follows `reldp.losses.Loss`; InfoNCE
                unless given. Parameters of a loss that is a module are trained as the encoder's are.
            clip: Whether gradients are clipped. May be False only without noise, for comparison.
            performance: How steps are computed, and where: unless given, where the encoder is. Epsilon does not depend
                on it, but ``noise_generator="fast"`` gives up what the proof assumes; a certificate says so.
            pool: Public entities from which negatives are drawn, where the plan says so.
            pool_shares_entities: Whether a pool with protected entities, by id and content, is public all the same.
            table: The result of ``encoder.table(capped, pool=pool)``, if it is at hand.
        """
        self._encoder, self._capped, self._plan, self._pool = encoder, capped, plan, pool
        self._performance = PerformanceSettings() if performance is None else performance
        self._check_fit(clip)
        refuse_private_pool(pool, capped, shares_entities=pool_shares_entities)
        if performance is not None:
            encoder.to(performance.device)
        self._objective = Objective(encoder.eval(), resolve_loss(loss, plan, capped, encoder), plan)
        check_loss(self._objective)
        self._modules, self._parts = self._objective.modules(), self._objective.parts()
        self.parameters: dict[str, nn.Parameter] = self._objective.parameters
        if not encoder.trainable():
            fix = 'Pass train="lora" or train="full" to TextEncoder.load, or unfreeze layers of a module.'
            raise ConfigError(f"`encoder` must have trainable parameters, got none. {fix}")
        settings = GradientSettings(check_isolation=False, check_leaves=True)
        self._engine = PerUnitGradients(self._objective.module, settings) if clip else None
        self._shares = BatchShares.of(self._objective, self._engine, plan)
        table = make_table(encoder, capped, self._performance, pool) if table is None else table
        check_table(table, capped, plan)
        self._rows = UnitRows(encoder, table)
        self._shapes = self._microbatch_shapes()
        weights = [
            p for module in self._modules for p in module._parameters.values() if p is not None
        ]
        self._runner = MicrobatchRunner(
            self._microbatch_sum,
            cuda_graphs=self._performance.cuda_graphs,
            addresses=lambda: tuple(p.data_ptr() for p in weights),
            padding=self._rows.tokens.padding,
            token_mask=self._rows.tokens.mask,
        )
        self._guard = LocalityGuard(self._objective, self._rows, self._runner)
        self._streams: Streams | None = None
        self._sampler: TupleSampler | None = None
        self._noise: GaussianNoise | None = None
        # The step and the branch that each batch was drawn for.
        self._drawn: WeakKeyDictionary[TupleBatch, tuple[int, int]] = WeakKeyDictionary()
        self._is_recorded = self._is_counted = self._compares_rows = False
        self._state = StepState(self._objective, self._rows)

    def record(self, folder: str | Path, *, checkpoint_every: int = 100) -> "RecordedRun":
        """Return the run in a folder, for ``with``: it counts every step and ends in a certificate.

        Args:
            folder: The run folder: new, or with a run of this step that was interrupted.
            checkpoint_every: Steps between saved weights.
        """
        from reldp.training.recording import RecordedRun

        return RecordedRun(self, folder, checkpoint_every=checkpoint_every)

    @plain_torch()
    def prepare(self) -> None:
        """Check on public rows that units are independent, and select the layout of microbatches.

        Raises:
            InputError: A unit's gradient depends on more than that unit.
        """
        if self._engine is not None and not self._guard.is_current:
            self._rows.check()
            self._shapes = self._guard.find_layouts(self._microbatch_shapes())
            self._rows.check()
            self._guard.frozen.check()  # before a private row is spent on an encoder that keeps it

    def open(self, streams: Streams) -> None:
        """Take streams of random draws and noise, for tests and benchmarks; prepare the step if need be.

        Sensitive: nothing counts the steps or stops one from being run twice, so there is no certificate.

        Raises:
            RunError: The step is recorded.
        """
        if self._is_recorded or self._objective.is_held:
            raise RunError("`open` must not be called while the step is recorded, got a record.")
        refuse_memory_settings(self._performance)
        self._open(streams)

    def _open_recorded(self, streams: Streams) -> None:
        """Take the streams of a recorded run, whose steps run inside of `_counted` only."""
        if self._is_recorded:
            raise RunError("A step must have one record at a time, got a second.")
        self._open(streams)
        self._is_recorded = True

    def _close_recorded(self) -> None:
        """Forget the streams of a recorded run."""
        if self._is_recorded:
            self.close()
            self._streams = self._sampler = self._noise = None
            self._is_recorded = False

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Allow steps, which the caller has counted in a ledger."""
        self._is_counted = True
        try:
            yield
        finally:
            self._is_counted = False

    def _open(self, streams: Streams) -> None:
        self.prepare()
        if self._engine is not None:
            self._shares.check_layouts(self._guard, self._shapes, self._margin)
        self.close()
        self._streams, self._compares_rows = streams, True
        self._sampler = self._plan.sampler(self._capped, streams)
        self._noise = self._plan.noise(streams, self._performance.noise_generator)

    def close(self) -> None:
        """Stop drawing noise ahead of time."""
        if self._noise is not None:
            self._noise.close()

    def draw(self, step: int, branch: int = 0) -> "TupleBatch":
        """Draw the batch of a step. Sensitive."""
        batch = self._open_sampler().sample(step, branch)
        self._drawn[batch] = step, branch
        return batch

    @plain_torch()
    def run(self, batch: "TupleBatch", step: int, branch: int = 0) -> StepReport:
        """Set ``.grad`` of every trainable parameter to the noisy gradient of a batch.

        Args:
            batch: The batch that `draw` returned for this step and branch.
            step: Number of the step, below the plan's number of steps.
            branch: Number of the branch. Steps of all branches count.

        Raises:
            RunError: The step ran before, is beyond the plan, not counted, or has another batch; or the module changed.
        """
        self._open_sampler()
        self._check_batch(batch, step, branch)
        self._check_again(step, branch)
        clipped = self.clipped_sum(self.clip_units(batch))
        if self._streams is not None:
            self._streams.claim(branch, step)
        self._objective.mark_trained()
        total = self._add_noise(clipped.total, batch.num_tuples, step, branch)
        self._shares.check_equal(total, step)
        self._set_gradients(total / self._plan.expected_batch_size)
        return StepReport.of(batch, clipped)

    def _check_batch(self, batch: "TupleBatch", step: int, branch: int) -> None:
        """Refuse a batch that was not drawn for the step, and steps that the plan does not have."""
        num_claimed = 0 if self._streams is None else self._streams.num_claimed
        check_batch((step, branch), self._drawn.get(batch), self._plan.num_steps, num_claimed)

    def _open_sampler(self) -> "TupleSampler":
        """Return the sampler; refuse a step that no ledger counts."""
        if self._sampler is None or (self._is_recorded and not self._is_counted):
            raise RunError(
                "A step must be counted before it runs, got one outside of a ledger. Use `with "
                "step.record(folder) as run`, and run.backward() in a loop over run."
            )
        return self._sampler

    def _check_again(self, step: int, branch: int) -> None:
        """Check locality again at random steps, or when the arithmetic may have changed."""
        self._objective.check_parts(self._parts)
        self._objective.check_unchanged()
        if any(module.training for module in self._modules):
            self._objective.eval()  # with dropout, a resumed run would add the same noise to other sums
        if self._engine is None or self._streams is None:
            return
        if self._shares.processes.any(not self._guard.is_current, about=f"step {step}")[0]:
            self._guard.forget()  # in all processes, if the arithmetic of one has changed
            self.prepare()
            self._shares.check_layouts(self._guard, self._shapes, self._margin)
        place = self._streams, step, branch
        if self._shares.check_again(self._guard, self._shapes, *place):
            self._compares_rows = True

    def clip_units(self, batch: "TupleBatch") -> "ClipUnits":
        """Lay out a batch in clip units, those with the longest rows first. Sensitive."""
        units = self._plan.clipping.units(
            batch.positives,
            batch.negatives,
            clip_norm=self._plan.clip_norm,
            endpoints=batch.endpoints,
            mask=batch.mask,
            types=batch.types,
        )
        return units.take(self._rows.order(units.entities))

    def clipped_sum(self, units: "ClipUnits") -> ClippedSum:
        """Return the sum over units of their clipped gradients, before noise. Sensitive."""
        if units.num_units > max_batch_units(self._plan):
            raise RunError(
                f"A batch must have at most {max_batch_units(self._plan)} clip units, far more than the plan "
                "expects, got more. The sampler draws no such batch: pass what `draw` returned."
            )
        margin = self._margin
        thresholds = torch.from_numpy(units.thresholds * (1.0 - margin)).to(self._encoder.device)
        shapes = {name: p.shape for name, p in self.parameters.items()}
        clipped = ClippedSum.of_nothing(shapes, self._encoder.device)
        microbatches = self._shapes.split(self._rows.longest(units.entities))
        share = self._shares.of_process(microbatches)
        with same_messages():
            for index, (part, shape) in enumerate([*share, *self._shares.padding(microbatches)]):
                inputs = unit_inputs(units, part, self._rows, thresholds, self._plan.grid)
                added = self._runner.run(shape, inputs)
                if index < len(share):  # padding keeps processes in step, and is dropped
                    clipped = clipped.plus(added) if clipped.num_units else added
        if self._margin > margin:
            raise RunError(
                "A layer must see no more positions (tokens) per microbatch than in the check on public rows, "
                "got more. The encoder's shapes must not depend on values."
            )
        if self._shares.processes.is_alone:
            return clipped
        arithmetic = margin, self._shapes, microbatches, self._plan.grid, self._runner.cuda_graphs
        state = self._state.of(units, arithmetic, custom_rows=self._compares_rows)
        self._compares_rows = False
        return self._shares.sum(clipped, [part for part, _ in share], units.num_units, state)

    @property
    def _margin(self) -> float:
        """Share by which thresholds are reduced for sums that are not exact."""
        if self._engine is None:
            return 0.0
        positions, inexact = self._engine.max_positions, self._engine.num_inexact
        return threshold_margin(self._plan, max_positions=positions, num_inexact=inexact)

    def _microbatch_sum(self, microbatch: Microbatch) -> ClippedSum:
        """Return the sum over a microbatch; a CUDA graph captures this, so nothing is read back."""
        if self._engine is not None:
            clipped = self._engine.clipped_sum(
                lambda start, stop: self._losses(microbatch),
                microbatch.thresholds,
                microbatch.rows_per_unit,
                weights=microbatch.weights,
                grid=microbatch.grid,
                apart=microbatch.apart,
                witness=microbatch.witness,
            )
            return clipped.select(self._objective.engine_names)
        losses = self._losses(microbatch) * microbatch.weights
        return ClippedSum.without_clipping(losses, self.parameters)

    def _losses(self, microbatch: Microbatch) -> Tensor:
        """Return the loss of each unit of a microbatch, (units,), from one forward pass."""
        device = self._encoder.device
        with autocast(device, self._performance), repeatable_attention(device):
            embeddings = self._encoder.embed(dict(microbatch.rows))
        num_rows = len(next(iter(microbatch.rows.values())))
        embeddings = checked_embeddings(embeddings, num_rows, self._encoder)
        given = microbatch.endpoints, microbatch.mask, microbatch.types
        units = embeddings.view(len(given[0]), -1, embeddings.shape[-1])  # (units, rows, dim)
        return self._objective.values(units, *given, by_unit=self._engine is not None)

    def _add_noise(self, total: Tensor, num_tuples: int, step: int, branch: int) -> Tensor:
        """Return the sum, which is in multiples of the grid, with the noise of a step added."""
        plan = self._plan
        if plan.grid is None:
            return total
        if num_tuples > MAX_SUM * plan.noise_multiplier:
            raise RunError(
                f"A batch must have at most {MAX_SUM:g} tuples per unit of noise_multiplier, got more: their sum "
                "would not be exact on the noise's grid. Use a smaller batch or more noise."
            )
        noise = self._draw_noise(step, branch, total := total * plan.grid)
        return add_noise(total, noise, standard_deviation=plan.noise_std)

    def _draw_noise(self, step: int, branch: int, total: Tensor) -> Tensor:
        """Draw N(0, 1) like the total; where steps are repeated, another total has other noise."""
        assert self._noise is not None, "open comes first"
        if is_repeatable(total.device.type):
            return torch.from_numpy(self._noise.draw_for(total.numpy().data, step, branch))
        return torch.from_numpy(self._noise.draw(step, branch, total.numel())).to(total.device)

    def _set_gradients(self, total: Tensor) -> None:
        """Hand every parameter its part of the whole (parameters,)."""
        parts = torch.split(total, [p.numel() for p in self.parameters.values()])
        for parameter, part in zip(self.parameters.values(), parts, strict=True):
            parameter.grad = part.view(parameter.shape).to(parameter.dtype)

    def _microbatch_shapes(self) -> MicrobatchShapes:
        units, processes = self._performance.microbatch_units, self._shares.processes.size
        return microbatch_shapes(self._plan, self._rows, units=units, processes=processes)

    def _check_fit(self, clip: bool) -> None:
        """Refuse a plan that is not about the graph."""
        check_fit(self._capped, self._plan, clip=clip)
