"""The processes of a run that `torchrun` started: sums, messages, and what happens when one of them ends.

Without torchrun there is one process, and every method returns at once. With it, the first use joins the process
group: gloo between CPUs, NCCL between GPUs, on which process i of a machine takes GPU i. A group that the program has
made itself is used as it is.

Messages are plain bytes and numbers, never pickles. They carry the run's key and sums without noise: the network
between machines must be trusted or encrypted (docs/scaling.md).

If a process fails, or is killed, the next message of every other process raises a `RunError` that names it. No process
continues alone. Before each message the processes compare what it is about: one that does something else than the
others, such as an evaluation that only the first calls, ends the run with an error that names both.

Public inside the package: `Processes`, `join_processes`, `bit_witness`, `messages_sent`,
`new_uncounted_group`.

>>> processes = join_processes()
>>> processes.rank, processes.size, processes.from_first(lambda: b"key")
(0, 1, b'key')
"""

import atexit
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from reldp.errors import ReldpError, RunError

__all__ = [
    "Processes",
    "bit_witness",
    "join_processes",
    "messages_sent",
    "new_uncounted_group",
]

# How long a process waits for another that neither answers nor ends.
_PATIENCE = timedelta(minutes=30)
# Seconds that a process waits for the others to say why they ended.
_WAIT_FOR_REASONS = 3.0
_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# A witness multiplies the words of a tensor by as many factors, and so many chunks of them at a time.
_CHUNK, _CHUNKS_AT_ONCE = 1 << 20, 16
_LOW_HALF = (1 << 32) - 1


