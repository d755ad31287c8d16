"""The check that a unit's contribution depends on that unit alone, to the last bit.

The proofs need that what a tuple adds to the sum does not depend on any other tuple (theory.md
2), and so in floating point (section 6). Kernels choose the order of additions by shape and
by a row's position, and a module may look across rows. So before the first step, and again at random
steps, public random rows go through the very code that trains, for every microbatch shape, on the
device, with the types and threads in use:

* one unit at every position of a microbatch at once must have the same bits at every position;
* the same unit among other units must have the same bits again, at several positions; the other units
  include rows of zeros, tiny ones and huge ones, for modules that act on outliers;
* before the first step, all units of a microbatch must keep their bits when they move to other positions.

The check compares the bits of everything that contributions are made of (`reldp.gradients.witness`),
and losses, norms, clip factors and clipped sums. Where rounding alone differs, the next slower layout of
`reldp.gradients.microbatches.LAYOUTS` is tried; a unit alone in its microbatch must at least repeat itself.
Where more than rounding differs, the encoder mixes units and is refused. A module whose control flow
or shapes depend on values (`reldp.encoders.control_flow`) gets microbatches of one unit.

A check on random rows is not a proof. It finds, with overwhelming probability, kernels whose order of
additions depends on a unit's position, on the number of units or on other units, because the order does
not depend on the values. It cannot find a module that was made to deceive it.

Public inside the package: `SyntheticUnits`, `find_layouts`, `is_still_local`, `refuse_mixing_of_extremes`, and for
`reldp.training.padding_check` `MIXED`, `Run`, `run_counted` and `difference`.

>>> SyntheticUnits.__name__
'SyntheticUnits'
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from reldp.errors import InputError
from reldp.gradients import ClippedSum
from reldp.gradients.microbatches import LAYOUTS, MicrobatchShape, MicrobatchShapes

__all__ = [
    "MIXED",
    "Run",
    "SyntheticUnits",
    "difference",
    "find_layouts",
    "is_still_local",
    "refuse_mixing_of_extremes",
    "run_counted",
]

# Relative difference above which rounding, also of bfloat16, cannot be the cause; unless the gradient
# is so short that it may be nothing but rounding.
_ROUNDING, _SHORT = 0.05, 1e-4
# Numbers in the rows of other units that a module may look for.
_EXTREMES = (math.nan, math.inf, 1e30)
MIXED = (
    "`encoder` and `loss` must keep units apart, got a unit whose gradient depends on "
    "other rows of its microbatch. Let nothing look across rows: no statistics of a "
    "batch, also no detached ones, and no in-batch negatives."
)
# Number of random units to try until enough of them had a gradient.
_TRIES = 12


@dataclass(frozen=True, eq=False)
class SyntheticUnits:
    """Public random units.

    Attributes:
        rows: Inputs of the encoder by name, unit after unit.
        endpoints: See `reldp.clipping.ClipUnits`, (units, negatives).
        mask: See `reldp.clipping.ClipUnits`, (units, negatives).
        types: See `reldp.clipping.ClipUnits`, (units,).
    """

    rows: Mapping[str, Tensor]
    endpoints: Tensor
    mask: Tensor
    types: Tensor | None = None

    def take(self, order: list[int]) -> "SyntheticUnits":
        """Return some of the units, in this order; a unit may be named more than once."""
        index = torch.tensor(order, device=self.endpoints.device)
        units = self.endpoints.shape[0]
        rows = {
            name: value.view(units, -1, *value.shape[1:])[index].flatten(0, 1)
            for name, value in self.rows.items()
        }
        types = None if self.types is None else self.types[index]
        return SyntheticUnits(rows, self.endpoints[index], self.mask[index], types)

    def and_also(self, units: "SyntheticUnits") -> "SyntheticUnits":
        """Return these units, and then some more of the same shape."""
        rows = {name: torch.cat([value, units.rows[name]]) for name, value in self.rows.items()}
        types = [value for value in (self.types, units.types) if value is not None]
        return SyntheticUnits(
            rows,
            torch.cat([self.endpoints, units.endpoints]),
            torch.cat([self.mask, units.mask]),
            torch.cat(types) if types else None,
        )


class Run(Protocol):
    """Function that runs a microbatch exactly as a training step does."""

    def __call__(
        self, shape: MicrobatchShape, units: SyntheticUnits, *, weights: Tensor
    ) -> ClippedSum:
        """Return the sum over a microbatch, with thresholds of 1 and witnesses of its units."""
        ...


Make = Callable[[int, int, int], SyntheticUnits]  # units, length, seed


def find_layouts(
    shapes: MicrobatchShapes, run: Run, make: Make, layouts: Sequence[str] = LAYOUTS
) -> MicrobatchShapes:
    """Return the shapes with the fastest layout of every length in which units are independent.

    Args:
        shapes: The run's shapes.
        run: Runs a microbatch.
        make: Makes public random units of a length from a seed.
        layouts: Layouts to try, from fast to slow.

    Raises:
        InputError: The encoder mixes units, or is not deterministic.
    """
    for length in shapes.lengths():
        for layout in layouts:
            tried = shapes.with_layout(length, layout)
            if _is_local(tried.shape_of(length), run, make):
                shapes = tried
                break
        else:
            raise InputError(
                "`encoder` must give a unit of rows the same gradient whenever it is run, got bits "
                "that change even for a unit alone. Use deterministic layers and attention."
            )
    return shapes


def refuse_mixing_of_extremes(shape: MicrobatchShape, run: Run, units: SyntheticUnits) -> None:
    """Refuse a unit that changes when numbers in the rows of all other units are huge or not finite.

    Args:
        shape: Shape of the microbatch.
        run: Runs a microbatch.
        units: As many public random units as the microbatch has; the first is compared.

    Raises:
        InputError: It does, as with a module that looks for such numbers in the whole batch.
    """
    names = [name for name, value in units.rows.items() if value.is_floating_point()]
    order = [*range(shape.units)]
    if shape.units == 1 or not names:
        return
    ordinary = run_counted(shape, run, units, order, counted=0)
    for extreme in _EXTREMES:
        rows = {name: value.clone() for name, value in units.rows.items()}
        for name in names:
            rows[name][len(rows[name]) // shape.units :] = extreme
        try:
            among = run_counted(shape, run, replace(units, rows=rows), order, counted=0)
        except Exception:  # a module may stop a run that has such numbers
            continue
        if difference(ordinary, 0, among, 0, of_sums=True) > 0:
            raise InputError(MIXED)


def is_still_local(
    shapes: MicrobatchShapes, run: Run, make: Make, *, length: int, seed: int
) -> bool:
    """Return whether microbatches of a length pass again, with the weights as they are."""
    difference = _largest_difference(shapes.shape_of(length), run, make, seed)
    return difference is None or difference == 0.0


def _is_local(shape: MicrobatchShape, run: Run, make: Make) -> bool:
    """Return whether units of a microbatch are independent to the bit, shown by units with a gradient."""
    shown = 0
    for seed in range(_TRIES):
        difference = _largest_difference(shape, run, make, seed)
        if difference is None:
            continue
        if difference > _ROUNDING:
            raise InputError(MIXED)
        if difference > 0 or not (shown or _same_when_moved(shape, run, make, seed)):
            return False
        shown += 1
        if shown == (1 if shape.length > 1 else 4):  # a text has rows enough; numbers are cheap
            return True
    # Without gradients nothing was shown. A unit alone cannot depend on others.
    return shape.units == 1


def _largest_difference(shape: MicrobatchShape, run: Run, make: Make, seed: int) -> float | None:
    """Return the largest relative difference that position and other units make to a unit.

    None if the unit has no gradient: then nothing is shown.
    """
    units = make(shape.units + 1, shape.length, seed)  # unit 0 is the one that is compared
    everywhere = run_counted(shape, run, units, [0] * shape.capacity, counted=0)
    if not bool(torch.isfinite(everywhere.norms).all() & torch.isfinite(everywhere.losses).all()):
        raise InputError(
            "`encoder` must give finite losses and gradients, got some that are not on public "
            "random rows. Are its weights whole?"
        )
    if not bool(everywhere.total.any()):
        # A unit among its like may have no gradient just because it is compared with them.
        among = run_counted(shape, run, units, [*range(shape.units)], counted=0)
        return math.inf if bool(among.total.any()) else None
    differences = [difference(everywhere, 0, everywhere, at) for at in range(shape.capacity)]
    if shape.units == 1:
        run_counted(shape, run, units, [1], counted=0)
        differences.append(
            difference(everywhere, 0, run_counted(shape, run, units, [0], counted=0), 0)
        )
        return max(differences)
    middle, last = shape.capacity // 2, shape.capacity - 1
    for at in (middle,) if shape.length > 1 else {0, middle, last}:  # rows of numbers are cheap
        order = [*range(1, shape.units)]
        order.insert(at, 0)
        among = run_counted(shape, run, units, order, counted=at)
        differences.append(difference(everywhere, 0, among, at, of_sums=True))
    return max(differences)


def _same_when_moved(shape: MicrobatchShape, run: Run, make: Make, seed: int) -> bool:
    """Return whether all units of a microbatch keep their bits at other positions.

    Many values are needed: vector instructions and those for the rest of an array round a few per cent of all
    numbers differently.
    """
    if shape.units == 1:
        return True
    units = make(shape.capacity, shape.length, seed)
    order = [*range(shape.capacity)]
    step = shape.capacity // 2
    before = run_counted(shape, run, units, order, counted=0)
    after = run_counted(shape, run, units, order[step:] + order[:step], counted=0)
    for name in ("witness", "losses", "norms"):
        one, other = getattr(before, name), getattr(after, name).roll(step, 0)
        if not torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)):
            return False
    return True


def run_counted(
    shape: MicrobatchShape, run: Run, units: SyntheticUnits, order: list[int], *, counted: int
) -> ClippedSum:
    """Run some units, of which one has a weight."""
    weights = torch.zeros(len(order), dtype=torch.float64, device=units.endpoints.device)
    weights[counted] = 1.0
    return run(shape, units.take(order), weights=weights)


def difference(
    one: ClippedSum, at_one: int, other: ClippedSum, at_other: int, *, of_sums: bool = False
) -> float:
    """Return the relative difference of a unit and itself at another position; 0 only if all bits agree."""
    assert one.witness is not None
    assert other.witness is not None
    same = bool(one.witness[at_one] == other.witness[at_other])
    for name in ("losses", "norms"):
        same = same and bool(getattr(one, name)[at_one] == getattr(other, name)[at_other])
    sums = torch.allclose(one.total, other.total, rtol=1e-9, atol=1e-3)
    if same and (sums or not of_sums):
        return 0.0
    norm, length = float(one.norms[at_one]), float(other.norms[at_other])
    if not (math.isfinite(length) and math.isfinite(float(other.losses[at_other]))):
        return math.inf  # alone it is finite, so this came from others
    longer = max(norm, length)
    if longer < _SHORT:
        return _ROUNDING
    apart = abs(length - norm) / longer
    if of_sums:
        whole = max(float(one.total.norm()), float(other.total.norm()), 1e-300)
        apart = max(apart, float((one.total - other.total).norm()) / whole)
    loss, was = float(other.losses[at_other]), float(one.losses[at_one])
    return max(apart, abs(loss - was) / max(abs(was), 1.0), 1e-300)
