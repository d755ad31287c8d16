"""Models by hub name: from this machine's cache if they are there, else downloaded once.

A model in the cache is used without asking the network anything. Only configuration, tokenizer and
safetensors (or the one GGUF file asked for) are fetched: no pickle, no code that would ever run.

Private to the package: `hub_folder`, `is_hub_name`.

>>> is_hub_name("sentence-transformers/all-MiniLM-L6-v2"), is_hub_name("../my models/x")
(True, False)
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from reldp.errors import EncoderError, MissingDependency

__all__ = ["hub_folder", "is_hub_name"]

_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_WANTED = ("*.json", "*.txt", "*.model")
_NEVER = ("onnx/*", "openvino/*", "original/*", "consolidated*", "*.py")


def is_hub_name(source: str) -> bool:
    """Return whether the text could be a model's name: ``name`` or ``owner/name``."""
    return _NAME.fullmatch(source) is not None


def hub_folder(name: str, *, revision: str | None = None, gguf_file: str | None = None) -> Path:
    """Return the folder of a model in the cache, downloaded if it is not there yet.

    Args:
        name: ``name`` or ``owner/name``.
        revision: A branch, tag or commit; the main branch unless given.
        gguf_file: The one weight file wanted, in place of safetensors.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingDependency(
            "`huggingface_hub` must be installed for hub names. Install reldp[text]."
        ) from error

    weights = gguf_file or "*.safetensors"
    fetch = partial(
        snapshot_download,
        name,
        revision=revision,
        allow_patterns=[*_WANTED, weights],
        ignore_patterns=list(_NEVER),
    )
    with _quiet():
        try:
            cached = Path(fetch(local_files_only=True))
            if any(cached.glob(weights)):
                return cached
        except LocalEntryNotFoundError:
            pass
        try:
            return Path(fetch())
        except LocalEntryNotFoundError as error:
            raise EncoderError(
                f"`source` must be a folder or a model on the hub, got {name!r}: no such folder, "
                "not in the cache, and the hub cannot be reached. Give the folder of a copy."
            ) from error
        except (HfHubHTTPError, ValueError, OSError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise EncoderError(
                f"`source` must be a folder or a model on the hub, got {name!r}. {reason}."
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """No log lines from the hub's library inside: what matters becomes an error."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
