"""What the processes of a run must have in common in every step, as numbers that are cheap to compare.

Which process computes a clip unit depends on the other units of the batch, so a unit's contribution must not depend on
the process: in every step, and not only at the start (theory.md 6). In one process, weights or settings that change
between two steps are the same for all units of a step; in several they are not. So every step compares the batch
and its rows, the bits of all weights and buffers, frozen ones too, the settings of all layers, and everything
that decides how products are rounded.

A state outside of these (a patched function, a broken processor) is found on public rows only, at random steps and
after the last one (`reldp.training.guard`).

Private to the package: `StepState`, `numerics`.

>>> numerics(torch.device("cpu")) == numerics(torch.device("cpu"))
True
"""

import enum
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reldp.encoders.sharding import is_split
from reldp.processes import bit_witness
from reldp.training.plain_values import name_of
from reldp.training.repeatability import matmul_precision

if TYPE_CHECKING:
    from reldp.clipping import ClipUnits
    from reldp.training.objective import Objective
    from reldp.training.unit_rows import UnitRows

__all__ = ["StepState", "numerics"]

_OF_TORCH = frozenset(vars(nn.Module()))
# Where a model was loaded from, which changes nothing that is computed.
_PLACES = ("name_or_path", "_name_or_path", "_commit_hash")
_DEPTH = 5
# Units whose rows are compared in every step where a custom encoder makes them.
_FEW = 4


