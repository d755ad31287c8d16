"""The clipped sum of a batch over several processes: who computes what, and how the parts are added.

All processes draw the same batch and split it into the same microbatches; microbatch i goes to process i modulo their
number. A microbatch has the same units and the same shape whatever the number of processes is, so each unit has the
same contribution. Contributions to small parameters are whole numbers on the noise's grid and are added as int64:
exact, in whatever order. So one process and several have the same sum to the bit (theory.md 6). Sums of large
parameters, and sums without noise, are float64 and depend on the number of processes in their last bits: there
`bits_depend_on_processes`, and a run that changes it continues in a new branch.

Noise is added afterwards, once, by every process to the same sum. The sizes of all messages follow from public
settings. With sharded weights the number of messages is that of microbatches, which depends on the batch.

A unit's contribution must not depend on the process that computes it, in any step: `StepState` is compared in every
sum, public units at the start, at random steps and at the end.

Private to the package: `BatchShares`, `check_end`, `processes_for_bits`.

>>> shares = BatchShares(Processes(), {"weight": 2}, inexact=(), grid=None, max_units=8)
>>> shares.of_process(["first", "second"])
['first', 'second']
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from reldp.encoders.sharding import is_sharded
from reldp.errors import ConfigError, RunError
from reldp.gradients import ClippedSum, GradientSettings, PerUnitGradients
from reldp.processes import Processes, bit_witness, join_processes
from reldp.training.agreement import check_agreement, differences
from reldp.training.margins import max_batch_units

if TYPE_CHECKING:
    from reldp.gradients.microbatches import MicrobatchShapes
    from reldp.noise import Streams
    from reldp.plan import PrivacyPlan
    from reldp.training.guard import LocalityGuard
    from reldp.training.objective import Objective
    from reldp.training.step import PrivateStep

__all__ = ["BatchShares", "check_end", "processes_for_bits"]

_Item = TypeVar("_Item")
_STATISTICS = ("norms", "losses", "factors")


class BatchShares:
    """The shares of the processes in a batch, and the sum of their parts.

    Args:
        processes: The processes.
        sizes: Number of elements of each trainable parameter by name, in the order of sums.
        inexact: Names of the parameters whose sums are not whole numbers on the grid.
        grid: Spacing of the noise's grid; None without noise.
        max_units: Largest number of clip units of a batch: decides the size of messages.
        is_sharded: Whether the frozen weights are sharded over the processes.
    """

    def __init__(
        self,
        processes: Processes,
        sizes: Mapping[str, int],
        *,
        inexact: Collection[str],
        grid: float | None,
        max_units: int,
        is_sharded: bool = False,
    ) -> None:
        self.processes, self._max_units, self._is_sharded = processes, max_units, is_sharded
        self._sizes = list(sizes.values())
        self._is_exact = [grid is not None and name not in inexact for name in sizes]

    @classmethod
    def of(
        cls, objective: "Objective", engine: PerUnitGradients | None, plan: "PrivacyPlan"
    ) -> "BatchShares":
        """Return the shares for the steps of an objective; without an engine nothing is clipped."""
        names = zip(objective.parameters, objective.engine_names, strict=True)
        known = set() if engine is None else engine.inexact_names
        return cls(
            join_processes(),
            {name: parameter.numel() for name, parameter in objective.parameters.items()},
            inexact=[name for name, inside in names if inside in known],
            grid=plan.grid,
            max_units=max_batch_units(plan),
            is_sharded=is_sharded(objective.encoder.module),
        )

    @property
    def bits_depend_on_processes(self) -> bool:
        """Whether another number of processes may change the last bits of a sum."""
        return not all(self._is_exact)

    @property
    def num_for_bits(self) -> int:
        """Number of processes if the last bits of a sum depend on it, else 1."""
        return self.processes.size if self.bits_depend_on_processes else 1

    def of_process(self, microbatches: Sequence[_Item]) -> list[_Item]:
        """Return the microbatches of a batch that this process computes."""
        return list(microbatches[self.processes.rank :: self.processes.size])

    def padding(self, microbatches: Sequence[_Item]) -> list[_Item]:
        """Return microbatches that this process computes and drops, so that all compute equally many.

        Sharded weights are gathered by all processes at once, in every layer of every forward and backward pass.
        """
        missing = -len(microbatches) % self.processes.size
        is_short = self.processes.rank >= self.processes.size - missing
        return list(microbatches[-1:]) if self._is_sharded and is_short else []

    def sum(
        self,
        share: ClippedSum,
        parts: Sequence[slice],
        count: int,
        state: Mapping[str, Mapping[str, str]],
    ) -> ClippedSum:
        """Return the sum over all units of a batch, with their statistics in the order of units.

        Args:
            share: The sum over this process's microbatches; of nothing, if it has none.
            parts: The units of each of them, in order.
            count: Number of units of the batch.
            state: Texts by kind and name that must be the same in all processes; see `StepState`.

        Raises:
            RunError: Processes differ, or a unit is missing or counted twice.
        """
        if self.processes.is_alone:
            return share
        device = share.total.device
        digests = [_digest(texts) for texts in state.values()]
        parts_by_name = list(
            zip(torch.split(share.total, self._sizes), self._is_exact, strict=True)
        )
        exact = [part.long() for part, is_exact in parts_by_name if is_exact]
        inexact = [part for part, is_exact in parts_by_name if not is_exact]
        whole = torch.cat([*exact, torch.tensor(digests, device=device)])
        places = torch.tensor(
            [place for part in parts for place in range(part.start, part.stop)],
            dtype=torch.int64,
            device=device,
        )
        size = len(_STATISTICS) + 1, self._max_units
        statistics = torch.zeros(size, dtype=torch.float64, device=device)
        for row, name in enumerate(_STATISTICS):
            statistics[row, places] = getattr(share, name).double()
        statistics[-1].index_add_(0, places, torch.ones_like(places, dtype=torch.float64))
        floats = torch.cat([*inexact, statistics.reshape(-1)])
        self.processes.sum(whole)
        self.processes.sum(floats)
        summed = floats[-statistics.numel() :].view_as(statistics)
        self._check_digests(whole[-len(digests) :], digests, state)
        _check_once(summed[-1], count)
        norms, losses, factors = (
            summed[row, :count].to(getattr(share, name).dtype)
            for row, name in enumerate(_STATISTICS)
        )
        total = self._joined(whole[: -len(digests)], floats[: -statistics.numel()])
        return replace(share, total=total, norms=norms, losses=losses, factors=factors)

    def _check_digests(
        self, summed: Tensor, digests: Sequence[int], state: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Refuse a sum to which processes have contributed that differ in something."""
        pairs, size = zip(summed.tolist(), digests, strict=True), self.processes.size
        if all((total - size * digest) % (1 << 64) == 0 for total, digest in pairs):
            return  # int64 sums wrap around
        hidden = {name: text for texts in state.values() for name, text in texts.items()}
        raise RunError(
            "All processes must compute a step with the same batch, weights and settings, got differences from rank "
            f"0: {differences(self.processes, hidden)}. Nothing of the sum is used. A callback or a script must change "
            "all processes or none."
        )

    def check_layouts(
        self, guard: "LocalityGuard", shapes: "MicrobatchShapes", margin: float
    ) -> None:
        """Refuse processes that would give the same unit different gradients, before the first step.

        Args:
            guard: Computes with public rows.
            shapes: Shapes and layouts of microbatches that this process has selected.
            margin: The safety margin of thresholds.

        Raises:
            ConfigError: Processes differ; the message names them.
        """
        if not self.processes.is_alone:
            _refuse_tuning(self.processes, guard.device)
            compared = {"the layout of microbatches": repr(shapes), "the margin": repr(margin)}
            check_agreement(self.processes, compared)
            self.check_contributions(guard, shapes, public_weights=True)

    def check_again(
        self,
        guard: "LocalityGuard",
        shapes: "MicrobatchShapes",
        streams: "Streams",
        step: int,
        branch: int,
    ) -> bool:
        """Check locality at random steps, and compare the processes there; return whether this is such a step."""
        checked = guard.check_again(shapes, streams, step, branch)
        if checked is not None:
            length, seed = checked
            self.check_contributions(guard, shapes, length=length, seed=seed)
        return checked is not None

    def check_contributions(
        self,
        guard: "LocalityGuard",
        shapes: "MicrobatchShapes",
        *,
        length: int | None = None,
        seed: int = 0,
        public_weights: bool = False,
    ) -> None:
        """Refuse processes that give a public unit different gradients: who computes a unit depends on the batch.

        Args:
            guard: Computes with public rows.
            shapes: Shapes and layouts of microbatches.
            length: The length of microbatches to try; all of them unless given.
            seed: Of the public units.
            public_weights: Whether to use public weights, as before the first step, or those of training.

        Raises:
            ConfigError: They do; the message names the rank and the length.
        """
        if self.processes.is_alone:
            return
        lengths = shapes.lengths() if length is None else [length]
        rank, size, texts = self.processes.rank, self.processes.size, {}
        contributions = guard.public_contributions(
            shapes, lengths, seed=seed, rank=rank, public_weights=public_weights
        )
        for here, (bits, total) in zip(lengths, contributions, strict=True):
            split = zip(torch.split(total, self._sizes), self._is_exact, strict=True)
            by_kind: dict[bool, list[Tensor]] = {True: [total[:0]], False: [total[:0]]}
            for part, is_exact in split:
                by_kind[is_exact].append(part)
            inexact = torch.cat(by_kind[False])
            mean = inexact.clone()
            self.processes.sum(mean)
            # Sums of products are within a bound of each other, which the margin pays for.
            near = torch.allclose(mean / size, inexact, rtol=1e-9, atol=1e-3)
            witness = int(bit_witness(torch.cat(by_kind[True])))
            texts[f"the arithmetic on public rows of length {here}"] = f"{bits} {witness}"
            texts[f"the sum of products on public rows of length {here}"] = str(
                not self.processes.any(not near)[0] or rank
            )
        check_agreement(self.processes, texts)

    def check_equal(self, total: Tensor, step: int) -> None:
        """Refuse a noisy sum that is not the same to the bit in all processes, before it is used.

        Raises:
            RunError: It is not.
        """
        if not self.processes.all_equal(total):
            raise RunError(
                f"All processes must have the same noisy sum, got different ones in step {step}. Nothing of it is "
                "used. Do all of them have the same key, and memory without errors?"
            )

    def _joined(self, whole: Tensor, floats: Tensor) -> Tensor:
        """Return the sum of all parameters, in their order."""
        parts, start = [], {True: 0, False: 0}
        for size, is_exact in zip(self._sizes, self._is_exact, strict=True):
            source, first = whole if is_exact else floats, start[is_exact]
            parts.append(source[first : first + size].double())
            start[is_exact] += size
        return torch.cat(parts)


