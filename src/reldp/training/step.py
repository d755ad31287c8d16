"""One private step: batch, clipped sum, noise, division by the public batch size.

Exactly theory.md section 1, for the plan at hand: Poisson positives and negatives without
replacement from the run's random draws; per-unit gradients clipped by the plan's rule over the whole
logical batch; noise on the sum, also when the batch is empty; the divisor is the public expected
batch size, never the realized one.

Each unit's clipped gradient is a whole number of steps of the noise's grid, so the sum is exact and
a unit's part of it cannot depend on the order of additions; that it does not depend on the unit's
place or neighbors in any other way is checked on public rows (`reldp.training.guard`) when the step
is opened, at random steps, and whenever threads or precision have changed. What a step leaves
in ``parameter.grad`` is private; its `StepReport` is sensitive.

Public inside the package: `PrivateStep`, `StepReport`, `Batch`, `relation_loss`, `LARGEST_SUM`.

>>> LARGEST_SUM
1048576.0
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp.encoders import Encoder
from reldp.encoders.tokens import RowTable
from reldp.errors import ConfigError, RunError
from reldp.gradients import GradientSettings, PerUnitGradients, sum_error
from reldp.losses import RelationLoss
from reldp.noise import GRID, GaussianNoise, Streams, add_noise
from reldp.sampling import TupleSampler
from reldp.training.frames import Frame, Shapes, Summed, most_units
from reldp.training.guard import LocalityGuard
from reldp.training.repeatability import is_repeatable, repeatable_attention
from reldp.training.replay import Replay
from reldp.training.unit_rows import unit_rows

if TYPE_CHECKING:
    from reldp.clipping import ClipUnits
    from reldp.graph import CappedGraph
    from reldp.plan import PrivacyPlan
    from reldp.training.config import TrainingConfig

__all__ = ["LARGEST_SUM", "Batch", "PrivateStep", "StepReport", "relation_loss"]

# Sums up to this many standard deviations are exact in float64 on the noise's grid of 2^-30, with
# three bits to spare.
LARGEST_SUM = 2.0**20


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """What a step met. Sensitive: computed from private data without noise.

    Attributes:
        num_tuples: The realized batch size.
        overflow: The batch could not be drawn and was empty.
        loss: Mean loss of the clip units.
        median_norm: Median gradient norm of the clip units before clipping.
        clipped_share: Share of clip units that were made shorter.
        num_nonfinite: Clip units left out because their gradient was not finite.
    """

    num_tuples: int
    overflow: bool
    loss: float
    median_norm: float
    clipped_share: float
    num_nonfinite: int


class PrivateStep:
    """Turns (step, branch) into noisy gradients of an encoder."""

    def __init__(
        self,
        encoder: Encoder,
        capped: "CappedGraph",
        plan: "PrivacyPlan",
        config: "TrainingConfig",
        *,
        pool: Any = None,
        table: Any = None,
    ) -> None:
        """Prepares everything that does not depend on the key.

        Args:
            encoder: What is trained.
            capped: The training graph.
            plan: What is promised about it.
            config: How it is learned from.
            pool: Public entities that negatives are drawn from, where the plan says so.
            table: What ``encoder.table(capped, pool=pool)`` gives, if it is known already.
        """
        self._encoder, self._capped, self._plan, self._config = encoder, capped, plan, config
        self._loss = relation_loss(config, plan)
        if plan.clipping.splits_tuples:
            self._loss.check_pairwise()
        self._modules = tuple(encoder.eval().module.modules())
        self.parameters: dict[str, nn.Parameter] = encoder.trainable()
        if not self.parameters:
            raise ConfigError("`encoder` must have something to train, got none. Load it to train.")
        self._size = sum(p.numel() for p in self.parameters.values())
        # Locality is checked here, on public rows and to the bit, and not by the engine.
        unchecked = GradientSettings(check_isolation=False)
        self._engine = PerUnitGradients(encoder.module, unchecked) if config.learning.clip else None
        self._table = encoder.table(capped, pool=pool) if table is None else table
        expected = capped.num_entities + (plan.pool_size if plan.negatives == "public" else 0)
        if len(self._table) != expected:
            raise ConfigError(
                f"`pool` must hold the plan's {plan.pool_size} public entities, "
                f"got {len(self._table) - capped.num_entities}."
            )
        self._shapes = self._frame_shapes()
        pad = getattr(self._table, "pad_id", 0)
        self._frames = Replay(
            self._frame_sum, record=config.performance.cuda_graphs, place=self._place, pad_id=pad
        )
        self._guard = LocalityGuard(encoder, self._table, self._frames)
        self._sampler: TupleSampler | None = None
        self._streams: Streams | None = None
        self._noise: GaussianNoise | None = None

    def _frame_shapes(self) -> Shapes:
        """Shapes of frames, from the plan, the encoder and the settings: all public."""
        plan, k = self._plan, self._plan.num_negatives
        has_tokens = isinstance(self._table, RowTable)
        return Shapes(
            rows_per_unit=plan.clipping.rows_per_unit(k),
            most_units=most_units(plan.expected_batch_size, plan.clipping.units_per_tuple(k)),
            max_length=self._max_length() if has_tokens else None,
            kind=self._encoder.device.type,
            units=self._config.performance.microbatch_units,
        )

    def _max_length(self) -> int:
        found = getattr(self._encoder, "max_length", None)
        if not isinstance(found, int):
            raise ConfigError(
                "`encoder` must have a max_length for rows of tokens, got none. Shapes of chunks "
                "must be public, so they cannot be taken from the texts."
            )
        return found

    def prepare(self) -> None:
        """Checks on public rows that units are independent, and finds the layout of microbatches.

        Raises:
            InputError: A unit's gradient depends on more than that unit.
        """
        if self._engine is not None and not self._guard.is_current:
            self._check_locality()

    def open(self, streams: Streams) -> None:
        """Takes the run's random draws and noise; prepares the step if that was not done."""
        plan = self._plan
        self.prepare()
        self._streams = streams
        self._sampler = TupleSampler(
            self._capped,
            sample_rate=plan.sample_rate,
            num_negatives=plan.num_negatives,
            streams=streams,
            negatives=plan.negatives,
            public_pool_size=plan.pool_size if plan.negatives == "public" else None,
        )
        if plan.noise_multiplier > 0:
            self._noise = GaussianNoise(streams, self._config.performance.noise_generator)

    def close(self) -> None:
        """Stops drawing noise ahead."""
        if self._noise is not None:
            self._noise.close()

    def draw(self, step: int, branch: int) -> "Batch":
        """The batch of a step, laid out in clip units; sensitive."""
        assert self._sampler is not None, "open comes first"
        batch = self._sampler.sample(step, branch)
        units = self._plan.clipping.units(
            batch.positives,
            batch.negatives,
            clip_norm=self._plan.clip_norm,
            endpoints=batch.endpoints,
            mask=batch.mask,
        )
        order = self._table.order(units.entities)
        return Batch(units=units.take(order), num_tuples=batch.num_tuples, overflow=batch.overflow)

    def run(self, batch: "Batch", step: int, branch: int) -> StepReport:
        """Leaves the step's noisy gradient in ``grad`` of every trainable parameter."""
        if any(module.training for module in self._modules):
            self._encoder.eval()  # dropout would give the same noise another sum on resuming
        self._look_again(step, branch)
        found = self._sum(batch)
        total = found.total
        if self._grid is not None:
            if batch.num_tuples > LARGEST_SUM * self._plan.noise_multiplier:
                raise RunError("A batch must fit the noise's grid, got one far too large for it.")
            total = total * self._grid
            total = add_noise(
                total,
                self._draw_noise(step, branch, total),
                standard_deviation=self._plan.noise_multiplier * self._plan.clip_norm,
            )
        self._spread(total / self._plan.expected_batch_size)
        return _report(batch, found)

    def _sum(self, batch: "Batch") -> Summed:
        """The sum over all units: clipped, or as it is for runs that promise nothing."""
        units = batch.units
        if not units.num_units:
            none = torch.zeros(0, dtype=torch.float64, device=self._encoder.device)
            return Summed(none.new_zeros(self._size), none, none, none)
        if units.num_units > self._most_units:
            raise RunError("A batch must not be far larger than expected, got one that is.")
        margin = self._margin
        thresholds = self._on_device(units.thresholds * (1.0 - margin))
        found: Summed | None = None
        for piece in self._shapes.cut(self._longest(units)):
            own = slice(piece.start, piece.stop)
            part = self._frames.run(
                piece,
                unit_rows(self._encoder, self._table, units.entities[own]),
                self._on_device(units.endpoints[own]).long(),
                self._on_device(units.mask[own]),
                thresholds[own],
                grid=self._grid,
            )
            found = part if found is None else found.plus(part)
        assert found is not None
        if self._margin > margin:
            raise RunError("A layer must see no more positions than with public rows, got more.")
        return found

    @property
    def _most_units(self) -> int:
        """Clip units that a batch has with a probability beyond doubt (1 - e^-500 and more)."""
        per_tuple = self._plan.clipping.units_per_tuple(self._plan.num_negatives)
        return math.ceil(8 * per_tuple * (self._plan.expected_batch_size + 100))

    @property
    def _margin(self) -> float:
        """Share by which thresholds are lowered for sums that are not exact (theory.md section 6).

        Sums of small parameters are exact and need none. Those of large ones are within `error` of
        exact ones in units of the clip norm, and move by half a grid step per coordinate when noise
        is added; both happen to either of two neighboring graphs.
        """
        if self._engine is None or not self._engine.num_kept:
            return 0.0
        plan = self._plan
        error = sum_error(self._engine.most_positions, self._most_units)
        rounding = 0.5 * GRID * plan.noise_multiplier * math.sqrt(self._engine.num_kept)
        # The least by which one entity moves the sum, if it moves it at all, in clip norms.
        least = min(1.0, plan.clipping.replacement_sensitivity(plan.num_negatives))
        return 2.0 * (error + rounding) / least

    @property
    def _grid(self) -> float | None:
        """The step of the grid that contributions and noise lie on; None without noise."""
        deviation = self._plan.noise_multiplier * self._plan.clip_norm
        return GRID * deviation if deviation > 0 else None

    def _frame_sum(self, frame: Frame) -> Summed:
        """The sum over a frame of units; nothing is read back from the device in a recording."""
        if self._engine is None:
            found = self._losses(frame) * frame.weights
            return _unclipped(_flat(self._gradients(found.sum())), found.detach())
        clipped = self._engine.clipped_sum(
            lambda start, stop: self._losses(frame),
            frame.thresholds,
            next(iter(frame.rows.values())).shape[0] // len(frame.weights),
            weights=frame.weights,
            grid=frame.grid,
            apart=frame.apart,
            witness=frame.witness,
        )
        total = _flat([clipped.sums[name] for name in self.parameters])
        return Summed(total, clipped.norms, clipped.losses, clipped.factors, clipped.witness)

    def _check_locality(self) -> None:
        """Finds the layout of every microbatch."""
        self._shapes = self._guard.find_layouts(self._frame_shapes())

    def _look_again(self, step: int, branch: int) -> None:
        """Checks locality once more at random steps, or when arithmetic may have changed."""
        if self._engine is None or self._streams is None:
            return
        self.prepare()
        self._guard.look_again(self._shapes, self._streams, step, branch)

    def _place(self) -> tuple[int, ...]:
        """Where the parameters are in memory."""
        return tuple(parameter.data_ptr() for parameter in self.parameters.values())

    def _gradients(self, loss: Tensor) -> list[Tensor]:
        """Gradients of every parameter; zeros where nothing reaches."""
        own = list(self.parameters.values())
        found = torch.autograd.grad(loss, own, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(own, found, strict=True)]

    def _losses(self, frame: Frame) -> Tensor:
        """Losses (units,) of a frame, from one forward over its rows."""
        with self._autocast(), repeatable_attention(self._encoder.device):
            embeddings = self._encoder.embed(dict(frame.rows))
        return self._loss(
            embeddings.view(len(frame.endpoints), -1, embeddings.shape[-1]),  # (units, rows, dim)
            frame.endpoints,
            frame.mask,
        )

    def _autocast(self) -> AbstractContextManager[Any]:
        if self._config.performance.precision == "float32":
            return nullcontext()
        # A recording must cast at every replay, not once.
        return torch.autocast(
            self._encoder.device.type,
            dtype=torch.bfloat16,
            cache_enabled=not self._config.performance.cuda_graphs,
        )

    def _longest(self, units: "ClipUnits") -> npt.NDArray[np.int64]:
        """The length of every unit's longest row, (units,)."""
        found: npt.NDArray[np.int64] = self._table.lengths[units.entities].max(axis=1, initial=1)
        return found

    def _on_device(self, values: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self._encoder.device)

    def _draw_noise(self, step: int, branch: int, total: Tensor) -> Tensor:
        """N(0, 1) like the total; where steps are repeated, another total has other noise."""
        assert self._noise is not None, "open comes first"
        if is_repeatable(total.device.type):
            return torch.from_numpy(self._noise.draw_for(total.numpy().data, step, branch))
        return torch.from_numpy(self._noise.draw(step, branch, self._size)).to(total.device)

    def _spread(self, total: Tensor) -> None:
        """Hands every parameter its part of the whole (parameters,)."""
        parts = torch.split(total, [p.numel() for p in self.parameters.values()])
        for parameter, part in zip(self.parameters.values(), parts, strict=True):
            parameter.grad = part.view(parameter.shape).to(parameter.dtype)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A step's clip units, longest first."""

    units: "ClipUnits"
    num_tuples: int
    overflow: bool


