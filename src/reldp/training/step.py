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

Public: `PrivateStep`. Public inside the package: `TRAINED`.

>>> import numpy as np
>>> from reldp.encoders import FeatureEncoder
>>> from reldp.graph import EntityGraph
>>> from reldp.noise import Streams
>>> from reldp.plan import PrivacyPlan
>>> ring = [(i, (i + 1) % 400) for i in range(400)]
>>> graph = EntityGraph.from_lists(range(400), ring, features=np.eye(400, 3, dtype=np.float32))
>>> capped = graph.promise_degrees(2)
>>> plan = PrivacyPlan.for_graph(capped, sizes="public", num_negatives=2, expected_batch_size=10,
...                              num_steps=3, noise_multiplier=2.0)
>>> step = PrivateStep(FeatureEncoder(3), capped, plan)
>>> step.open(Streams(bytes(32)))  # a run takes a key from the operating system
>>> report = step.run(step.draw(0), 0)  # then the optimizer's step
>>> all(parameter.grad is not None for parameter in step.parameters.values())
True
"""

import math
from contextlib import AbstractContextManager, nullcontext
from operator import is_not
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp.encoders import Encoder
from reldp.encoders.tokens import RowTable
from reldp.errors import ConfigError, RunError
from reldp.gradients import ClippedSum, GradientSettings, PerUnitGradients
from reldp.gradients.cuda_graphs import MicrobatchRunner
from reldp.gradients.microbatches import Microbatch, MicrobatchShapes, UnitInputs, typical_units
from reldp.noise import GaussianNoise, Streams, add_noise
from reldp.training.config import PerformanceSettings
from reldp.training.fit import check_fit, refuse_compiled
from reldp.training.guard import LocalityGuard
from reldp.training.margins import MAX_SUM, max_batch_units, threshold_margin
from reldp.training.objective import checked_loss
from reldp.training.repeatability import is_repeatable, repeatable_attention
from reldp.training.step_report import StepReport
from reldp.training.unit_rows import unit_rows

if TYPE_CHECKING:
    from reldp.clipping import ClipUnits
    from reldp.graph import CappedGraph
    from reldp.losses import Loss
    from reldp.plan import PrivacyPlan
    from reldp.sampling import TupleBatch, TupleSampler

__all__ = ["TRAINED", "PrivateStep"]

# Encoders that a step or a run has changed, in this process.
TRAINED: "WeakSet[Encoder]" = WeakSet()


class PrivateStep:
    """Set the noisy gradients of an encoder, step by step.

    A training loop calls ``open`` once, and for each step ``draw``, ``run`` and the optimizer.

    A *branch* is the number of the random stream that steps draw from; a loop that never starts over uses 0. A step
    that is executed again with other weights, data or arithmetic needs a branch of its own, so that no noise is used
    for two sums. `Trainer` uses 0 for the first branch of its ledger and a random number for each later one.

    Attributes:
        parameters: The trainable parameters by name, whose ``.grad`` a step sets.
    """

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
        table: Any = None,
    ) -> None:
        """Prepare everything that does not depend on the key.

        Args:
            encoder: The encoder to train; changed in place.
            capped: The training graph.
            plan: The privacy plan, which must be about this graph.
            loss: The loss or its name; InfoNCE unless given.
            clip: Whether gradients are clipped. May be False only without noise, for comparison.
            performance: How steps are computed, and on which device. Epsilon does not depend on it. But
                ``noise_generator="fast"`` gives up what the proof assumes of the noise; a certificate
                says so. Unless given, steps run where the encoder is.
            pool: Public entities from which negatives are drawn, where the plan says so.
            table: The result of ``encoder.table(capped, pool=pool)``, if it is at hand.
        """
        self._encoder, self._capped, self._plan = encoder, capped, plan
        self._performance = PerformanceSettings() if performance is None else performance
        self._loss = checked_loss(loss, plan)
        self._check_fit(clip)
        refuse_compiled(encoder.module)
        if performance is not None:
            encoder.to(performance.device)
        self._modules = tuple(encoder.eval().module.modules())
        self._parts = _parts_of(encoder.module)
        self.parameters: dict[str, nn.Parameter] = encoder.trainable()
        if not self.parameters:
            raise ConfigError(
                "`encoder` must have trainable parameters, got none. For a text model, pass "
                'train="lora" or train="full" to TextEncoder.load.'
            )
        # The guard checks locality on public rows and to the bit, so the engine does not.
        unchecked = GradientSettings(check_isolation=False)
        self._engine = PerUnitGradients(encoder.module, unchecked) if clip else None
        self._table = encoder.table(capped, pool=pool) if table is None else table
        self._check_table()
        self._shapes = self._microbatch_shapes()
        self._runner = MicrobatchRunner(
            self._microbatch_sum,
            cuda_graphs=self._performance.cuda_graphs,
            addresses=lambda: tuple(p.data_ptr() for p in self.parameters.values()),
            pad_id=getattr(self._table, "pad_id", 0),
        )
        self._guard = LocalityGuard(encoder, self._table, self._runner)
        self._streams: Streams | None = None
        self._sampler: TupleSampler | None = None
        self._noise: GaussianNoise | None = None
        # The step and the branch that each batch was drawn for.
        self._drawn: WeakKeyDictionary[TupleBatch, tuple[int, int]] = WeakKeyDictionary()

    def prepare(self) -> None:
        """Check on public rows that units are independent, and select the layout of microbatches.

        Raises:
            InputError: A unit's gradient depends on more than that unit.
        """
        if self._engine is not None and not self._guard.is_current:
            self._shapes = self._guard.find_layouts(self._microbatch_shapes())

    def open(self, streams: Streams) -> None:
        """Take the run's streams of random draws and noise; prepare the step if need be."""
        self.prepare()
        self.close()
        self._streams = streams
        self._sampler = self._plan.sampler(self._capped, streams)
        self._noise = self._plan.noise(streams, self._performance.noise_generator)

    def close(self) -> None:
        """Stop drawing noise ahead of time."""
        if self._noise is not None:
            self._noise.close()

    def draw(self, step: int, branch: int = 0) -> "TupleBatch":
        """Draw the batch of a step. Sensitive."""
        if self._sampler is None:
            raise RunError("A step must be opened before it draws, got one that is not. Call open.")
        batch = self._sampler.sample(step, branch)
        self._drawn[batch] = step, branch
        return batch

    def run(self, batch: "TupleBatch", step: int, branch: int = 0) -> StepReport:
        """Set ``.grad`` of every trainable parameter to the noisy gradient of a batch.

        Args:
            batch: The batch that `draw` returned for this step and branch.
            step: Number of the step, below the plan's number of steps.
            branch: Number of the branch. Steps of all branches count.

        Raises:
            RunError: The step ran before on this branch, is beyond the plan, or has another batch; or the module
                was changed.
        """
        self._check_batch(batch, step, branch)
        self._check_again(step, branch)
        clipped = self.clipped_sum(self.clip_units(batch))
        if self._streams is not None:
            self._streams.claim(branch, step)
        TRAINED.add(self._encoder)
        total = self._add_noise(clipped.total, batch.num_tuples, step, branch)
        self._set_gradients(total / self._plan.expected_batch_size)
        return StepReport.of(batch, clipped)

    def _check_batch(self, batch: "TupleBatch", step: int, branch: int) -> None:
        """Refuse a batch that was not drawn for the step, and steps that the plan does not have."""
        num_steps = self._plan.num_steps
        if self._drawn.get(batch) != (step, branch):
            raise RunError(
                f"`batch` must be what `draw` returned for step {step} of branch {branch}, got "
                "another. Epsilon holds for the batches that the plan's sampler draws."
            )
        if step >= num_steps or (self._streams and self._streams.num_claimed >= num_steps):
            raise RunError(
                f"Steps must be at most the plan's {num_steps}, got one more. Plan more steps: "
                "epsilon counts those of the plan."
            )

    def _check_again(self, step: int, branch: int) -> None:
        """Check locality again at random steps, or when the arithmetic may have changed."""
        parts = _parts_of(self._encoder.module)
        if len(parts) != len(self._parts) or any(map(is_not, parts, self._parts)):
            raise RunError(
                "`encoder` must keep its layers, parameters and forward hooks while it is trained, got others. "
                "New parameters would get gradients without noise, and new layers were not checked. "
                "Make a new PrivateStep after changing a module."
            )
        if any(module.training for module in self._modules):
            self._encoder.eval()  # dropout: a step executed again would have another sum, and on a GPU the same noise
        if self._engine is not None and self._streams is not None:
            self.prepare()
            self._guard.check_again(self._shapes, self._streams, step, branch)

    def clip_units(self, batch: "TupleBatch") -> "ClipUnits":
        """Lay out a batch in clip units, those with the longest rows first. Sensitive."""
        units = self._plan.clipping.units(
            batch.positives,
            batch.negatives,
            clip_norm=self._plan.clip_norm,
            endpoints=batch.endpoints,
            mask=batch.mask,
        )
        return units.take(self._table.order(units.entities))

    def clipped_sum(self, units: "ClipUnits") -> ClippedSum:
        """Return the sum over units of their clipped gradients, before noise. Sensitive."""
        if units.num_units > max_batch_units(self._plan):
            raise RunError(
                f"A batch must have at most {max_batch_units(self._plan)} clip units, far more than the plan "
                "expects, got more. The sampler draws no such batch: pass what `draw` returned."
            )
        margin = self._margin
        thresholds = self._on_device(units.thresholds * (1.0 - margin))
        clipped: ClippedSum | None = None
        longest = self._table.lengths[units.entities].max(axis=1, initial=1)  # (units,)
        for part, shape in self._shapes.split(longest):
            inputs = UnitInputs(
                rows=unit_rows(self._encoder, self._table, units.entities[part]),
                endpoints=self._on_device(units.endpoints[part]).long(),
                mask=self._on_device(units.mask[part]),
                thresholds=thresholds[part],
                grid=self._plan.grid,
            )
            added = self._runner.run(shape, inputs)
            clipped = added if clipped is None else clipped.plus(added)
        if self._margin > margin:
            raise RunError(
                "A layer must see no more positions (tokens of all rows) per microbatch than in the check on "
                "public rows, got more. The encoder's shapes must not depend on values."
            )
        if clipped is None:
            shapes = {name: p.shape for name, p in self.parameters.items()}
            return ClippedSum.of_nothing(shapes, self._encoder.device)
        return clipped

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
            return clipped.select(self.parameters)
        losses = self._losses(microbatch) * microbatch.weights
        parameters = list(self.parameters.values())
        gradients = torch.autograd.grad(
            losses.sum(), parameters, allow_unused=True, materialize_grads=True
        )
        losses = losses.detach()
        return ClippedSum(
            total=torch.cat([gradient.reshape(-1).double() for gradient in gradients]),
            shapes={name: p.shape for name, p in self.parameters.items()},
            norms=torch.full_like(losses, math.nan),
            losses=losses,
            factors=torch.ones_like(losses),
        )

    def _losses(self, microbatch: Microbatch) -> Tensor:
        """Return the loss of each unit of a microbatch, (units,), from one forward pass."""
        with self._autocast(), repeatable_attention(self._encoder.device):
            embeddings = self._encoder.embed(dict(microbatch.rows))
        units = len(microbatch.endpoints)
        embeddings = embeddings.view(units, -1, embeddings.shape[-1])  # (units, rows, dim)
        return self._loss(embeddings, microbatch.endpoints, microbatch.mask)

    def _autocast(self) -> AbstractContextManager[Any]:
        if self._performance.precision == "float32":
            return nullcontext()
        # A CUDA graph must cast weights at every replay, not once.
        cached = not self._performance.cuda_graphs
        kind = self._encoder.device.type
        return torch.autocast(kind, dtype=torch.bfloat16, cache_enabled=cached)

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
        total = total * plan.grid
        noise = self._draw_noise(step, branch, total)
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
        """Return the shapes of microbatches, from the plan, the encoder and the settings: all public."""
        plan, k = self._plan, self._plan.num_negatives
        units_per_tuple = plan.clipping.units_per_tuple(k)
        max_length = getattr(self._encoder, "max_length", None)
        if not isinstance(self._table, RowTable):
            max_length = None
        elif not isinstance(max_length, int):
            raise ConfigError(
                "`encoder` must have a max_length for rows of tokens, got none. Shapes of "
                "microbatches must be public, so they cannot be taken from the texts."
            )
        return MicrobatchShapes(
            rows_per_unit=plan.clipping.rows_per_unit(k),
            typical_units=typical_units(plan.expected_batch_size, units_per_tuple),
            max_length=max_length,
            device_type=self._encoder.device.type,
            units=self._performance.microbatch_units,
        )

    def _check_fit(self, clip: bool) -> None:
        """Refuse a plan that is not about the graph."""
        check_fit(self._capped, self._plan, clip=clip)

    def _check_table(self) -> None:
        """Refuse a table without the public entities of the plan."""
        plan, num_entities = self._plan, self._capped.num_entities
        expected = num_entities + (plan.pool_size if plan.negatives == "public" else 0)
        if len(self._table) != expected:
            raise ConfigError(
                f"`pool` must hold the plan's {plan.pool_size} public entities, "
                f"got {len(self._table) - num_entities}."
            )

    def _on_device(self, values: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self._encoder.device)


def _parts_of(module: nn.Module) -> list[Any]:
    """Return the layers, parameters and forward hooks of a module, to be compared by identity."""
    parts: list[Any] = []
    for child in module.modules():
        hooks = child._forward_hooks, child._forward_pre_hooks
        parts += [
            child,
            *child._parameters.values(),
            *(h for group in hooks for h in group.values()),
        ]
    return parts
