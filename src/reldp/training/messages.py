"""No messages to other processes inside of a forward pass or a loss.

A loss that was written for data-parallel training may average over processes. A unit's gradient would then depend on
units of other processes, which no check inside of one process sees. So collective operations of torch are refused where
public rows are computed, and process groups that have sent messages during a batch stop the run.

Private to the package: `refuse_messages`, `same_messages`.

>>> with same_messages():
...     torch.ones(2).sum().item()
2.0
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from reldp.errors import InputError, RunError
from reldp.processes import messages_sent
from reldp.training.loss_check import public_tuples
from reldp.training.repeatability import repeatable_attention

if TYPE_CHECKING:
    from reldp.training.objective import Objective

__all__ = ["refuse_messages", "same_messages"]


def refuse_messages(objective: "Objective", table: Any, *, length: int) -> None:
    """Refuse an encoder or a loss that talks to other processes, in a forward or a backward pass.

    Args:
        objective: The encoder, not sharded yet, and the loss.
        table: The encoder's table, of which only kinds and sizes are used.
        length: Tokens of the public rows that are tried.

    Raises:
        InputError: One of them does.
    """
    if not dist.is_available() or not dist.is_initialized():
        return
    encoder = objective.encoder
    generator = torch.Generator().manual_seed(0)
    rows = encoder.synthetic_rows(table, 2, length=length, generator=generator)
    trained = list(encoder.trainable().values())
    embeddings, batch = public_tuples(objective, 0)
    # Recomputed activations run with the attention of a step, and so must what they are compared with.
    quiet = _NoMessages()  # type: ignore[no-untyped-call] # untyped in torch
    with quiet, repeatable_attention(encoder.device):
        total = encoder.embed(rows).sum()
        if total.requires_grad:
            torch.autograd.grad(total, trained, allow_unused=True)
        values = objective.loss(embeddings.requires_grad_(), batch)
        if values.requires_grad:
            torch.autograd.grad(values.sum(), [embeddings], allow_unused=True)


class _NoMessages(TorchDispatchMode):  # type: ignore[no-untyped-call] # untyped in torch
    """Refuse collective operations of torch while it is open."""

    def __torch_dispatch__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operation of torch, unless it is one between processes."""
        if "c10d" in function.namespace:  # type: ignore[attr-defined]
            raise InputError(
                "`encoder` and `loss` must compute a unit from its own rows, got a message to other processes "
                f"({function}). Remove it: reldp adds up what the processes compute."
            )
        return function(*args, **(kwargs or {}))


@contextmanager
def same_messages() -> Iterator[None]:
    """Refuse messages of any process group while it is open, except those that gather sharded weights.

    Raises:
        RunError: There was one.
    """
    before = messages_sent()
    yield
    if messages_sent() != before:
        raise RunError(
            "`encoder` and `loss` must send no messages to other processes, got some in a batch. Nothing of it is "
            "used. Remove all collective operations: reldp adds up what the processes compute."
        )
