"""Whether a step can be repeated bit for bit, and what has to be the same for it.

On a CPU it can, if deterministic algorithms are on, the number of threads is fixed and machine and
libraries are the same: then a resumed run keeps its branch. On a GPU, or where anything of this
differs, it goes on in a new branch with fresh coins and noise (theory.md section 6).

Public inside the package: `repeatable`, `is_repeatable`, `machine`, `versions`.

>>> sorted(machine("cpu", 2))
['capability', 'device', 'processor', 'threads']
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import reldp

__all__ = ["is_repeatable", "machine", "repeatable", "versions"]

_LIBRARIES = ("torch", "numpy", "transformers", "peft")


@contextmanager
def repeatable(device: str, threads: int) -> Iterator[None]:
    """A fixed number of threads and, on a CPU, deterministic algorithms; as before afterwards."""
    before = torch.get_num_threads()
    strict = torch.are_deterministic_algorithms_enabled()
    only_warn = torch.is_deterministic_algorithms_warn_only_enabled()
    settings: Any = torch.utils.deterministic
    fill = settings.fill_uninitialized_memory
    torch.set_num_threads(threads)
    if is_repeatable(device):
        torch.use_deterministic_algorithms(True)
        # Costs time and guards against reading memory that nobody wrote, which nothing here does.
        settings.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(strict, warn_only=only_warn)
        settings.fill_uninitialized_memory = fill


def is_repeatable(device: str) -> bool:
    """Whether steps on this device repeat bit for bit on the same machine."""
    return device.partition(":")[0] == "cpu"


def machine(device: str, threads: int) -> dict[str, Any]:
    """What must be the same for bits to be the same, besides `versions`."""
    if is_repeatable(device):
        capability = torch.backends.cpu.get_cpu_capability()
        return {
            "device": "cpu",
            "processor": _processor(),
            "capability": capability,
            "threads": threads,
        }
    return {"device": device, "processor": torch.cuda.get_device_name(device), "threads": threads}


def versions() -> dict[str, str]:
    """Versions of everything that computes."""
    found = {"reldp": reldp.__version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
