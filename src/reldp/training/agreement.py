"""What the processes of a run must have in common, compared before anything is counted or written.

Processes that train on different graphs, plans, models or settings would add up gradients of different things, and no
certificate would describe the result. Processes whose arithmetic differs would give the same clip unit different
gradients, and which of them computes a unit depends on the batch. All are refused, by name of the process and of
the difference. Values that are sensitive are compared and never shown.

Private to the package: `check_agreement`, `check_facts`, `differences`, `facts_in_common`.

>>> check_agreement(Processes(), {"plan": "1"})
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from reldp.encoders.folders import state_hash
from reldp.errors import ConfigError
from reldp.processes import Processes
from reldp.training.repeatability import is_repeatable

if TYPE_CHECKING:
    from reldp.training.facts import TrainingFacts

__all__ = ["check_agreement", "check_facts", "differences", "facts_in_common"]

_LONGEST = 60  # characters of a value that a message shows
_MAX_NAMED = 6  # differences of a process that a message names


def check_agreement(
    processes: Processes, hidden: Mapping[str, str], shown: Mapping[str, Any] | None = None
) -> None:
    """Refuse processes that differ from the first one, in all processes at once.

    Args:
        processes: The processes.
        hidden: Values by name that are compared, and not shown.
        shown: Public values by name; a difference is shown.

    Raises:
        ConfigError: Some differ; the message names the ranks and what differs.
    """
    words = differences(processes, hidden, shown)
    if words:
        raise ConfigError(
            "All processes of a run must train the same thing in the same way, got differences from rank 0: "
            f"{words}. Start all of them with the same graph, plan, model, settings and software."
        )


def differences(
    processes: Processes, hidden: Mapping[str, str], shown: Mapping[str, Any] | None = None
) -> str:
    """Return in words which processes differ from the first one, and in what; empty if none does.

    Args:
        processes: The processes.
        hidden: Values by name that are compared, and not shown.
        shown: Public values by name; a difference is shown.
    """
    if processes.is_alone:
        return ""
    values_here = {
        "hidden": {
            name: hashlib.sha256(text.encode()).hexdigest() for name, text in hidden.items()
        },
        "shown": {name: json.dumps(value, sort_keys=True) for name, value in (shown or {}).items()},
    }
    gathered = processes.gather(json.dumps(values_here).encode(), about="a comparison of settings")
    everywhere = [json.loads(data) for data in gathered]
    first, by_rank = everywhere[0], []
    for rank, other in enumerate(everywhere):
        names = [
            f"{name} {'differs' if kind == 'hidden' else _both(other[kind].get(name), value)}"
            for kind, values in first.items()
            for name, value in {**dict.fromkeys(other[kind]), **values}.items()
            if other[kind].get(name) != value
        ]
        more = [f"and {len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
        by_rank += [f"on rank {rank} {', '.join(names[:_MAX_NAMED] + more)}"] if names else []
    return "; ".join(by_rank)


def _both(value: str | None, first: str | None) -> str:
    """Return a value and that of the first process, for a message."""
    return f"is {str(value)[:_LONGEST]} and not {str(first)[:_LONGEST]}"


def check_facts(
    processes: Processes,
    facts: "TrainingFacts",
    *,
    is_new: bool,
    shown: Mapping[str, Any] | None = None,
) -> None:
    """Refuse processes that train different things, before anything is counted or written.

    Args:
        processes: The processes.
        facts: What this process trains, and how.
        is_new: Whether the run is new, so that it starts from the weights in memory.
        shown: Further public values by name.

    Raises:
        ConfigError: Some differ; the message names the ranks and what differs.
    """
    if not processes.is_alone:
        hidden, known = facts_in_common(facts, is_new=is_new)
        check_agreement(processes, hidden, {**known, **(shown or {})})


def facts_in_common(
    facts: "TrainingFacts", *, is_new: bool
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the values that must be the same in all processes: those that are compared, and those that are shown.

    Args:
        facts: What this process trains, and how.
        is_new: Whether the run is new, so that it starts from the weights in memory.
    """
    hidden = {
        "the graph": facts.capped.fingerprint,
        "the table of texts or features": facts.hashes["table"] or "",
        "the public pool": facts.hashes["pool"] or "",
        "the encoder": json.dumps(
            [facts.encoder.describe(), facts.hashes["encoder"]], sort_keys=True
        ),
        "the loss": facts.hashes["loss"] or "",
        "the choice of weights": json.dumps(facts.selection, sort_keys=True),
        "the held-out entities": facts.holdout.test.fingerprint if facts.holdout else "",
    }
    if is_new:
        hidden["the start of the weights"] = state_hash(facts.objective.parameters)
    shown = {f"plan.{name}": value for name, value in facts.plan.to_dict().items()}
    shown |= {f"training.{name}": value for name, value in facts.training.items()}
    shown |= {f"machine.{name}": value for name, value in facts.machine.items()}
    shown["machine.libc"] = list(platform.libc_ver())  # whose functions torch may use
    shown |= {f"gpu.{name}": value for name, value in _gpu(facts.performance.device).items()}
    return hidden, shown


def _gpu(device: str) -> dict[str, Any]:
    """Return what decides which kernels a GPU uses, besides its name; nothing for a CPU."""
    if is_repeatable(device):
        return {}
    properties = torch.cuda.get_device_properties(device)
    return {
        "multiprocessors": properties.multi_processor_count,
        "capability": f"{properties.major}.{properties.minor}",
        "memory_gib": properties.total_memory >> 30,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
    }