class Processes:
    """The processes of a run, seen from one of them.

    Attributes:
        rank: Number of this process, from 0. The first one writes the run folder.
        size: Number of processes.
    """

    def __init__(
        self, rank: int = 0, size: int = 1, control: Any = None, store: Any = None
    ) -> None:
        """Take over a process group; use `join_processes`.

        Args:
            rank: Number of this process.
            size: Number of processes.
            control: A gloo group of all processes, for messages.
            store: The group's key-value store, through which a process says why it ends.
        """
        self.rank, self.size = rank, size
        self._control, self._store = control, store
        self._reason: str | None = None  # why this process ends, or why the group cannot be used

    def __repr__(self) -> str:
        return f"Processes(rank={self.rank}, size={self.size})"

    @property
    def is_alone(self) -> bool:
        """Whether there is one process."""
        return self.size == 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes the run folder, prints, and asks the disk."""
        return self.rank == 0

    def sum(self, values: Tensor) -> None:
        """Replace whole numbers or floats by their sums over all processes, in place."""
        if self.is_alone:
            return
        self._meet(f"a sum of {values.numel()} numbers")
        group = self._control if values.device.type == "cpu" else None
        self._collective(lambda: dist.all_reduce(values, dist.ReduceOp.SUM, group=group))
        if values.device.type != "cpu":
            torch.cuda.current_stream(values.device).synchronize()

    def any(self, *flags: bool, about: str = "flags") -> tuple[bool, ...]:
        """Return for each flag whether it is set in any process.

        Args:
            flags: The flags.
            about: What they are, for the error if another process does something else.
        """
        if self.is_alone:
            return flags
        self._meet(about)
        values = torch.tensor(flags, dtype=torch.int64)
        self._largest(values)
        return tuple(bool(value) for value in values.tolist())

    def all_equal(self, values: Tensor) -> bool:
        """Return whether numbers have the same bits in all processes, as `bit_witness` sees them."""
        if self.is_alone:
            return True
        self._meet("a comparison")
        return self._is_same(int(bit_witness(values)))

    def from_first(self, make: Callable[[], bytes], about: str = "a message") -> bytes:
        """Return in all processes what `make` returns in the first, the only one that calls it.

        Args:
            make: Makes the message.
            about: What it is, for the error if another process does something else.
        """
        if self.is_alone:
            return make()
        self._meet(about)
        data = make() if self.is_first else b""
        size = torch.tensor([len(data)])
        self._collective(lambda: dist.broadcast(size, src=0, group=self._control))
        content = _as_tensor(data) if self.is_first else torch.empty(int(size), dtype=torch.uint8)
        self._collective(lambda: dist.broadcast(content, src=0, group=self._control))
        return content.numpy().tobytes()

    def gather(self, data: bytes, about: str = "messages") -> list[bytes]:
        """Return the bytes of all processes, by rank, in all of them.

        Args:
            data: The bytes of this process.
            about: What they are, for the error if another process does something else.
        """
        if self.is_alone:
            return [data]
        self._meet(about)
        return self._gather(data)

    def wait(self, about: str = "the end of their part") -> None:
        """Wait until all processes are here; an error in one of them is then known to all."""
        self.any(False, about=about)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Tell the other processes why this one ends, if an error ends it: they end too."""
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise

    def end(self, error: BaseException) -> None:
        """Tell the other processes that an error ends this one, and use the group no more."""
        if not self.is_alone and self._reason is None:
            self._reason = f"{error}" if isinstance(error, ReldpError) else type(error).__name__
            self._report("ended", self._reason)
            self._report("knows", "")
            self._leave()
            if self.is_first:  # the store may end with this process
                self._wait_until_known()

    def _meet(self, about: str) -> None:
        """Refuse processes that are about to do different things: their messages would be mixed up.

        Raises:
            RunError: They are; the message names all ranks.
        """
        digest = hashlib.sha256(about.encode()).digest()
        if self._is_same(int.from_bytes(digest[:8], "big", signed=True)):
            return
        words = [data.decode() for data in self._gather(about.encode())]
        doings = "; ".join(f"rank {rank}: {doing}" for rank, doing in enumerate(words))
        self._reason = (
            f"All processes must do the same at the same time, got {doings}. Does a callback or a script call "
            "something in one process only, such as an evaluation? Call it in all of them, and print in one."
        )
        self._leave()
        raise RunError(self._reason)

    def _is_same(self, number: int) -> bool:
        """Return whether all processes have the same whole number."""
        values = torch.tensor([number, ~number])
        self._largest(values)
        return int(values[0]) == ~int(values[1])

    def _largest(self, values: Tensor) -> None:
        """Replace whole numbers by the largest of all processes, in place."""
        self._collective(lambda: dist.all_reduce(values, dist.ReduceOp.MAX, group=self._control))

    def _gather(self, data: bytes) -> list[bytes]:
        length = torch.tensor([len(data)])
        sizes = [torch.zeros_like(length) for _ in range(self.size)]
        self._collective(lambda: dist.all_gather(sizes, length, group=self._control))
        room = max(int(size) for size in sizes)
        padded = _as_tensor(data.ljust(room, b"\0"))
        parts = [torch.empty(room, dtype=torch.uint8) for _ in range(self.size)]
        self._collective(lambda: dist.all_gather(parts, padded, group=self._control))
        return [
            part[: int(size)].numpy().tobytes() for part, size in zip(parts, sizes, strict=True)
        ]

    def _collective(self, call: Callable[[], Any]) -> None:
        """Call all processes; name those that did not answer.

        Raises:
            RunError: A process has ended, or did not answer in time.
        """
        if self._reason is not None:
            raise RunError(f"The processes of this run must all be there: {self._reason}")
        try:
            call()
        except RuntimeError as error:
            self._reason = self._why_lost()
            self._leave()
            raise RunError(self._reason) from error

    def _report(self, kind: str, words: str) -> None:
        with suppress(Exception):  # the store ends with the process or machine that holds it
            self._store.set(f"reldp/{kind}/{self.rank}", words)

    def _wait_until_known(self) -> None:
        """Wait for the other processes to learn why this one ends, but not for long."""
        until = time.monotonic() + _WAIT_FOR_REASONS
        known = [f"reldp/knows/{rank}" for rank in range(1, self.size)]
        with suppress(Exception):
            while not self._store.check(known) and time.monotonic() < until:
                time.sleep(0.05)

    def _why_lost(self) -> str:
        """Return which processes have ended, and why, as far as they have said it."""
        self._report("lost", "")
        other_ranks = [rank for rank in range(self.size) if rank != self.rank]
        until = time.monotonic() + _WAIT_FOR_REASONS
        ended: dict[int, str] = {}
        silent = other_ranks
        try:
            while silent and time.monotonic() < until:
                for rank in silent:
                    if self._store.check([f"reldp/ended/{rank}"]):
                        ended[rank] = self._store.get(f"reldp/ended/{rank}").decode()
                silent = [
                    rank
                    for rank in other_ranks
                    if rank not in ended and not self._store.check([f"reldp/lost/{rank}"])
                ]
                if silent:
                    time.sleep(0.05)
        except Exception:  # the store is gone: in all likelihood with the first process
            silent = [0] if not self.is_first else silent
        self._report("knows", "")
        reasons = [f"rank {rank} ended ({why.rstrip('.')})" for rank, why in ended.items()]
        if not reasons:
            reasons = [f"rank {rank} ended without a reason" for rank in silent]
        words = "; ".join(reasons) or "a process did not answer in time"
        return (
            f"All {self.size} processes of a run must be running, got: {words}. Rank {self.rank} stops. "
            "Run the same command again to resume."
        )

    def _leave(self) -> None:
        """Close the connections to the other processes, which then notice."""
        global _joined
        if _joined is self and _is_ours:
            with suppress(Exception):
                dist.destroy_process_group()