def processes_for_bits(objective: "Objective", plan: "PrivacyPlan", *, clip: bool) -> int:
    """Return the number of processes if the last bits of sums depend on it, else 1."""
    if join_processes().is_alone:
        return 1
    settings = GradientSettings(check_isolation=False)
    engine = PerUnitGradients(objective.module, settings) if clip else None
    return BatchShares.of(objective, engine, plan).num_for_bits


def check_end(step: "PrivateStep") -> None:
    """Compare public units between processes after the last step of a run, at the weights of the end.

    Raises:
        ConfigError: A process computes them differently: there is no certificate.
    """
    if step._engine is not None:
        step._shares.check_contributions(step._guard, step._shapes)


def _refuse_tuning(processes: Processes, device: torch.device) -> None:
    """Refuse kernels that each process would choose by its own measurements of time."""
    if device.type == "cpu":
        return
    tuned = {
        "torch.backends.cudnn.benchmark": torch.backends.cudnn.benchmark,
        "torch.cuda.tunable": torch.cuda.is_available() and torch.cuda.tunable.is_enabled(),
    }
    for name, is_on in zip(tuned, processes.any(*tuned.values()), strict=True):
        if is_on:
            raise ConfigError(
                f"`{name}` must be off with several processes, got on. Each would choose other kernels, and a unit's "
                "gradient would depend on the process that computes it."
            )


def _digest(texts: Mapping[str, str]) -> int:
    """Return a number below 2^62 that differs for different texts."""
    digest = hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


def _check_once(counts: Tensor, count: int) -> None:
    """Refuse a sum in which a unit is missing or counted twice; `counts` says how often each is in it."""
    expected = torch.zeros_like(counts)
    expected[:count] = 1.0
    if not torch.equal(counts, expected):
        raise RunError(
            "The processes must compute each unit of a batch once, got one that is missing or counted twice. Nothing "
            "of the sum is used."
        )
