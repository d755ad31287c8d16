"""Notices that code between steps changed weights or buffers: callbacks must not, since no epsilon covers what they do.

The bits are compared, not counters of torch: ``p.data.copy_``, a NumPy view and the running statistics of a batch
normalization change values without a trace. `WeightWatch` compares

* what steps compute with (trained and frozen weights and buffers of the encoder's module and of the loss): around every
  call, so that a change which is undone later is noticed too;
* modules beside it, such as the frozen model of a head, which are released and which no step uses: before every
  checkpoint, and after the last step.

Not noticed are changes by another thread while a step runs, by hooks of the optimizer, and of tensors that are neither
parameters nor buffers (`reldp.training.objective` looks at those of modules from outside of libraries).

What steps themselves change is the matter of `reldp.training.frozen_weights`.

Private to the package: `WeightWatch`.

>>> WeightWatch.__name__
'WeightWatch'
"""

from typing import TYPE_CHECKING

from reldp.training.bits import bits_of
from reldp.training.callbacks import WeightsChangedError
from reldp.training.frozen_weights import frozen_tensors, tensors_beside

if TYPE_CHECKING:
    from reldp.training.objective import Objective

__all__ = ["WeightWatch"]


class WeightWatch:
    """The bits of all weights and buffers of an objective, as they were noted last.

    Args:
        objective: The encoder and the loss.
        is_on: Whether to look at all: where no code from outside runs, nothing needs to be compared.
    """

    def __init__(self, objective: "Objective", *, is_on: bool) -> None:
        """Take note of all weights and buffers."""
        self._objective, self.is_on = objective, is_on
        self._trained: object = None
        if is_on:
            self.note_trained()
            self._frozen, self._beside = self._bits_of_frozen(), self._bits_beside()

    def note_trained(self) -> None:
        """Take note of the trained weights, which a step has changed."""
        if self.is_on:
            self._trained = bits_of(self._objective.parameters.values())

    def check(self) -> None:
        """Refuse another state of what steps compute with.

        Raises:
            WeightsChangedError: It is another.
        """
        if not self.is_on:
            return
        if self._trained != bits_of(self._objective.parameters.values()):
            _refuse("trained weights")
        if self._frozen != self._bits_of_frozen():
            _refuse("frozen weights or buffers")

    def check_beside(self) -> None:
        """Refuse another state of modules that no step uses, and that are released all the same.

        Raises:
            WeightsChangedError: It is another.
        """
        if self.is_on and self._beside != self._bits_beside():
            _refuse("frozen weights or buffers")

    def _bits_of_frozen(self) -> object:
        return bits_of(frozen_tensors(self._objective))

    def _bits_beside(self) -> object:
        return bits_of(tensors_beside(self._objective))


def _refuse(what: str) -> None:
    raise WeightsChangedError(
        f"`callbacks` must leave the weights as they are, got one that changed {what}: no epsilon covers it. Load the "
        "encoder again and resume from the last checkpoint without it, or write a loop of your own with "
        "PrivateStep.record, whose certificate says so."
    )
