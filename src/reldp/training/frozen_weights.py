"""Notices that steps changed what they must leave alone: frozen weights, buffers, and modules beside the trained one.

They are released as they are, without noise. A frozen embedding with ``max_norm`` rescales the rows that it is asked
for, and an observer of quantization notes the range of what it sees, neither with another output: what is published
would depend on private rows. So would what an encoder of a user's own class keeps in attributes and saves. Bits and
attributes are compared with those after the check on public rows: after the first step of a session, before every
checkpoint and after the last step.

Private to the package: `FrozenWeights`, `frozen_tensors`, `tensors_beside`.

>>> FrozenWeights.__name__
'FrozenWeights'
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from reldp.errors import RunError
from reldp.training.bits import bits_of
from reldp.training.loss_hash import kept_by_encoder_sha256

if TYPE_CHECKING:
    from reldp.training.objective import Objective

__all__ = ["FrozenWeights", "frozen_tensors", "tensors_beside"]


class FrozenWeights:
    """The bits of everything that is released and not trained, as they were noted.

    Args:
        objective: The encoder and the loss.
    """

    def __init__(self, objective: "Objective") -> None:
        self._objective = objective
        self._bits: object = None
        self._attributes: str | None = None
        self._versions: dict[str, int] = {}
        self._device: Any = None

    def note(self) -> None:
        """Take note; on the same device, where there is a note already, compare instead.

        Raises:
            RunError: Another state was noted.
        """
        device = self._objective.encoder.device
        if self._bits is not None and self._device == device:
            self.check()
            return
        self._bits, self._device = self._now(), device
        self._attributes = kept_by_encoder_sha256(self._objective.encoder)
        self._versions = dict(self._named())

    def check(self) -> None:
        """Refuse another state than the noted one.

        Raises:
            RunError: It is another.
        """
        if self._bits is None:
            return
        if self._attributes != kept_by_encoder_sha256(self._objective.encoder):
            raise RunError(
                f"`encoder` must keep nothing of what it is asked for, got {type(self._objective.encoder).__name__}, "
                "whose attributes, or those of its class, changed: its rows would depend on earlier ones, and what it "
                "saves on private data. Compute what does not change in `table`."
            )
        if self._bits == self._now():
            return
        changed = [name for name, version in self._named() if self._versions.get(name) != version]
        which = f"such as {changed[0]!r}" if changed else "which torch does not name"
        raise RunError(
            "`encoder` must leave frozen weights and buffers as they are when it runs, got one that changes some, "
            f"{which}. They are released without noise, so nothing may enter them: use no layer that keeps what it "
            "sees, such as an observer, or an embedding with max_norm."
        )

    def _now(self) -> object:
        objective = self._objective
        return bits_of((*frozen_tensors(objective), *tensors_beside(objective)))

    def _named(self) -> Iterator[tuple[str, int]]:
        """Yield names with torch's count of changes in place, for the message."""
        module = self._objective.encoder.module
        for name, value in (*module.named_parameters(), *module.named_buffers()):
            yield name, 0 if value.is_inference() else value._version


def frozen_tensors(objective: "Objective") -> Iterator[Tensor]:
    """Yield frozen weights and buffers of the encoder's module and of a loss."""
    trained = set(map(id, objective.parameters.values()))
    return (value for value in _tensors(objective.modules()) if id(value) not in trained)


def tensors_beside(objective: "Objective") -> Iterator[Tensor]:
    """Yield weights and buffers of modules that an encoder holds beside its own, which no step uses."""
    inside = set(map(id, _tensors(objective.modules())))
    held = [x for x in vars(objective.encoder).values() if isinstance(x, nn.Module)]
    tensors = _tensors(layer for module in held for layer in module.modules())
    return (value for value in tensors if id(value) not in inside)


def _tensors(layers: Iterable[nn.Module]) -> Iterator[Tensor]:
    """Yield every parameter and buffer of the layers once."""
    seen: set[int] = set()
    for layer in layers:
        for value in (*layer._parameters.values(), *layer._buffers.values()):
            if value is not None and id(value) not in seen:
                seen.add(id(value))
                yield value
