"""Packages of the extra ``text``, which everything that trains or runs a model needs.

Private to the package: `missing_text_package`, `text_packages`.

>>> print(str(missing_text_package(ModuleNotFoundError("No module named 'torch'", name="torch"))).split(". ")[1])
Use pip install "reldp[text]", in a clone pip install ".[text]".
"""

from collections.abc import Iterator
from contextlib import contextmanager

from reldp.errors import MissingDependency

__all__ = ["missing_text_package", "text_packages"]

_TEXT_PACKAGES = ("torch", "transformers", "huggingface_hub", "peft", "safetensors", "tokenizers")


def missing_text_package(error: BaseException, extra: str = "text") -> MissingDependency | None:
    """Return the error that says how to install a missing package; None for any other error.

    Args:
        error: Any error.
        extra: The extra to name, which has these packages.
    """
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    if package not in _TEXT_PACKAGES:
        return None
    return MissingDependency(
        f'The package {package} must be installed for this, got none. Use pip install "reldp[{extra}]", in a clone '
        f'pip install ".[{extra}]".'
    )


@contextmanager
def text_packages() -> Iterator[None]:
    """Name the extra where an import inside needs one of its packages that is missing.

    Raises:
        MissingDependency: It is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = missing_text_package(error)
        if missing is None:
            raise
        raise missing from error
