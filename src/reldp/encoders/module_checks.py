"""Checks that a module can be trained privately, on public random rows, before anything private is read.

A module must embed each row by itself and always in the same way, must change nothing in itself when
it runs, and must have gradients per clip unit that `reldp.gradients` computes exactly. What does not
is refused by name, with what to do instead.

Guarantee: the gradients per unit of the whole module are compared with plain autograd, unit by unit.
A check on random rows is no proof; `reldp.training.locality` checks every shape of a run to the bit.

Private to the package: `check_kind`, `check_outputs`, `check_gradients`.

>>> check_kind(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
Traceback (most recent call last):
reldp.errors.EncoderError: `module` must not normalize over the batch, got BatchNorm1d at '1'. ...
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from reldp.errors import EncoderError, ReldpError, UnsupportedParameter
from reldp.gradients import GradientSettings, PerUnitGradients

__all__ = ["check_gradients", "check_kind", "check_outputs"]

Embed = Callable[[dict[str, Tensor]], Tensor]
Make = Callable[[int, int], dict[str, Tensor]]  # number of rows, seed

_WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel")
_QUANTIZED = ("torch.ao.nn.quantized", "torch.nn.quantized", "torch.ao.nn.intrinsic.quantized")
_ROWS, _ROWS_PER_UNIT = 6, 3
# Relative difference that rounding cannot explain, also of bfloat16 in frozen parts.
_ROUNDING = 2e-2
_OF_TORCH = frozenset(vars(nn.Module()))


def check_kind(module: Any) -> None:
    """Refuse what is no plain module, and layers that cannot work whatever the rows are."""
    if not isinstance(module, nn.Module):
        got = f"the class {module.__name__}" if isinstance(module, type) else type(module).__name__
        raise EncoderError(f"`module` must be a torch.nn.Module, got {got}.")
    kind = type(module).__name__
    if any(hasattr(child, "_orig_mod") for child in module.modules()) or kind in _WRAPPERS:
        raise EncoderError(f"`module` must be the module itself, got {kind} around it.")
    if any(isinstance(child, torch.jit.ScriptModule) for child in module.modules()):
        raise EncoderError("`module` must be Python code, got a TorchScript module.")
    for name, parameter in module.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise EncoderError(
                f"`module` must have its weights, got {name!r} of a lazy layer. State its sizes, or run the "
                "module once on public rows."
            )
        if parameter.is_inference():
            raise EncoderError(
                f"`module` must have weights that can be trained, got {name!r}, which was made in "
                "torch.inference_mode(). Make the module outside of it."
            )
        if parameter.requires_grad and parameter.dtype in (torch.float16, torch.bfloat16):
            raise EncoderError(
                f"`module` must have trainable weights in float32, got {name!r} in "
                f"{str(parameter.dtype).removeprefix('torch.')}. Call module.float(), or freeze them."
            )
    for name, child in module.named_modules():
        _check_layer(name, child)


def _check_layer(name: str, child: nn.Module) -> None:
    """Refuse a layer whose kind says that it mixes rows or has no gradients."""
    kind = type(child)
    if isinstance(child, nn.modules.batchnorm._BatchNorm):
        trained = any(parameter.requires_grad for parameter in child.parameters())
        if trained or child.running_mean is None:
            raise EncoderError(
                f"`module` must not normalize over the batch, got {kind.__name__} at {name!r}. Use GroupNorm or "
                "LayerNorm; one with running statistics may stay if its weights are frozen."
            )
    if kind.__module__.startswith(_QUANTIZED):
        raise EncoderError(
            f"`module` must have layers with gradients, got the quantized {kind.__name__} at {name!r}."
        )


def check_outputs(module: nn.Module, embed: Embed, make: Make) -> int:
    """Return the length of an embedding; refuse a module whose rows are not independent.

    Args:
        module: The module, in evaluation mode.
        embed: Runs the module on rows.
        make: Makes public random rows.

    Raises:
        EncoderError: The module fails, returns something else than (rows, dim), depends on other rows or on
            their number, draws random numbers, or changes itself.
    """
    kind = type(module).__name__
    rows = make(_ROWS, 0)
    with torch.no_grad():
        _run(kind, embed, rows)  # a module may compute something once and keep it
        before, random = _state(module), torch.random.get_rng_state()
        together = _run(kind, embed, rows)
        if not torch.equal(random, torch.random.get_rng_state()):
            raise EncoderError(
                f"`module` must draw no random numbers in evaluation mode, got {kind}, which does."
            )
        changed = [name for name, value in _state(module).items() if before.get(name) != value]
        if changed:
            raise EncoderError(
                f"`module` must change nothing in itself when it runs, got {kind}, which changes "
                f"{changed[0]!r}: a row would depend on the rows before it."
            )
        if not torch.equal(together, _run(kind, embed, rows)):
            raise EncoderError(
                f"`module` must give the same embeddings whenever it is run, got {kind}, which does not."
            )
        for order in ([0], [1, 0], list(range(_ROWS))[::-1]):
            part = _run(kind, embed, {name: value[order] for name, value in rows.items()})
            if _differ(together[order], part):
                raise EncoderError(
                    f"`module` must embed every row by itself, got {kind}, whose embedding of a row depends "
                    "on the other rows or on their number. Keep the first dimension apart everywhere: no "
                    "statistics over it, and no reshape that mixes it with others."
                )
    return int(together.shape[1])


def check_gradients(module: nn.Module, embed: Embed, make: Make) -> None:
    """Compare the gradients of two clip units with those of plain autograd.

    Raises:
        UnsupportedParameter: A trainable parameter has no gradient per unit; the message names it.
        EncoderError: Gradients differ, or the module has trainable tensors that are not its parameters.
    """
    parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not parameters:
        return
    engine = PerUnitGradients(module, GradientSettings(check_isolation=False, check_leaves=True))
    rows = make(_ROWS, 1)

    def losses(start: int, stop: int) -> Tensor:
        places = slice(start * _ROWS_PER_UNIT, stop * _ROWS_PER_UNIT)
        out = embed({name: value[places] for name, value in rows.items()}).double()
        first, second, third = out.view(stop - start, _ROWS_PER_UNIT, -1).unbind(1)
        return (torch.tanh(first) * (second - third)).sum(1)

    units = _ROWS // _ROWS_PER_UNIT
    with torch.enable_grad(), _as_encoder_error():
        summed = engine.clipped_sum(losses, [1e30] * units, _ROWS_PER_UNIT)
        alone = [_gradient(losses(unit, unit + 1)[0], parameters) for unit in range(units)]
    whole = max(float(value.abs().max()) for gradient in alone for value in gradient.values())
    for name in parameters:
        expected = torch.stack([gradient[name].double() for gradient in alone]).sum(0)
        # A gradient that is zero but for rounding, as of a bias that attention cancels, is no difference.
        if _differ(expected, summed.sums[name].to(expected.device), floor=1e-3 * whole):
            raise UnsupportedParameter(
                f"`{name}` must have the same gradient per unit and in plain autograd, got another one. Freeze "
                "it, or write its layer with other operations."
            )
    lengths = torch.stack([_norm(gradient) for gradient in alone])
    if _differ(lengths, summed.norms.to(lengths.device)):
        raise EncoderError(
            f"`module` must have gradients per unit of the same length as in plain autograd, got "
            f"{type(module).__name__} with others."
        )


def _gradient(loss: Tensor, parameters: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    """Return the gradient of one unit's loss, by plain autograd."""
    values = list(parameters.values())
    gradients = torch.autograd.grad(loss, values, allow_unused=True, materialize_grads=True)
    return dict(zip(parameters, gradients, strict=True))


