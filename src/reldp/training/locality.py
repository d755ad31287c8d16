"""Whether a unit's contribution depends on that unit alone, to the last bit; checked, not believed.

The proofs need that what a tuple adds to the sum does not depend on any other tuple (theory.md
section 2), and so in floating point (section 6). Kernels choose the order of additions by shape and
by a row's place, and a module may look across rows. So before the first step, and again at random
steps, public random rows go through the very code that trains, for every microbatch shape, on the
device, with the types and threads in use:

* one unit at every place of a microbatch at once must have the same bits at every place;
* the same unit among other units must have the same bits again, at several places; the others
  include rows of zeros, tiny ones and huge ones, for modules that act on what stands out.

Compared are the bits of everything that contributions are made of (`reldp.gradients.witness`), and
losses, norms, clip factors and clipped sums. Where rounding alone differs, the next slower layout of
`reldp.training.frames.LAYOUTS` is tried; a unit alone in its microbatch must at least repeat itself.
Where more than rounding differs, the encoder mixes units and is refused. A module whose control flow
or shapes depend on values (`reldp.encoders.control_flow`) gets microbatches of one unit.

A check on random rows is no proof. It finds, with overwhelming probability, kernels whose order of
additions depends on place, number or neighbors, because the order does not depend on the values; it
cannot find a module that was made to deceive it.

Public inside the package: `Synthetic`, `find_layouts`, `still_local`.

>>> Synthetic.__name__
'Synthetic'
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from reldp.errors import InputError
from reldp.training.frames import LAYOUTS, Piece, Shapes, Summed

__all__ = ["Synthetic", "find_layouts", "still_local"]

# Relative difference above which it is not rounding, also not of bfloat16; unless the gradient is
# so short that it may be nothing but rounding.
_ROUNDING, _SHORT = 0.05, 1e-4
# Different random units that are tried until enough of them had a gradient.
_TRIES = 12


@dataclass(frozen=True, eq=False)
class Synthetic:
    """Public random units.

    Attributes:
        rows: Inputs of the encoder by name, unit after unit.
        endpoints: See `reldp.clipping.ClipUnits`, (units, negatives).
        mask: Likewise.
    """

    rows: Mapping[str, Tensor]
    endpoints: Tensor
    mask: Tensor

    def take(self, places: list[int]) -> "Synthetic":
        """Some of the units, in this order; a unit may be named more than once."""
        index = torch.tensor(places, device=self.endpoints.device)
        units = self.endpoints.shape[0]
        rows = {
            name: value.view(units, -1, *value.shape[1:])[index].flatten(0, 1)
            for name, value in self.rows.items()
        }
        return Synthetic(rows, self.endpoints[index], self.mask[index])


class Run(Protocol):
    """Runs a microbatch as a step does."""

    def __call__(self, piece: Piece, units: Synthetic, *, weights: Tensor) -> Summed:
        """The microbatch's sum, with thresholds of 1, and witnesses of its units."""
        ...


Make = Callable[[int, int, int], Synthetic]  # units, length, seed


def find_layouts(shapes: Shapes, run: Run, make: Make, layouts: Sequence[str] = LAYOUTS) -> Shapes:
    """The shapes with the fastest layout of every length in which units are independent.

    Args:
        shapes: The run's shapes.
        run: Runs a microbatch.
        make: Makes public random units of a length from a seed.
        layouts: Which ones are tried, from fast to slow.

    Raises:
        InputError: The encoder mixes units, or does not repeat itself.
    """
    for length in shapes.lengths():
        for layout in layouts:
            tried = shapes.laid_out(length, layout)
            if _holds(tried.whole(length), run, make):
                shapes = tried
                break
        else:
            raise InputError(
                "`encoder` must give a unit of rows the same gradient whenever it is run, got bits "
                "that change even for a unit alone. Use deterministic layers and attention."
            )
    return shapes


def still_local(shapes: Shapes, run: Run, make: Make, *, length: int, seed: int) -> bool:
    """Whether microbatches of a length pass again, with one random unit and the weights as they are."""
    found = _compared(shapes.whole(length), run, make, seed)
    return found is None or found == 0.0


def _holds(piece: Piece, run: Run, make: Make) -> bool:
    """Whether units of a microbatch are independent to the bit, shown by units with a gradient."""
    shown = 0
    for seed in range(_TRIES):
        found = _compared(piece, run, make, seed)
        if found is None:
            continue
        if found > _ROUNDING:
            raise InputError(
                "`encoder` and `loss` must keep units apart, got a unit whose gradient depends on "
                "other rows of its microbatch. Let nothing look across rows: no statistics of a "
                "batch, also no detached ones, and no in-batch negatives."
            )
        if found > 0:
            return False
        shown += 1
        if shown == (1 if piece.length > 1 else 4):  # a text has rows enough; numbers are cheap
            return True
    # Without gradients nothing was shown. A unit alone cannot depend on others.
    return piece.units == 1


def _compared(piece: Piece, run: Run, make: Make, seed: int) -> float | None:
    """The largest relative difference that place and neighbors make; None without a gradient."""
    units = make(piece.units + 1, piece.length, seed)  # unit 0 is the one that is looked at
    everywhere = _run(piece, run, units, [0] * piece.stop, counted=0)
    if not bool(torch.isfinite(everywhere.norms).all() & torch.isfinite(everywhere.losses).all()):
        raise InputError(
            "`encoder` must give finite losses and gradients, got some that are not on public "
            "random rows. Are its weights whole?"
        )
    if not bool(everywhere.total.any()):
        # A unit among its like may have no gradient just because it is compared with them.
        among = _run(piece, run, units, [*range(piece.units)], counted=0)
        return math.inf if bool(among.total.any()) else None
    differences = [_difference(everywhere, 0, everywhere, place) for place in range(piece.stop)]
    if piece.units == 1:
        _run(piece, run, units, [1], counted=0)
        differences.append(_difference(everywhere, 0, _run(piece, run, units, [0], counted=0), 0))
        return max(differences)
    middle, last = piece.stop // 2, piece.stop - 1
    for place in (middle,) if piece.length > 1 else {0, middle, last}:  # rows of numbers are cheap
        order = [*range(1, piece.units)]
        order.insert(place, 0)
        found = _run(piece, run, units, order, counted=place)
        differences.append(_difference(everywhere, 0, found, place, of_sums=True))
    return max(differences)


def _run(piece: Piece, run: Run, units: Synthetic, places: list[int], *, counted: int) -> Summed:
    """Runs some units of which one counts."""
    weights = torch.zeros(len(places), dtype=torch.float64, device=units.endpoints.device)
    weights[counted] = 1.0
    return run(piece, units.take(places), weights=weights)


def _difference(
    one: Summed, at_one: int, other: Summed, at_other: int, *, of_sums: bool = False
) -> float:
    """How far a unit is from itself at another place, relatively; 0 only if all bits agree."""
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
