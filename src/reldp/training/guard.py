"""The guard of a step's locality: it checks public rows before the first step and at random steps.

What is checked, and how, is in `reldp.training.locality`. For the check before the first step the
trainable weights are replaced by public random ones, and put back: a weight of zero, as in a new
adapter, would hide how its products round, and the layout must not depend on what was learned, so
that a resumed run selects the same one. The whole check is repeated when the number of threads, the
device or the precision of products has changed, since bits depend on them.

With several processes, each unit must have the same bits in all of them. `public_contributions` computes a public unit
in every process, at another position and beside other units in each, for the processes to compare. The forward pass
and the loss must send no messages to other processes, which could make a unit depend on units elsewhere.

Private to the package: `LocalityGuard`.

>>> LocalityGuard.__name__
'LocalityGuard'
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from reldp.encoders import ModuleEncoder, TextEncoder
from reldp.encoders.control_flow import depends_on_values
from reldp.encoders.row_mixing import mixes_rows
from reldp.encoders.sharding import is_sharded
from reldp.errors import RunError
from reldp.gradients import ClippedSum
from reldp.gradients.cuda_graphs import MicrobatchRunner
from reldp.gradients.microbatches import LAYOUTS, MicrobatchShape, MicrobatchShapes, UnitInputs
from reldp.noise import GRID, Streams
from reldp.training.frozen_weights import FrozenWeights
from reldp.training.locality import (
    SyntheticUnits,
    find_layouts,
    is_still_local,
    refuse_mixing_of_extremes,
)
from reldp.training.messages import refuse_messages
from reldp.training.objective import Objective
from reldp.training.padding_check import refuse_mixing_of_padding
from reldp.training.step_state import numerics
from reldp.training.unit_rows import UnitRows

__all__ = ["LocalityGuard"]

# One step in so many, at random, is preceded by another check.
_CHECK_INTERVAL = 64
_PURPOSE = "locality/check"
# Sizes of random rows beside the unit that is compared; half of them are ordinary.
_SIZES = (1.0, 1.0, 1.0, 1.0, 0.0, 1e-39, 1e3, 1e15)


class LocalityGuard:
    """Select the layout of microbatches and check it.

    Args:
        objective: The encoder and the loss that are trained.
        rows: The encoder's rows; only kinds and sizes are taken from its table.
        runner: Runs microbatches exactly as a step does.

    Attributes:
        frozen: What steps must leave as it is, as it was after the check on public rows.
    """

    def __init__(self, objective: Objective, rows: UnitRows, runner: MicrobatchRunner) -> None:
        self._objective, self._encoder = objective, objective.encoder
        self._rows, self._runner = rows, runner
        self.frozen = FrozenWeights(objective)
        self._checked_with: tuple[object, ...] | None = None
        self._rows_per_unit = 0

    @property
    def device(self) -> torch.device:
        """Where the encoder is."""
        return self._encoder.device

    @property
    def is_current(self) -> bool:
        """Whether the last full check was made with the arithmetic that is in use."""
        return self._checked_with == self._numerics()

    def find_layouts(self, shapes: MicrobatchShapes) -> MicrobatchShapes:
        """Return the shapes with the fastest layout of every length in which units are independent.

        Raises:
            InputError: A unit's gradient depends on more than that unit.
        """
        self._objective.eval()
        self._rows_per_unit = shapes.rows_per_unit
        if not is_sharded(self._encoder.module):  # the trainer has looked before it was
            refuse_messages(self._objective, self._rows.table, length=shapes.lengths()[0])
        with _public_weights(self._objective.parameters, self._objective.start):
            layouts = LAYOUTS[-1:] if self._decides_by_values(shapes) else LAYOUTS
            chosen = checked = find_layouts(shapes, self._run, self._make, layouts)
            are_alone = all(checked.shape_of(n).units == 1 for n in checked.lengths())
            if not are_alone and self._mixes_rows(shapes):
                chosen = find_layouts(shapes, self._run, self._make, LAYOUTS[-1:])
            self._objective.remember_encoder()  # a module may keep what it computes once for a shape
            self.frozen.note()
            for shape in map(checked.shape_of, checked.lengths()):
                units = self._make(shape.units, shape.length, 0)
                self._run(shape, units, weights=torch.ones_like(units.endpoints[:, 0]).double())
                refuse_mixing_of_extremes(shape, self._run, units)
            self._refuse_mixing_of_padding(checked)
            self._objective.check_encoder_unchanged()
            self.frozen.check()
        self._checked_with = self._numerics()
        return chosen

    def public_contributions(
        self,
        shapes: MicrobatchShapes,
        lengths: list[int],
        *,
        seed: int,
        rank: int,
        public_weights: bool,
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield bits and clipped gradient of a public unit, which must be the same in all processes.

        The unit is computed twice: first in the processes of even rank, at a position that depends on the rank, while
        the others compute another unit; then the other way round. Other units depend on the rank throughout. So what
        units of another process do to a unit is visible, which it would not be if all did the same.

        Args:
            shapes: Shapes and layouts of microbatches.
            lengths: Which of them to compute.
            seed: Of the unit.
            rank: Number of this process.
            public_weights: Whether to use public random weights, as before the first step, or those of training.

        Yields:
            For each length: loss, norm, clip factor and witness as text, and the clipped gradient.
        """
        self._rows_per_unit = shapes.rows_per_unit
        context = _public_weights(self._objective.parameters, self._objective.start)
        with context if public_weights else nullcontext():
            for length in lengths:
                runs = [self._beside_others(shapes, length, seed, rank, turn) for turn in range(2)]
                yield runs[rank % 2]

    def _beside_others(
        self, shapes: MicrobatchShapes, length: int, seed: int, rank: int, turn: int
    ) -> tuple[str, Tensor]:
        """Return bits and gradient of the public unit if it is this rank's turn, else of another unit."""
        shape = shapes.shape_of(length)
        compared = self._make(1, length, seed)
        beside = self._make(shape.capacity, length, seed + 1 + 2 * rank + turn)
        at = (rank + turn) % shape.capacity
        order = list(range(1, 1 + shape.capacity))
        if turn == rank % 2:
            order[at] = 0
        weights = torch.zeros(shape.capacity, dtype=torch.float64, device=compared.endpoints.device)
        weights[at] = 1.0
        one = self._run(shape, compared.and_also(beside).take(order), weights=weights)
        assert one.witness is not None
        values = (one.losses, one.norms, one.factors, one.witness)
        return repr([float(value[at]) for value in values]), one.total

    def check_again(
        self, shapes: MicrobatchShapes, streams: Streams, step: int, branch: int
    ) -> tuple[int, int] | None:
        """Check one length of microbatches with the weights as they are, at random steps only.

        Returns:
            The length and the seed of its units; None at other steps. The same in all processes.

        Raises:
            RunError: A unit's gradient depends on more than that unit.
        """
        drawn = streams.stream(_PURPOSE, branch, step).integers(1 << 31, 3).tolist()
        if drawn[0] % _CHECK_INTERVAL:
            return None
        lengths = shapes.lengths()
        length, seed = lengths[drawn[1] % len(lengths)], drawn[2]
        if not is_still_local(shapes, self._run, self._make, length=length, seed=seed):
            raise RunError(
                "`encoder` and `loss` must give a unit the same gradient whatever else is in its "
                "microbatch, got another one on public rows than before. Does the module keep a state?"
            )
        return length, seed

    def forget(self) -> None:
        """Let the next preparation make the full check again."""
        self._checked_with = None

    def _refuse_mixing_of_padding(self, shapes: MicrobatchShapes) -> None:
        """Pad rows of the shortest length that can be padded; a longer one would show the same."""
        lengths = shapes.lengths()
        shape = shapes.shape_of(next((length for length in lengths if length > 1), lengths[0]))
        units = self._make(shape.units, shape.length, 0, sizes=_SIZES[:1])
        encoder = self._encoder
        known = encoder.num_values if isinstance(encoder, ModuleEncoder) else {}
        refuse_mixing_of_padding(shape, self._run, units, known)

    def _decides_by_values(self, shapes: MicrobatchShapes) -> bool:
        """Return whether control flow or shapes depend on values: units must then be alone."""
        return self._loss_decides_by_values() or any(
            depends_on_values(
                lambda **rows: self._encoder.embed(rows),
                self._make(2, length, 0).rows,
                mask=self._rows.tokens.mask,
            )
            for length in shapes.lengths()
        )

    def _loss_decides_by_values(self) -> bool:
        """Return whether the control flow of the loss depends on the values of its embeddings."""
        return depends_on_values(self._objective.values, self._loss_inputs(2))

    def _mixes_rows(self, shapes: MicrobatchShapes) -> bool:
        """Return whether something is computed from several units at once, though values did not show it.

        Also if that stays open, because a module does not run on other numbers of rows.
        """
        try:
            return self._shows_mixing(shapes)
        except Exception:  # whatever the code of a user's own raises
            return True

    def _shows_mixing(self, shapes: MicrobatchShapes) -> bool:
        encoder, objective = self._encoder, self._objective
        if mixes_rows(objective.values, self._loss_inputs):
            return True
        if isinstance(encoder, TextEncoder):  # models of transformers; their rows were compared
            return False
        length = shapes.lengths()[0]

        def rows(count: int) -> Mapping[str, Tensor]:
            generator = torch.Generator().manual_seed(0)
            table = self._rows.table
            return encoder.synthetic_rows(table, count, length=length, generator=generator)

        return mixes_rows(lambda **given: encoder.embed(given), rows)

    def _loss_inputs(self, units: int) -> dict[str, Tensor]:
        """Return public random arguments of the loss."""
        generator = torch.Generator().manual_seed(0)
        rows = torch.randn((units, self._rows_per_unit, self._encoder.dim), generator=generator)
        shape = units, self._rows_per_unit - 2
        endpoints, mask = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape).bool()
        inputs = {"embeddings": rows, "endpoints": endpoints, "mask": mask}
        if self._objective.num_types:
            inputs["types"] = torch.zeros(units, dtype=torch.int64)
        return {name: value.to(self._encoder.device) for name, value in inputs.items()}

    def _numerics(self) -> tuple[object, ...]:
        """Return settings on which the bits of a product depend and that other code may change."""
        return *numerics(self._encoder.device), self._encoder.device

    def _make(
        self, units: int, length: int, seed: int, sizes: Sequence[float] = _SIZES
    ) -> SyntheticUnits:
        """Return public random units; all but the first include rows of zeros, tiny and huge ones."""
        generator = torch.Generator().manual_seed(seed)
        rows = self._encoder.synthetic_rows(
            self._rows.table, units * self._rows_per_unit, length=length, generator=generator
        )
        drawn = torch.randint(len(sizes), (units * self._rows_per_unit,), generator=generator)
        drawn[: self._rows_per_unit] = 0  # the unit that is compared stays as it is
        rows = {name: _scaled(value, torch.tensor(sizes)[drawn]) for name, value in rows.items()}
        shape = units, self._rows_per_unit - 2
        mask = torch.rand(shape, generator=generator) < 0.1
        mask[0, 0] = False  # a unit without negatives has no gradient; the others may be such units
        endpoints = torch.randint(2, shape, generator=generator)
        device, num_types = self._encoder.device, self._objective.num_types
        types = torch.randint(num_types, (units,), generator=generator) if num_types else None
        return SyntheticUnits(
            rows,
            endpoints.to(device),
            mask.to(device),
            None if types is None else types.to(device),
        )

    def _run(self, shape: MicrobatchShape, units: SyntheticUnits, *, weights: Tensor) -> ClippedSum:
        """Return the sum over a microbatch of public units, by the code that trains."""
        inputs = UnitInputs(
            rows=units.rows,
            endpoints=units.endpoints,
            mask=units.mask,
            thresholds=torch.ones_like(weights),
            grid=GRID,
            weights=weights,
            types=units.types,
        )
        return self._runner.run(shape, inputs, witness=True)


def _scaled(value: Tensor, sizes: Tensor) -> Tensor:
    """Return rows of floats times a size each, and rows of integers unchanged."""
    if not value.is_floating_point():
        return value
    return value * sizes.view(-1, *[1] * (value.dim() - 1)).to(value)


@contextmanager
def _public_weights(
    parameters: Mapping[str, nn.Parameter], given: Mapping[str, Tensor]
) -> Iterator[None]:
    """Replace the parameters by random weights of the usual sizes, and restore them at the end.

    Parameters with a public value of their own, those of a loss, are moved a little from it: a
    temperature may have to be positive.
    """
    before = {name: p.detach().clone() for name, p in parameters.items()}
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in parameters.items():
            drawn = torch.randn(parameter.shape, generator=generator)
            if name in given:
                value = given[name].cpu()
                drawn = value * (1.0 + 0.1 * drawn) + 1e-3 * drawn
            elif parameter.dim() > 1:
                drawn = drawn / math.sqrt(parameter.shape[-1])
            else:  # of a bias, or the scale of a normalization
                drawn = 0.1 * drawn + (1.0 if name.endswith("weight") else 0.0)
            parameter.copy_(drawn)
    try:
        yield
    finally:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(before[name])
