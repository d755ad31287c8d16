"""Bitwise repeatability of steps: the conditions for it, and settings that provide them.

On a CPU, a step that is executed again gives the same bits if deterministic algorithms are on, the
number of threads is fixed, and machine, libraries and their settings are the same. Then a resumed run
keeps its branch. On a GPU, or if any of these differs, it continues in a new branch with fresh random
draws and noise (theory.md 6). Because no list of settings is ever complete, a small public
computation is hashed too: a different hash counts as a different machine.

Public inside the package: `repeatable`, `no_random_numbers`, `is_repeatable`, `machine`,
`matmul_precision`, `versions`.

>>> machine("cpu", 2)["threads"]
2
"""

import hashlib
import os
import platform
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

import reldp
from reldp.errors import ConfigError, InputError

__all__ = [
    "is_repeatable",
    "machine",
    "matmul_precision",
    "no_random_numbers",
    "repeatable",
    "repeatable_attention",
    "versions",
]

_LIBRARIES = ("torch", "numpy", "transformers", "peft")
# Settings of numerical libraries that change bits, where they are set.
_VARIABLES = (
    *("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "MKL_NUM_THREADS", "MKL_DYNAMIC"),
    *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "OMP_DYNAMIC", "OMP_SCHEDULE"),
    *("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE", "OPENBLAS_CORETYPE"),
    *("CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
    *("CUBLASLT_WORKSPACE_SIZE", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "ATEN_CPU_CAPABILITY"),
    *("MKL_DEBUG_CPU_TYPE", "KMP_DETERMINISTIC_REDUCTION", "GLIBC_TUNABLES"),
)
_PLAIN_SETTING = re.compile(r"[A-Za-z0-9_.,:;=+-]{0,100}")
_PROBED = ((1, 7, 5), (5, 33, 8), (48, 384, 64), (130, 65, 257))  # rows, inner, columns


@contextmanager
def repeatable(device: str, threads: int) -> Iterator[None]:
    """Fix the number of threads and, on a CPU, use deterministic algorithms; restore both on exit."""
    before = torch.get_num_threads()
    strict = torch.are_deterministic_algorithms_enabled()
    only_warn = torch.is_deterministic_algorithms_warn_only_enabled()
    settings: Any = torch.utils.deterministic
    fill = settings.fill_uninitialized_memory
    torch.set_num_threads(threads)
    if is_repeatable(device):
        torch.use_deterministic_algorithms(True)
        # Costs time, and only protects code that reads uninitialized memory, of which there is none.
        settings.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(strict, warn_only=only_warn)
        settings.fill_uninitialized_memory = fill


@contextmanager
def no_random_numbers() -> Iterator[None]:
    """Refuse an encoder that draws random numbers: its steps would not be repeatable."""
    before = torch.get_rng_state()
    failed: InputError | None = None
    try:
        yield
    except InputError as error:  # random numbers can look like rows that depend on each other
        failed = error
    if not torch.equal(before, torch.get_rng_state()):
        raise ConfigError(
            "`encoder` must compute the same for the same rows, got one that draws random numbers "
            "in evaluation mode. Remove dropout and the like from its forward."
        ) from failed
    if failed is not None:
        raise failed


def repeatable_attention(device: torch.device) -> AbstractContextManager[Any]:
    """Allow, on a GPU, only attention kernels whose backward adds in a fixed order: not cuDNN's."""
    if device.type == "cpu":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    )


def is_repeatable(device: str) -> bool:
    """Return whether steps on this device repeat bit for bit on the same machine."""
    return device.partition(":")[0] == "cpu"


def machine(device: str, threads: int) -> dict[str, Any]:
    """Return everything that must be the same for bits to be the same: public values by name."""
    values: dict[str, Any] = {f"versions.{name}": value for name, value in versions().items()}
    named = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    values |= {f"environment.{name}": _setting(value) for name, value in named.items()}
    values |= {"threads": threads, "matmul": matmul_precision()}
    if not is_repeatable(device):
        return values | {"device": device, "processor": torch.cuda.get_device_name(device)}
    return values | {
        "device": "cpu",
        "processor": _processor(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": bool(torch.backends.mkldnn.enabled),
        "default_dtype": str(torch.get_default_dtype()),
        "probe_sha256": _probe(),
    }


def _setting(value: str) -> str:
    """Return the value of a variable as the ledger, which is public, may hold it: no paths, nor other bytes."""
    if _PLAIN_SETTING.fullmatch(value):
        return value
    return f"SHA-256 {hashlib.sha256(os.fsencode(value)).hexdigest()}"


def matmul_precision() -> str:
    """Return the precision of float32 products; all settings of it where torch has no single word for them."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # where settings of old and new names have been mixed
        backends: Any = torch.backends
        return f"{backends.cuda.matmul.fp32_precision} {backends.mkldnn.matmul.fp32_precision}"


def _probe() -> str:
    """Return the hash of a public computation: products, sums and functions that encoders use.

    Its inputs have several shapes; some results are so small that some settings flush them to zero.
    """
    digest = hashlib.sha256()
    with torch.no_grad():
        for rows, inner, columns in _PROBED:
            left = torch.arange(rows * inner, dtype=torch.float32).view(rows, inner).sin()
            right = torch.arange(inner * columns, dtype=torch.float32).view(inner, columns).cos()
            product = left @ right
            values = (
                product,
                (left.bfloat16() @ right.bfloat16()).float(),
                functional.layer_norm(product, (columns,)),
                functional.gelu(product).softmax(-1),
                torch.einsum("ri,ic->c", left.double(), right.double()).float(),
                product.exp().sum(0).rsqrt(),
                product * 1e-44,
            )
            for value in values:
                digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of the libraries that compute."""
    installed = {"reldp": reldp.__version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def _processor() -> str:
    """Return the processor's name, if the system provides it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