def relation_loss(config: "TrainingConfig", plan: "PrivacyPlan") -> RelationLoss:
    """The loss that a configuration asks for.

    InfoNCE compares all pairs of a tuple unless told otherwise, but for negatives of texts that
    nobody will search; the sums compare each negative with one end, as in the paper.
    """
    every = config.learning.loss == "infonce" and plan.negatives != "public"
    return RelationLoss(
        loss=config.learning.loss,
        score=config.learning.score,
        temperature=config.learning.temperature,
        margin=config.learning.margin,
        pairing=("all" if every else "one")
        if config.learning.pairing is None
        else config.learning.pairing,
    )


def _flat(parts: Sequence[Tensor]) -> Tensor:
    """All parameters one after the other, float64."""
    return torch.cat([part.reshape(-1).double() for part in parts])


def _unclipped(total: Tensor, losses: Tensor) -> Summed:
    """A sum without norms: nothing was clipped."""
    return Summed(total, torch.full_like(losses, math.nan), losses, torch.ones_like(losses))


def _report(batch: "Batch", found: Summed) -> StepReport:
    """What the step met, read back from the device at once."""
    count = len(found.losses)
    if not count:
        loss, median, clipped, nonfinite = math.nan, math.nan, 0.0, 0.0
    else:
        norms = found.norms.double()
        loss, median, clipped, nonfinite = torch.stack(
            [
                found.losses.double().mean(),
                norms.median(),
                (found.factors < 1.0).double().sum(),
                norms.isinf().double().sum() + (norms.isnan() & (found.factors < 1)).double().sum(),
            ]
        ).tolist()
    return StepReport(
        num_tuples=batch.num_tuples,
        overflow=batch.overflow,
        loss=loss,
        median_norm=median,
        clipped_share=clipped / max(count, 1),
        num_nonfinite=int(nonfinite),
    )
