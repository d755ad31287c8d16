"""Packages of the extra ``text``, which everything that trains or runs a model needs.

Private to the package: `missing_text_package`.

>>> str(missing_text_package(ModuleNotFoundError("No module named 'torch'", name="torch")))
'The package torch must be installed for this, got none. Use pip install "reldp[text]".'
"""

from reldp.errors import MissingDependency

__all__ = ["missing_text_package"]

_TEXT_PACKAGES = ("torch", "transformers", "huggingface_hub", "peft", "safetensors", "tokenizers")


def missing_text_package(error: BaseException) -> MissingDependency | None:
    """Return the error that says how to install a missing package; None for any other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    if package not in _TEXT_PACKAGES:
        return None
    return MissingDependency(
        f"The package {package} must be installed for this, got none. Use pip install "
        '"reldp[text]".'
    )