_joined: Processes | None = None
_uncounted: list[Any] = []
_is_ours = False  # whether this module made the process group


def join_processes() -> Processes:
    """Return the processes of this run; the first call connects them.

    Raises:
        RunError: A process of the group did not answer.
    """
    global _joined, _is_ours
    if _joined is not None:
        return _joined
    if not dist.is_available():
        return Processes()
    if not dist.is_initialized():
        if not all(name in os.environ for name in _VARIABLES) or os.environ["WORLD_SIZE"] == "1":
            return Processes()
        has_gpu = torch.cuda.is_available()
        if has_gpu:  # before NCCL looks for it
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        try:
            dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpu else "gloo", timeout=_PATIENCE)
        except (RuntimeError, ValueError) as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise RunError(
                f"The processes of a run must find each other, got: {reason}."
            ) from error
        _is_ours = True
    if dist.get_world_size() == 1:
        return Processes()
    has_gloo = "gloo" in str(dist.get_backend_config()) if _is_ours else False
    control = None if has_gloo else dist.new_group(backend="gloo")
    store: Any = dist.distributed_c10d._get_default_store()
    _joined = Processes(dist.get_rank(), dist.get_world_size(), control, store)
    # A thread of gloo that gives back tensors while the interpreter ends would abort the process.
    atexit.register(_joined._leave)
    return _joined


def _take_gpu() -> None:
    """Use the GPU of this process's number on its machine, if there are so many."""
    place = os.environ.get("LOCAL_RANK", "0")
    if place.isdigit() and int(place) < torch.cuda.device_count():
        torch.cuda.set_device(int(place))


def messages_sent() -> list[int]:
    """Return how many messages each process group of this program has sent, whoever asked for them."""
    if not dist.is_available() or not dist.is_initialized():
        return []
    groups: Any = dist.distributed_c10d._world.pg_map  # partly untyped in torch
    return [
        _count(group._get_backend(kind))
        for group in groups
        if group not in _uncounted
        for kind in group._device_types
    ]


def _count(backend: Any) -> int:
    """Return the number of messages of a group on one kind of device; -1 for backends that do not count."""
    try:
        return int(backend._get_sequence_number_for_group())
    except RuntimeError:
        return -1


def new_uncounted_group() -> Any:
    """Return a process group of all processes, which `messages_sent` leaves out: for sharded weights."""
    _uncounted.append(dist.new_group())
    return _uncounted[-1]


def bit_witness(values: Tensor) -> Tensor:
    """Return a whole number (int64, without dimensions) that depends on every bit of a tensor.

    On a CPU it is a part of a SHA-256. On a GPU it is a sum of products, whatever the order of additions: it changes
    with certainty if one element changes, and other tensors that nobody has made to deceive it have the same number
    with a probability of at most 2^-32, which only differences in nothing but signs reach, and 2^-63 in general.
    """
    if values.device.type != "cpu":
        return _sum_of_products(values)
    flat = values.detach().contiguous().reshape(-1).view(torch.uint8)
    digest = hashlib.sha256(flat.numpy().data).digest()
    return torch.tensor(int.from_bytes(digest[:8], "big", signed=True))


def _sum_of_products(values: Tensor) -> Tensor:
    """Return the witness of a tensor, computed where it is, without waiting for it."""
    flat = values.detach().contiguous().reshape(-1).view(torch.uint8)
    if len(flat) % 4 or flat.storage_offset() % 4:
        flat = torch.cat([flat, flat.new_zeros(-len(flat) % 4)])
    words = flat.view(torch.int32)
    # Products and sums of int64 wrap around, so they are exact. Words have half of the bits, so that also a word's
    # sign meets many bits of its factor.
    factors = _factors(values.device)
    whole = len(words) // _CHUNK
    rows = words[: whole * _CHUNK].view(whole, _CHUNK)
    rest = words[whole * _CHUNK :]
    starts = range(0, whole, _CHUNKS_AT_ONCE)
    parts = [(rows[start : start + _CHUNKS_AT_ONCE] * factors).sum(dim=1) for start in starts]
    sums = torch.cat([*parts, (rest * factors[: len(rest)]).sum()[None]])  # (chunks + 1,)
    sums = sums ^ ((sums >> 32) & _LOW_HALF)  # so that chunks and words cannot change places
    return (sums * factors[: len(sums)]).sum()


@cache
def _factors(device: torch.device) -> Tensor:
    """Return public random odd whole numbers."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(-(1 << 62), 1 << 62, (_CHUNK,), generator=generator)
    return drawn.mul_(2).add_(1).to(device)


def _as_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data or b"\0"), dtype=torch.uint8)[: len(data)]
