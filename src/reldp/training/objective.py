"""The objective of a run: an encoder, a loss, and everything that training changes in both.

The loss is called with all tuples of a microbatch at once. If it is a module with trainable
parameters, it is called once per clip unit instead, under vmap, so that its parameters have one gradient
per unit; the gradient engine then clips them jointly with the encoder's. The parameters of an included
typed loss are one embedding table, for which the engine has gradients per unit without vmap.

Public inside the package: `Objective`, `LOSS_WEIGHTS`.

>>> LOSS_WEIGHTS
'loss.safetensors'
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import is_not
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet, ref

import torch
from torch import Tensor, nn

from reldp.errors import ConfigError, RunError
from reldp.losses import Loss, LossBatch
from reldp.losses.saved import LOSS_WEIGHTS, save, typed_part
from reldp.training.fit import refuse_compiled
from reldp.training.loss_hash import kept_state_sha256, loss_sha256
from reldp.training.plain_values import CAPTURING, name_of

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.plan import PrivacyPlan

__all__ = ["LOSS_WEIGHTS", "Objective"]

_PREFIX = "loss."
# What may change a layer's values or gradients without being one of its parts.
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# Encoders and losses that a step or a run has changed, in this process.
_TRAINED: "WeakSet[Any]" = WeakSet()
# The same of runs that are open, with the run.
_HELD: "WeakKeyDictionary[Any, ref[Any]]" = WeakKeyDictionary()


class Objective:
    """An encoder and a loss.

    Attributes:
        encoder: The encoder.
        loss: The loss.
        name: The loss's class or function, for messages and for the ledger.
        parameters: Everything that training changes, by name; those of the loss begin with ``loss.``.
        loss_parameters: The part of them that belongs to the loss.
        start: Values of the loss's parameters before training; public.
        num_types: Number of types of relations; 0 where they have none.
    """

    def __init__(self, encoder: "Encoder", loss: Loss, plan: "PrivacyPlan") -> None:
        """Collect what is trained.

        Args:
            encoder: The encoder; what it trains is read here, once.
            loss: The loss.
            plan: Says whether the clipping rule clips every negative apart.

        Raises:
            ConfigError: The loss is compiled, or shares parameters with the encoder.
        """
        self.encoder, self.loss, self.name = encoder, loss, _name(loss)
        self.splits_tuples = plan.clipping.splits_tuples
        self.num_negatives = 1 if self.splits_tuples else plan.negatives_per_tuple
        self.num_types = plan.num_relation_types
        self.loss_parameters: dict[str, nn.Parameter] = {}
        if isinstance(loss, nn.Module):
            refuse_compiled(loss, "loss")
            named = loss.to(encoder.device).eval().named_parameters()
            self.loss_parameters = {_PREFIX + name: p for name, p in named if p.requires_grad}
        refuse_compiled(encoder.module, "encoder")
        trained = encoder.trainable()
        known = {id(p) for p in encoder.module.parameters()}
        if set(trained) & set(self.loss_parameters) or any(
            id(p) in known for p in self.loss_parameters.values()
        ):
            raise ConfigError(
                f"`loss` must have parameters of its own, got {self.name}, which shares some with the "
                "encoder. Give the loss copies, or train them in the encoder."
            )
        self.parameters: dict[str, nn.Parameter] = trained | self.loss_parameters
        self.start = {name: p.detach().clone() for name, p in self.loss_parameters.items()}
        is_table = typed_part(loss) is not None and _is_included(loss)
        runs_by_unit = self.loss_parameters and not is_table
        self._by_unit = _UnitLoss(self).eval() if runs_by_unit else None
        self._loss_sha256: str | None = None
        self._encoder_sha256: str | None = None
        self._is_marked = False

    @property
    def module(self) -> nn.Module:
        """The module whose gradients are clipped: the encoder's, joined with a loss that is trained."""
        if not self.loss_parameters:
            return self.encoder.module
        parts = {"encoder": self.encoder.module, "unit": self._by_unit or _Named(self.loss)}
        return nn.ModuleDict(parts)

    @property
    def engine_names(self) -> list[str]:
        """The names that `module` has for the parameters, in their order."""
        if not self.loss_parameters:
            return list(self.parameters)
        return [
            f"unit.{name}" if name in self.loss_parameters else f"encoder.{name}"
            for name in self.parameters
        ]

    def modules(self) -> tuple[nn.Module, ...]:
        """Return every layer of the encoder's module, and of a loss that is a module."""
        loss = self.loss.modules() if isinstance(self.loss, nn.Module) else ()
        return (*self.encoder.module.modules(), *loss)

    def parts(self) -> list[Any]:
        """Return all layers with their parameters, hooks and replaced methods, to be compared by identity."""
        parts: list[Any] = [value for value in vars(self.encoder).values() if callable(value)]
        for child in self.modules():
            held = vars(child)
            parts += [child, *child._parameters.values(), held.get("forward")]
            parts += [p.requires_grad for p in child._parameters.values() if p is not None]
            for kind in _HOOKS:
                if hooks := held.get(
                    kind
                ):  # most layers have none, and this runs before every step
                    parts += [hook for hook in hooks.values() if not _is_idle(hook)]
        return parts

    def check_parts(self, before: list[Any]) -> None:
        """Refuse layers, parameters or hooks that are not those of before.

        Raises:
            RunError: The encoder's module or the loss was changed.
        """
        parts = self.parts()
        if len(parts) != len(before) or any(map(is_not, parts, before)):
            raise RunError(
                "`encoder` must keep its layers, parameters and hooks while it is trained, got others; so "
                "must a loss. New parameters would get gradients without noise, and new layers were not "
                "checked. Make a new PrivateStep after changing a module."
            )

    @property
    def is_included(self) -> bool:
        """Whether the loss is part of reldp, and so is a loss inside of it."""
        return _is_included(self.loss)

    def remember_loss(self) -> None:
        """Take note of the loss's code, settings and state, which must stay as they are."""
        self._loss_sha256 = loss_sha256(self.loss)

    def check_loss_unchanged(self) -> None:
        """Refuse a loss that has changed since `remember_loss`.

        Raises:
            RunError: It did, so that a tuple's loss may depend on tuples of earlier steps.
        """
        if self._loss_sha256 not in (None, loss_sha256(self.loss)):
            raise RunError(
                f"`loss` must keep no state between steps, got {self.name}, which changed after it was "
                "checked: its attributes, what it closes over, or global values that it uses. Steps that "
                "ran stay counted, and there is no certificate."
            )

    def check_unchanged(self) -> None:
        """Refuse a loss or a module that has changed since its check.

        Raises:
            RunError: One of them did.
        """
        self.check_loss_unchanged()
        self.check_encoder_unchanged()

    def remember_encoder(self) -> None:
        """Take note of what the encoder's module keeps besides parameters, which must stay as it is."""
        self._encoder_sha256 = kept_state_sha256(self.encoder.module)

    def check_encoder_unchanged(self) -> None:
        """Refuse a module that has changed since `remember_encoder`.

        Raises:
            RunError: It did, so that rows may depend on the rows of earlier steps.
        """
        if self._encoder_sha256 not in (None, kept_state_sha256(self.encoder.module)):
            raise RunError(
                "`encoder` must keep no state between steps, got one that changed after it was checked: attributes "
                "or buffers of its module, of their classes, or global values that it uses. Steps that ran "
                "stay counted, and there is no certificate."
            )

    def mark_trained(self) -> None:
        """Remember that the encoder, and a loss with parameters, depend on private data."""
        if not self._is_marked:  # layers stay the same, see `check_parts`
            _TRAINED.update(value for _, value in self._trained_parts())
            self._is_marked = True

    @property
    def is_trained(self) -> bool:
        """Whether a run of this process has trained the encoder or the loss."""
        return any(part in _TRAINED for _, part in self._trained_parts())

    def check_untrained(self) -> None:
        """Refuse to start a new run from the weights of another: its epsilon would not cover that one.

        Raises:
            ConfigError: A step or a run of this process has trained the encoder, the loss, or a layer of them.
        """
        # Also layers that are frozen here, or stand beside the module, may be those of another run.
        held = [x for x in vars(self.encoder).values() if isinstance(x, nn.Module)]
        parts = [("encoder", layer) for module in held for layer in module.modules()]
        if isinstance(self.loss, nn.Module):
            parts += [("loss", layer) for layer in self.loss.modules()]
        for name, value in [("encoder", self.encoder), *parts]:
            if value in _TRAINED:
                raise ConfigError(
                    f"`{name}` must be as it was loaded, got one that a run has trained. Load it again; "
                    "to continue from a trained one on purpose, load it from its run and add both "
                    "epsilons."
                )

    def _trained_parts(self) -> list[tuple[str, Any]]:
        """Return the encoder, a loss that is trained, and their layers with trained parameters, named."""
        parts: list[tuple[str, Any]] = [("encoder", self.encoder)]
        parts += [("encoder", layer) for layer in _trained_layers(self.encoder.module)]
        if self.loss_parameters and isinstance(self.loss, nn.Module):
            parts += [("loss", self.loss), *(("loss", x) for x in _trained_layers(self.loss))]
        return parts

    @property
    def is_held(self) -> bool:
        """Whether a run of this process is open that trains the encoder or the loss."""
        holders = (_HELD.get(part) for _, part in self._trained_parts())
        return any(holder is not None and holder() is not None for holder in holders)

    def hold(self, run: Any) -> None:
        """Let no other run of this process train the encoder and the loss, until `release`.

        Raises:
            RunError: Another run is open: it would go on from weights that its ledger does not cover.
        """
        if self.is_held:
            raise RunError(
                "An encoder must be trained by one run at a time, got one that another open run trains. "
                "Leave its `with` block first, or load the encoder a second time."
            )
        for _, part in self._trained_parts():
            _HELD[part] = ref(run)  # weak: a run that is forgotten holds nothing

    def release(self, run: Any) -> None:
        """Allow other runs again, if it is this run that holds the encoder and the loss."""
        for _, part in self._trained_parts():
            if part in _HELD and _HELD[part]() is run:
                del _HELD[part]

    @contextmanager
    def held(self, run: Any) -> Iterator[None]:
        """Hold the encoder and the loss, and release them at the end."""
        self.hold(run)
        try:
            yield
        finally:
            self.release(run)

    def eval(self) -> None:
        """Switch dropout and the like off, in the encoder and in the loss."""
        self.encoder.eval()
        if isinstance(self.loss, nn.Module):
            self.loss.eval()

    def values(
        self,
        embeddings: Tensor,
        endpoints: Tensor,
        mask: Tensor,
        types: Tensor | None = None,
        *,
        by_unit: bool = False,
    ) -> Tensor:
        """Return the loss of each clip unit, (units,).

        Args:
            embeddings: Embeddings of the units' rows, (units, 2 + k, dim).
            endpoints: See `reldp.losses.LossBatch`.
            mask: See `reldp.losses.LossBatch`.
            types: See `reldp.losses.LossBatch`.
            by_unit: Whether parameters of the loss are to have one gradient per unit.
        """
        values: Tensor
        if embeddings.dtype != torch.float64:
            embeddings = embeddings.float()
        if self._by_unit is None or not by_unit:
            batch = LossBatch(endpoints, mask, types)
            values = self.checked(self.loss(embeddings, batch), len(mask))
            if values.requires_grad or not embeddings.requires_grad:
                return values
            # Constants, as a loss that decides by values may return them: with a gradient of zero.
            return torch.where(torch.zeros_like(values).bool(), embeddings[:, 0, 0], values)
        count = embeddings.shape[1]  # the gradient engine deals out rows
        given = [value for value in (endpoints, mask, types) if value is not None]
        repeated = (value.repeat_interleave(count, dim=0) for value in given)
        values = self._by_unit(embeddings.flatten(0, 1), *repeated)
        return values

    def checked(self, values: Any, units: int) -> Tensor:
        """Return one value per unit of what the loss returned.

        Raises:
            ConfigError: The shape is another, or the clipping rule needs a value per negative.
        """
        k = self.num_negatives
        shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        if shape == (units, k):
            return values.sum(dim=1)  # type: ignore[no-any-return]
        if self.splits_tuples:
            raise ConfigError(
                "`loss` must be a sum over negatives with `clipping` pair, returned as (tuples, k), got "
                f"{shape} for {units} tuples from {self.name}. Use the hinge or logistic loss with pairing one "
                "or both, or tuple clipping."
            )
        if shape != (units,):
            raise ConfigError(
                "`loss` must return one value per tuple, (tuples,), or one per tuple and negative, "
                f"(tuples, k), got {shape} for {units} tuples with {k} negatives from {self.name}."
            )
        return values  # type: ignore[no-any-return]

    def load(self, values: Mapping[str, Tensor]) -> None:
        """Set everything that training changes; names and shapes must agree exactly."""
        loss = {name: value for name, value in values.items() if name in self.loss_parameters}
        self.encoder.load_trainable({n: v for n, v in values.items() if n not in loss})
        if len(loss) != len(self.loss_parameters):
            raise ConfigError("`values` must name all parameters of the loss, got some of them.")
        with torch.no_grad():
            for name, value in loss.items():
                self.loss_parameters[name].copy_(value)

    def save(self, folder: Path) -> None:
        """Write the encoder into a folder, and beside it a trained loss."""
        self.encoder.save(folder, overwrite=True)
        if self.loss_parameters and isinstance(self.loss, nn.Module):
            save(self.loss, folder)


