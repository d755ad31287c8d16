"""How each kind of layer is run so that its parameters get one gradient per unit.

A *site* stands in for one module's ``forward`` while per-unit gradients are taken and is gone
afterwards. It computes what the module computes and routes parameter gradients to probes, or keeps
uses of large parameters. Frozen layers get a site only to cast their weights to autocast's type
once instead of at every step. Private to the package.

>>> site = LinearSite(nn.Linear(4, 3), {"weight": "w", "bias": "b"}, keep_weight=False)
>>> site.names["weight"]
'w'
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reldp.gradients.embedding import direct_embedding, kept_embedding
from reldp.gradients.linear import direct_linear, kept_linear
from reldp.gradients.norm import affine, layer_norm
from reldp.gradients.products import linear, outside_graphs
from reldp.gradients.recorder import Recorder

__all__ = [
    "EmbeddingSite",
    "FrozenLinearSite",
    "LayerNormSite",
    "LinearSite",
    "RelativeBiasSite",
    "RmsNormSite",
    "Site",
    "autocast_dtype",
]


def autocast_dtype(value: Tensor) -> torch.dtype | None:
    """Return the type that autocast would compute a matrix product of this tensor in, if it is on."""
    kind = value.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


class Site:
    """Stand-in for one method of one module.

    Attributes:
        module: The module.
        method: The method that is replaced.
        names: The engine's name of each trainable parameter, by its name in the module.
        recorder: Where per-unit gradients go; set by the engine.
    """

    module: Any
    method = "forward"

    def __init__(self, module: nn.Module, names: Mapping[str, str]) -> None:
        self.module = module
        self.names = dict(names)
        self.recorder = Recorder({}, ())
        # One object for life, so that graphs compiled with it stay valid.
        self._run = self.__call__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        raise NotImplementedError

    def original(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method that this site stands in for."""
        return getattr(type(self.module), self.method)(self.module, *args, **kwargs)

    def install(self) -> None:
        """Put the site in the method's place."""
        # Straight into the instance: `nn.Module.__setattr__` costs more and adds nothing here.
        self.module.__dict__[self.method] = self._run

    def remove(self) -> None:
        """Restore the module's method."""
        self.module.__dict__.pop(self.method, None)

    def _probe(self, local: str) -> Tensor | None:
        """Return the probe of a parameter of this module; None for a frozen one."""
        name = self.names.get(local)
        return None if name is None else self.recorder.probe(name)

    def _label(self) -> str:
        """Return a parameter's name for messages."""
        return next(iter(self.names.values()))