class StepState:
    """The state that the steps of an objective compute with.

    Args:
        objective: The encoder and the loss.
        rows: The encoder's rows.
    """

    def __init__(self, objective: "Objective", rows: "UnitRows") -> None:
        self._objective, self._rows = objective, rows

    def of(
        self, units: "ClipUnits", arithmetic: object, *, custom_rows: bool
    ) -> dict[str, dict[str, str]]:
        """Return texts by kind and name that differ where the state of two processes does. Sensitive.

        Args:
            units: The units of the batch.
            arithmetic: Everything public that decides how the batch is computed.
            custom_rows: Whether to look at the rows of all units also where a custom encoder makes them, or of a few.
        """
        batch = hashlib.sha256(str(units.entities.shape).encode())
        for name in units.__dataclass_fields__:
            value = getattr(units, name)
            batch.update(b"" if value is None else value.tobytes())
        device = self._objective.encoder.device
        public = {
            "the arithmetic": repr(numerics(device)),
            "the split of the batch": repr(arithmetic),
        }
        return {
            "batch": {
                "the batch": batch.hexdigest(),
                "its rows": self._rows_of(units, custom_rows),
            },
            "weights": self.witnesses(),
            "settings": self.settings() | public,
        }

    def witnesses(self) -> dict[str, str]:
        """Return type, layout and witness of every tensor that a forward pass may use, by name."""
        tensors = dict(self._tensors())
        described = {
            name: f"{value.dtype} {tuple(value.shape)} {value.stride()} {value.device.type}"
            for name, value in tensors.items()
        }
        witnesses = [bit_witness(value) for value in tensors.values()]
        by_device: dict[torch.device, list[int]] = {}
        for index, witness in enumerate(witnesses):
            by_device.setdefault(witness.device, []).append(index)
        numbers = [0] * len(witnesses)
        for places in by_device.values():  # one wait per device
            on_device = torch.stack([witnesses[place] for place in places]).tolist()
            for place, number in zip(places, on_device, strict=True):
                numbers[place] = number
        return {
            f"the tensor {name}": f"{described[name]} {number}"
            for name, number in zip(tensors, numbers, strict=True)
        }

    def settings(self) -> dict[str, str]:
        """Return class, mode and plain attributes of the encoder, the loss, and every layer, by name."""
        known: dict[int, str] = {}  # the layers of a model share its configuration
        texts = {"the settings of the encoder": _text(_attributes(self._objective.encoder), known)}
        for name, layer in self._layers():
            kind = f"{name_of(type(layer))} {layer.training}"
            texts[f"the settings of {name}"] = f"{kind} {_text(_attributes(layer), known)}"
        return texts

    def _rows_of(self, units: "ClipUnits", custom: bool) -> str:
        """Return a digest of the rows of all units; of a few where making them may be expensive."""
        entities = units.entities if self._rows.is_known or custom else units.entities[:_FEW]
        rows = sorted(self._rows.of(entities).items()) if len(entities) else []
        return repr(
            [(name, value.dtype, value.shape, int(bit_witness(value))) for name, value in rows]
        )

    def _layers(self) -> Iterator[tuple[str, nn.Module]]:
        """Yield every layer once, with a name."""
        objective, seen = self._objective, set()
        held = {n: x for n, x in vars(objective.encoder).items() if isinstance(x, nn.Module)}
        held["module"] = objective.encoder.module
        held |= {"loss": objective.loss} if isinstance(objective.loss, nn.Module) else {}
        for prefix, module in held.items():
            for name, layer in module.named_modules():
                if id(layer) not in seen:
                    seen.add(id(layer))
                    yield f"{prefix}.{name}".rstrip("."), layer

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor of every layer once, with a name; sharded ones are gathered, the same for all."""
        seen = set()
        for prefix, layer in self._layers():
            held = {**layer._parameters, **layer._buffers, **_attributes(layer)}
            for name, value in held.items():
                if isinstance(value, Tensor) and not is_split(value) and id(value) not in seen:
                    seen.add(id(value))
                    yield f"{prefix}.{name}", value


def numerics(device: torch.device) -> tuple[object, ...]:
    """Return settings on which the bits of a product depend, and that other code may change."""
    backends: Any = torch.backends  # untyped in torch
    cuda = backends.cuda
    return (
        torch.get_num_threads(),
        matmul_precision(),
        *_precisions(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_default_dtype(),
        _keeps_denormals(),
        backends.mkldnn.enabled,
        backends.mkldnn.deterministic,
        backends.cudnn.enabled,
        backends.cudnn.allow_tf32,
        backends.cudnn.benchmark,
        backends.cudnn.deterministic,
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
        getattr(cuda.matmul, "allow_fp16_accumulation", False),
        cuda.matmul.allow_fp16_reduced_precision_reduction,
        cuda.matmul.allow_bf16_reduced_precision_reduction,
        str(cuda.preferred_blas_library()),
        str(cuda.preferred_linalg_library()),
        device.type == "cuda" and torch.cuda.tunable.is_enabled(),
        device.type,
    )


def _precisions() -> Iterator[str]:
    """Yield the precisions of float32 that newer versions of torch set separately."""
    for place in (
        (),
        ("cuda", "matmul"),
        ("cudnn", "conv"),
        ("mkldnn", "matmul"),
        ("mkldnn", "conv"),
    ):
        value: Any = torch.backends
        for name in place:
            value = getattr(value, name, None)
        precision = str(getattr(value, "fp32_precision", None))
        yield "ieee" if precision == "none" else precision  # none is what nobody has set


def _keeps_denormals() -> bool:
    """Return whether numbers next to zero stay what they are; torch sets it and does not say."""
    return bool(torch.tensor(2.0**-1030, dtype=torch.float64) * 0.5)


def _attributes(value: Any) -> dict[str, Any]:
    """Return what an object holds besides layers, parameters and buffers."""
    return {
        name: item
        for name, item in vars(value).items()
        if name not in _OF_TORCH and not isinstance(item, nn.Module)
    }


def _text(value: Any, known: dict[int, str], depth: int = _DEPTH) -> str:
    """Return a plain value, a collection of them, or a configuration as text; of anything else the class."""
    if value is None or isinstance(
        value, bool | int | float | str | bytes | torch.dtype | enum.Enum
    ):
        return repr(value)
    if depth and isinstance(value, Mapping):
        items = sorted((str(key), _text(item, known, depth - 1)) for key, item in value.items())
        return repr([item for item in items if item[0] not in _PLACES])
    if depth and isinstance(value, Sequence):
        return repr([_text(item, known, depth - 1) for item in value])
    if depth and isinstance(value, set | frozenset):
        return repr(sorted(_text(item, known, depth - 1) for item in value))
    is_configuration = hasattr(value, "to_dict") or is_dataclass(value)
    if (
        depth
        and hasattr(value, "__dict__")
        and (is_configuration or isinstance(value, SimpleNamespace))
    ):
        if id(value) not in known:
            known[id(value)] = ""  # a configuration may hold itself
            known[id(value)] = _text(vars(value), known, depth - 1)
        return known[id(value)]
    return name_of(type(value))