def _is_idle(hook: Any) -> bool:
    """Return whether a hook does nothing unless somebody asks for hidden states."""
    return getattr(hook, "__module__", "") == CAPTURING


def _is_included(loss: Any) -> bool:
    """Return whether a loss is part of reldp; one around a loss from outside is not."""
    if not type(loss).__module__.startswith("reldp.") or "forward" in vars(loss):
        return False
    return not hasattr(loss, "loss") or _is_included(loss.loss)


def _name(loss: Any) -> str:
    """Return where a loss comes from; for a loss of reldp around one from outside, both."""
    is_outer = type(loss).__module__.startswith("reldp.") and hasattr(loss, "loss")
    inner = f" of {_name(loss.loss)}" if is_outer and not _is_included(loss) else ""
    return name_of(loss) + inner


def _trained_layers(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers that have trained parameters of their own."""
    for layer in module.modules():
        if any(p.requires_grad for p in layer.parameters(recurse=False)):
            yield layer


class _Named(nn.Module):
    """A loss under the name that `Objective.parameters` give it."""

    def __init__(self, loss: Any) -> None:
        super().__init__()
        self.loss = loss


class _UnitLoss(nn.Module):
    """The loss of one clip unit, for the gradient engine, which runs it under vmap over units."""

    runs_by_unit = True

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.loss = objective.loss
        self._checked = objective.checked

    def forward(
        self, rows: Tensor, endpoints: Tensor, mask: Tensor, types: Tensor | None = None
    ) -> Tensor:
        """Return the loss, (1,), of rows (2 + k, dim); endpoints, mask and types repeat in every row."""
        type_ = None if types is None else types[:1]
        values = self.loss(rows[None], LossBatch(endpoints[:1], mask[:1], type_))
        return self._checked(values, 1)
