"""Layers and parameters without a gradient per unit, refused by name with what to use instead.

Private to the package: `refuse_layer`, `refuse_parameter`.

>>> refuse_layer(nn.LSTM(2, 3), "lstm.weight_ih_l0")
Traceback (most recent call last):
reldp.errors.UnsupportedParameter: `lstm.weight_ih_l0` must be in a supported layer, got torch.nn.modules.rnn.LSTM. ...
"""

from typing import Any

from torch import nn

from reldp.errors import UnsupportedParameter

__all__ = ["refuse_layer", "refuse_parameter"]

_RECURRENT = (nn.RNNBase, nn.LSTMCell)


def refuse_parameter(parameter: nn.Parameter, name: str) -> None:
    """Refuse a trainable parameter that noise cannot be added to.

    Raises:
        UnsupportedParameter: It holds complex numbers.
    """
    if parameter.is_complex():
        raise UnsupportedParameter(
            f"`{name}` must hold real numbers, got {str(parameter.dtype).removeprefix('torch.')}. "
            "Keep the real and the imaginary part as two parameters."
        )


def refuse_layer(module: Any, name: str) -> None:
    """Refuse a layer that cannot be run once per unit with the same result.

    Args:
        module: A layer that has trainable parameters and no site made for it.
        name: One of its parameters, for the message.

    Raises:
        UnsupportedParameter: The layer is known not to work.
    """
    why = _reason(module)
    if why is not None:
        kind = type(module)
        place = f"{kind.__module__}.{kind.__name__}"
        raise UnsupportedParameter(f"`{name}` must be in a supported layer, got {place}. {why}")


def _reason(module: Any) -> str | None:
    """Return why a layer is refused, and what to do; None if nothing is known against it."""
    if type(module).__module__.startswith("peft."):
        return "Adapters other than plain LoRA have no tested gradient per unit."
    if "forward" in module.__dict__:
        return "Its forward has been replaced on the instance, so what it computes is unknown."
    if isinstance(module, nn.ParameterList | nn.ParameterDict | nn.ModuleList | nn.ModuleDict):
        return "It has no forward of its own: put it in the module that uses its parameters."
    if isinstance(module, nn.MultiheadAttention) and not module.batch_first:
        return "Use batch_first=True: rows must be in the first dimension."
    if isinstance(module, nn.Embedding | nn.EmbeddingBag) and _is_odd_table(module):
        return "Use max_norm=None, scale_grad_by_freq=False and sparse=False."
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return "Use track_running_stats=False." if module.track_running_stats else None
    if isinstance(module, nn.modules.batchnorm._NormBase):
        return (
            "Normalizing over the batch mixes units; use GroupNorm or LayerNorm, or freeze its weight and "
            "bias: in evaluation mode it then uses its running statistics as constants."
        )
    if isinstance(module, _RECURRENT):
        return (
            "Its kernels have no gradient per unit; use GRUCell in a loop over time, convolutions or "
            "attention, or freeze it."
        )
    return None


def _is_odd_table(module: Any) -> bool:
    """Return whether an embedding changes its weight when it is read, or has gradients of another kind."""
    return module.max_norm is not None or module.scale_grad_by_freq or module.sparse
