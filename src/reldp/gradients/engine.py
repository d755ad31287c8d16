"""The clipped sum of per-unit gradients: one forward, one backward, whatever the model.

Guarantees, for a module whose rows do not look at one another:

* every unit contributes its own gradient times a factor in [0, 1], of norm at most its threshold
  whatever the rounding (theory.md 6); a unit whose gradient is not finite contributes zero,
  and so does padding, whose weight is zero;
* with a grid, contributions to small parameters are whole numbers of grid steps and their sum is
  exact (`reldp.gradients.fixed_point`); for large ones it is within a stated bound of the exact sum
  (`reldp.gradients.ghost`);
* every trainable parameter is in the norm and in the sum: one that cannot be is refused by name,
  before the first step or when a backward reaches it past its layer;
* autocast, checkpointing and compilation change the result by rounding only.

That rows do not look at one another is checked, not believed. On the first batch, the gradient of
one unit's loss must vanish on the rows of all other units, and a unit's loss and gradient norm must
be the same alone and among others, up to rounding. That catches a wrong row order, losses over
in-batch negatives, and statistics over the batch, detached or not. Private training switches this
check off and asks for more, to the bit and on public rows: `reldp.training.locality`.

A large batch is split into microbatches (`reldp.gradients.microbatches`), whose sums are added.

Public: `PerUnitGradients`, `GradientSettings`. Inside the package: `without_autocast`.

>>> layer = nn.Linear(1, 1, bias=False)
>>> x = torch.tensor([[3.0], [0.5]])  # two units of one row; unit i has the gradient x[i]
>>> engine = PerUnitGradients(layer)
>>> result = engine.clipped_sum(lambda a, b: layer(x[a:b])[:, 0], [1.0, 1.0], rows_per_unit=1)
>>> result.norms.tolist(), result.sums["weight"]
([3.0, 0.5], tensor([[1.5000]], dtype=torch.float64))
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp._validate import check_integer
from reldp.errors import InputError, UnsupportedParameter
from reldp.gradients import ghost
from reldp.gradients.clipped_sum import ClippedSum
from reldp.gradients.discovery import Limits, find_sites
from reldp.gradients.fixed_point import unit_sum
from reldp.gradients.leaves import leaves
from reldp.gradients.recorder import Recorder
from reldp.gradients.scaling import clip_factors
from reldp.gradients.witness import witness as make_witness

__all__ = ["GradientSettings", "PerUnitGradients", "without_autocast"]

Losses = Callable[[int, int], Tensor]

# How far rounding, also of bfloat16 activations, may move a unit's loss or norm in another microbatch.
_ALIKE = 2e-2
_MIXED = (
    "`losses` must keep units apart, got a loss of one unit that depends on rows of another. "
    "Lay rows out unit by unit, and let nothing look across rows."
)


@dataclass(frozen=True, kw_only=True)
class GradientSettings(Limits):
    """Performance settings; none changes the result beyond rounding.

    Attributes:
        check_isolation: Whether the first batch with two units is used to check that units do not
            mix. Costs four more forwards and backwards, once.
        check_leaves: Whether to refuse trainable tensors outside of the module, which a backward
            would give a gradient without clipping.
    """

    check_isolation: bool = True
    check_leaves: bool = False


class PerUnitGradients:
    """Compute clipped sums of per-unit gradients of one module.

    Args:
        module: The module that is trained. Its trainable parameters are read here, once.
        settings: Performance settings; they never change the result beyond rounding.

    Raises:
        UnsupportedParameter: A trainable parameter lives in a layer without per-unit gradients.
    """

    def __init__(self, module: nn.Module, settings: GradientSettings | None = None) -> None:
        self.settings = GradientSettings() if settings is None else settings
        inner = getattr(module, "_orig_mod", module)  # what torch.compile wraps
        self.module: nn.Module = inner
        self.parameters = {n: p for n, p in inner.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise InputError("`module` must have a trainable parameter, got none.")
        sites = find_sites(inner, self.settings)
        self._sites = sites.sites
        self._recorder = Recorder(self.parameters, sites.ghost_names)
        for site in self._sites:
            site.recorder = self._recorder
        self._checked = not self.settings.check_isolation
        # Largest number of positions, over all uses, in a microbatch's sum of one large parameter.
        self.max_positions = 0
        self._frozen = {n: p for n, p in inner.named_parameters() if not p.requires_grad}
        self._batch_norms = [
            (name, module)
            for name, module in inner.named_modules()
            if isinstance(module, nn.modules.batchnorm._BatchNorm)
        ]

    @property
    def is_checked(self) -> bool:
        """Whether it is known that units do not mix: after the first batch, or as asked for."""
        return self._checked

    def clipped_sum(
        self,
        losses: Losses,
        thresholds: npt.ArrayLike | Tensor,
        rows_per_unit: int,
        *,
        weights: Tensor | None = None,
        grid: Tensor | None = None,
        apart: bool = False,
        witness: bool = False,
    ) -> ClippedSum:
        """Return the sum over units of each unit's clipped gradient.

        Args:
            losses: ``losses(start, stop)`` runs the module on the rows of units start to stop, in
                unit-major order in one forward pass, and returns their (stop - start,) losses. It
                runs under the caller's autocast, if any. The sum needs all units at once; the check
                that units do not mix needs one unit alone.
            thresholds: Largest norm that each unit may keep, (units,).
            rows_per_unit: Rows of the forward pass that belong to one unit.
            weights: 1 for a unit that counts and 0 for padding, (units,); all count unless given.
            grid: The grid's spacing, a float64 tensor without dimensions: contributions, and so the
                sum, are then in whole multiples of it. Plain sums unless given.
            apart: Whether linear layers compute a matrix product per unit: slower, and a unit's bits
                do not depend on its place.
            witness: Whether to give a witness of each unit's bits.

        Returns:
            The sum for all trainable parameters; zeros for an empty batch.
        """
        device = next(iter(self.parameters.values())).device
        limits = _checked_thresholds(thresholds, device)
        check_integer("rows_per_unit", rows_per_unit, low=1, error=InputError)
        units, shapes = len(limits), {name: p.shape for name, p in self.parameters.items()}
        if not units:
            return ClippedSum.of_nothing(shapes, device)
        self._check_isolation(losses, units, rows_per_unit)
        with self._recording(units, rows_per_unit, apart):
            values = self._backward(losses, 0, units)
            norms, spreads = self._norms(device)
            factors = clip_factors(norms, limits, spreads / ghost.SPREAD)
            if weights is not None:
                factors = torch.where(weights.to(limits) > 0, factors, 0.0)
            return ClippedSum(
                total=self._total(factors, grid),
                shapes=shapes,
                norms=norms,
                losses=values,
                factors=factors,
                witness=self._witness() if witness else None,
            )

    @property
    def inexact_names(self) -> frozenset[str]:
        """Names of the parameters whose sums are not exact."""
        return frozenset(self._recorder.ghost_names)

    @property
    def num_inexact(self) -> int:
        """Elements of the parameters whose sums are not exact."""
        return sum(self.parameters[name].numel() for name in self.inexact_names)

    @contextmanager
    def _recording(self, units: int, rows_per_unit: int, apart: bool = False) -> Iterator[None]:
        """Install sites and fresh probes; set the caller's gradients aside, and restore them afterwards."""
        self._refuse_changes()
        aside = {name: p.grad for name, p in self.parameters.items()}
        with ExitStack() as stack:
            stack.callback(self._recorder.clear)
            for name, p in self.parameters.items():
                stack.callback(setattr, p, "grad", aside[name])
                p.grad = None
            for site in self._sites:
                stack.callback(site.remove)
                site.install()
            self._recorder.start(units=units, rows_per_unit=rows_per_unit, apart=apart)
            yield

    def _refuse_changes(self) -> None:
        """Refuse a module whose trainable parameters or modes have changed since construction."""
        thawed = [name for name, p in self._frozen.items() if p.requires_grad]
        thawed += [name for name, p in self.parameters.items() if not p.requires_grad]
        if thawed:
            raise InputError(
                f"`module` must keep its trainable parameters, got {thawed[0]} changed. "
                "Make a new PerUnitGradients after freezing or unfreezing."
            )
        for name, module in self._batch_norms:
            if module.training:
                raise UnsupportedParameter(
                    f"`{name}` must not normalize over the batch, got {type(module).__name__} in "
                    "training mode. It mixes units; use LayerNorm or eval mode."
                )

    def _backward(self, losses: Losses, start: int, stop: int, only: int | None = None) -> Tensor:
        """Run the one forward and the one backward; return the losses."""
        values = _checked_losses(losses(start, stop), stop - start)
        if self.settings.check_leaves:
            self._refuse_other_leaves(values)
        target = values.sum() if only is None else values[only]
        with without_autocast():
            target.backward()  # type: ignore[no-untyped-call] # torch leaves it untyped
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                raise UnsupportedParameter(
                    f"`{name}` must be used only by its own layer's forward, got a gradient from "
                    "elsewhere. Tied or directly read weights have no gradient per unit here."
                )
        return values.detach()

    def _refuse_other_leaves(self, values: Tensor) -> None:
        """Refuse trainable tensors outside of the module: the backward would fill their ``.grad``."""
        recorder = self._recorder
        groups = self.parameters, recorder.probes, recorder.anchors
        known = {id(tensor) for group in groups for tensor in group.values()}
        for leaf in leaves(values):
            if id(leaf) not in known:
                raise InputError(
                    f"Trainable tensors must be frozen or in `module`, got one of shape "
                    f"{tuple(leaf.shape)} elsewhere, in the loss or beside the module. It would get "
                    "a gradient without clipping and noise."
                )

    def _norms(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return gradient norms of the units, and spreads of kept parameters, (U,) float64."""
        with torch.no_grad(), without_autocast():
            _, flat = self._direct(device)
            square: Tensor = torch.linalg.vector_norm(flat, dim=1, dtype=torch.float64).square()
            spread = torch.zeros_like(square)
            for uses in self._recorder.uses.values():
                self.max_positions = max(self.max_positions, ghost.num_positions(uses))
                squares, spreads = ghost.norms(uses)
                square, spread = square + squares.to(device), spread + spreads.to(device)
        return square.sqrt(), spread

    def _total(self, factors: Tensor, grid: Tensor | None) -> Tensor:
        """Return the sum of the clipped gradients, all parameters one after the other, float64."""
        device = factors.device
        with torch.no_grad(), without_autocast():
            names, flat = self._direct(device)
            sizes = [self.parameters[name].numel() for name in names]
            parts = torch.split(unit_sum(flat, factors, grid), sizes)
            sums = dict(zip(names, parts, strict=True))
            scale = factors if grid is None else factors / grid
            for name, uses in self._recorder.uses.items():
                parameter = self.parameters[name]
                scaled = scale.to(parameter.device)
                sums[name] = ghost.clipped_sum(uses, scaled, parameter.shape[0])
            return torch.cat(
                [
                    sums[name].reshape(-1).to(device, torch.float64)
                    if name in sums
                    else torch.zeros(p.numel(), dtype=torch.float64, device=device)
                    for name, p in self.parameters.items()
                ]
            )

    def _witness(self) -> Tensor:
        """Witnesses of everything that the units' contributions are made of, (U,)."""
        _, flat = self._direct(next(iter(self.parameters.values())).device)
        ghost_uses = [use for uses in self._recorder.uses.values() for use in uses]
        return make_witness([flat, *(value for use in ghost_uses for value in use.values())])

    def _direct(self, device: torch.device) -> tuple[list[str], Tensor]:
        """Names of the probed parameters that were used, and their gradients as (U, elements)."""
        if self._recorder.flat is None:
            grads = {n: p.grad for n, p in self._recorder.probes.items() if p.grad is not None}
            none = torch.zeros(self._recorder.units, 0, device=device)
            flat = torch.cat([none, *(g.reshape(len(g), -1).to(device) for g in grads.values())], 1)
            for probe in self._recorder.probes.values():
                probe.grad = None  # the joined copy is enough
            self._recorder.flat = list(grads), flat
        return self._recorder.flat

    def _check_isolation(self, losses: Losses, units: int, rows_per_unit: int) -> None:
        """Refuse units whose loss or gradient depends on another, on the first batch with two units."""
        if self._checked or units < 2:
            return
        shown = [
            self._reaches_itself_alone(losses, units, rows_per_unit, only)
            for only in (0, units - 1)  # first and last, for modules that look one way only
        ]
        for only in (0, units - 1):
            self._is_the_same_alone(losses, units, rows_per_unit, only)
        self._checked = any(shown)  # losses without a gradient have shown nothing

    def _reaches_itself_alone(
        self, losses: Losses, units: int, rows_per_unit: int, only: int
    ) -> bool:
        """Return whether a unit's loss has a gradient; refuse one that reaches rows of another."""
        with self._recording(units, rows_per_unit):
            self._backward(losses, 0, units, only=only)
            grads = [p.grad for p in self._recorder.probes.values() if p.grad is not None]
            grads += [use.grads for uses in self._recorder.uses.values() for use in uses]
            # Zero times infinity is not a sign of mixing.
            reached = [g.nan_to_num(0.0, 0.0, 0.0).reshape(len(g), -1).ne(0).any(1) for g in grads]
            reaches_itself = any(bool(unit[only]) for unit in reached)
            mixed = any(int(unit.sum()) > int(unit[only]) for unit in reached)
        if mixed:
            raise InputError(_MIXED)
        return reaches_itself

    def _is_the_same_alone(self, losses: Losses, units: int, rows_per_unit: int, only: int) -> None:
        """Refuse a unit whose loss or gradient norm alone is not what it is among others."""
        seen = []
        for first, last in ((0, units), (only, only + 1)):
            with self._recording(last - first, rows_per_unit):
                values = self._backward(losses, first, last)[only - first]
                norm = self._norms(values.device)[0][only - first]
            seen.append((float(values), float(norm)))
        for among, alone in zip(*seen, strict=True):
            known = math.isfinite(among) and math.isfinite(alone)
            if known and not math.isclose(among, alone, rel_tol=_ALIKE, abs_tol=_ALIKE):
                raise InputError(_MIXED)


def _capturing() -> bool:
    """Return whether a CUDA graph is being captured: then nothing may be read back."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


@contextmanager
def without_autocast() -> Iterator[None]:
    """No autocast: gradients, norms and sums choose their types themselves."""
    with ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _checked_thresholds(thresholds: npt.ArrayLike | Tensor, device: torch.device) -> Tensor:
    """Return the thresholds as a float64 tensor on the device."""
    limits = torch.as_tensor(thresholds, dtype=torch.float64)
    if _capturing():
        return limits
    if limits.dim() != 1 or not bool((torch.isfinite(limits) & (limits > 0)).all()):
        raise InputError(
            "`thresholds` must be one finite number above 0 per unit, "
            f"got shape {tuple(limits.shape)} with values that are not."
        )
    return limits.to(device)


def _checked_losses(losses: Tensor, units: int) -> Tensor:
    """Return the losses if they are one differentiable number per unit."""
    if not isinstance(losses, Tensor) or losses.shape != (units,) or not losses.requires_grad:
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise InputError(
            f"`losses` must return one differentiable loss per unit, ({units},), got {shape}. "
            "Check that the forward runs with gradients on."
        )
    return losses