class LinearSite(Site):
    """A linear layer with a trainable weight or bias."""

    def __init__(self, module: nn.Module, names: Mapping[str, str], *, keep_weight: bool) -> None:
        super().__init__(module, names)
        self.keep_weight = keep_weight and "weight" in self.names

    def __call__(self, input: Tensor) -> Tensor:
        """Compute x W^T + b; the argument has the name that the layer gives it."""
        x = input
        self.recorder.check_rows(self._label(), x)
        weight, bias = self.module.weight.detach(), self.module.bias
        bias = None if bias is None else bias.detach()
        dtype = autocast_dtype(x)
        if dtype is not None:
            x, weight = x.to(dtype), weight.to(dtype)
            bias = None if bias is None else bias.to(dtype)
        if self.keep_weight:
            return self._keep(x, weight, bias)
        units = self.recorder.units
        probes = self._probe("weight"), self._probe("bias")
        return direct_linear(x, weight, bias, *probes, units, self.recorder.apart)

    @outside_graphs
    def _keep(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Outside of compiled graphs, because keeping is a side effect of the backward."""
        name = self.names["weight"]
        return kept_linear(x, weight, bias, self._probe("bias"), self.recorder, name)


class FrozenLinearSite(Site):
    """A frozen linear layer; under autocast its weights are cast once and held."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module, {})
        self._stamp: tuple[Any, ...] = ()
        self._cast: tuple[Tensor, Tensor | None] | None = None

    def weights(self, dtype: torch.dtype | None) -> tuple[Tensor, Tensor | None]:
        """Weight and bias in the type they are used in."""
        weight, bias = self.module.weight.detach(), self.module.bias
        bias = None if bias is None else bias.detach()
        if dtype is None or weight.dtype == dtype:
            return weight, bias
        if torch.compiler.is_compiling():  # the compiler fuses the cast and must not see a cache
            return weight.to(dtype), None if bias is None else bias.to(dtype)
        stamp = (weight.data_ptr(), weight._version, weight.device, dtype)
        if self._cast is None or stamp != self._stamp:
            self._cast = weight.to(dtype), None if bias is None else bias.to(dtype)
            self._stamp = stamp
        return self._cast

    def __call__(self, input: Tensor) -> Tensor:
        """Compute x W^T + b."""
        x, dtype = input, autocast_dtype(input)
        weight, bias = self.weights(dtype)
        x = x if dtype is None else x.to(dtype)
        # A layer that does not see the rows of the microbatch has no units to keep apart.
        apart = self.recorder.apart and x.shape[0] == self.recorder.rows
        return linear(x, weight, bias, self.recorder.units, apart)


class LayerNormSite(Site):
    """Layer normalization with a trainable weight or bias."""

    def __call__(self, input: Tensor) -> Tensor:
        """Normalize over the layer's shape."""
        x = input
        self.recorder.check_rows(self._label(), x)
        module = self.module
        weight, bias = module.weight.detach(), module.bias
        bias = None if bias is None else bias.detach()
        if x.is_cuda and autocast_dtype(x) is not None:
            x = x.to(weight.dtype)  # as autocast does on this device
        return layer_norm(
            x,
            weight,
            bias,
            self._probe("weight"),
            self._probe("bias"),
            module.eps,
            self.recorder.units,
        )


class RmsNormSite(Site):
    """Root-mean-square normalization, torch's own and that of Llama-type models."""

    def __call__(self, *args: Tensor, **kwargs: Tensor) -> Tensor:
        """Normalize over the last dimension and scale; the argument has one of two names."""
        (x,) = (*args, *kwargs.values())
        self.recorder.check_rows(self._label(), x)
        weight = self.module.weight.detach()
        if isinstance(self.module, nn.RMSNorm):
            normal = F.rms_norm(x, weight.shape, None, self.module.eps)
        else:
            wide = x.to(torch.float32)  # as those models do, whatever the type
            eps = self.module.variance_epsilon
            normal = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
        return affine(normal, weight, self._probe("weight"), self.recorder.units)


class EmbeddingSite(Site):
    """An embedding table; indices with a single row stand for all rows, as broadcasting has it."""

    def __init__(self, module: nn.Module, names: Mapping[str, str], *, keep_weight: bool) -> None:
        super().__init__(module, names)
        self.keep_weight = keep_weight

    def __call__(self, input: Tensor) -> Tensor:
        """Look the rows up."""
        indices = input
        if indices.dim() > 1 and indices.shape[0] == 1 and self.recorder.rows > 1:
            indices = indices.expand(self.recorder.rows, *indices.shape[1:])
        self.recorder.check_rows(self._label(), indices)
        return self.look_up(indices)

    def look_up(self, indices: Tensor) -> Tensor:
        """Return the table's rows for indices that already have all rows of the microbatch."""
        module = self.module
        weight = module.weight.detach()
        padding = -1 if module.padding_idx is None else int(module.padding_idx)
        if self.keep_weight:
            return self._keep(indices, weight, padding)
        return direct_embedding(
            indices, weight, self._probe("weight"), padding, self.recorder.units
        )

    @outside_graphs
    def _keep(self, indices: Tensor, weight: Tensor, padding: int) -> Tensor:
        """Outside of compiled graphs, because keeping is a side effect of the backward."""
        return kept_embedding(indices, weight, padding, self.recorder, self.names["weight"])


class RelativeBiasSite(Site):
    """MPNet's relative attention bias: one table lookup shared by all rows, given to each row.

    Everything is computed on the device of the rows: some versions of transformers compute places on the CPU, and a
    copy from there cannot be captured (`reldp.gradients.cuda_graphs`).
    """

    method = "compute_position_bias"

    def __init__(self, module: nn.Module, table: EmbeddingSite | None) -> None:
        """Take the site of the table; None for a frozen table."""
        super().__init__(module, {} if table is None else table.names)
        self.table = table

    def __call__(self, x: Tensor, position_ids: Tensor | None = None, num_buckets: int = 32) -> Any:
        """Return the bias of every row, (rows, heads, length, length)."""
        if position_ids is None:
            position_ids = torch.arange(x.shape[1], device=x.device)[None]
        relative = position_ids[:, None, :] - position_ids[:, :, None]  # (1 or rows, T, T)
        buckets = self.module.relative_position_bucket(relative, num_buckets=num_buckets)
        if self.table is None:
            frozen = F.embedding(buckets, self.module.relative_attention_bias.weight.detach())
            return frozen.permute(0, 3, 1, 2).expand(x.shape[0], -1, -1, -1).contiguous()
        self.recorder.check_rows(self._label(), x)
        buckets = buckets.expand(x.shape[0], -1, -1)
        return self.table.look_up(buckets).permute(0, 3, 1, 2).contiguous()