def _norm(gradient: dict[str, Tensor]) -> Tensor:
    squares = [value.double().square().sum() for value in gradient.values()]
    return torch.stack(squares).sum().sqrt()


@contextmanager
def _as_encoder_error() -> Iterator[None]:
    """Turn errors of torch into one line; those of reldp pass."""
    try:
        yield
    except ReldpError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:
        raise EncoderError(f"`module` must have gradients, got: {_line(error)}.") from error


def _run(kind: str, embed: Embed, rows: dict[str, Tensor]) -> Tensor:
    """Run the module; refuse errors and outputs of another kind."""
    count = len(next(iter(rows.values())))
    try:
        out: Any = embed(rows)
    except ReldpError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, KeyError) as error:
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in rows.items())
        raise EncoderError(
            f"`module` must run on rows of the stated shapes ({shapes}), got an error from {kind}: "
            f"{_line(error)}."
        ) from error
    if not isinstance(out, Tensor) or out.dim() != 2 or len(out) != count or not out.shape[1]:
        got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        raise EncoderError(
            f"`module` must return one vector per row, ({count}, dim) for {count} rows, got {got} from {kind}."
        )
    if not out.is_floating_point() or not bool(torch.isfinite(out).all()):
        raise EncoderError(
            f"`module` must return finite floating-point numbers on public random rows, got others from {kind}."
        )
    return out


def _state(module: nn.Module) -> dict[str, Any]:
    """Return everything that a module could remember, such that a change shows."""
    state: dict[str, Any] = {}
    for name, value in [*module.named_parameters(), *module.named_buffers()]:
        state[name] = value._version, value.data_ptr(), tuple(value.shape)
    for path, child in module.named_modules():
        for name, value in vars(child).items():
            if name not in _OF_TORCH:
                state[f"{path}.{name}".removeprefix(".")] = _remembered(value)
    return state


def _remembered(value: Any) -> Any:
    """Return something that changes when a plain value, a tensor or a collection does."""
    if isinstance(value, bool | int | float | str | type(None)):
        return value
    if isinstance(value, Tensor):
        return id(value), value._version
    return (id(value), len(value)) if isinstance(value, list | dict | set) else id(value)


def _differ(one: Tensor, other: Tensor, *, floor: float = 1e-6) -> bool:
    """Return whether rounding cannot explain the difference of two results; the floor is the least size."""
    size = float(torch.maximum(one.abs().max(), other.abs().max()))
    return not float((one - other).abs().max()) <= _ROUNDING * max(size, floor)


def _line(error: Exception) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or ['nothing'])[0].rstrip('.')}"
