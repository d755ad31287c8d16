"""Folders that encoders are written to and read from: whole or not at all, never pickle.

Public inside the package: `new_folder`, `read_json`, `write_json`, `state_hash`, `check_size`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home:
...     with new_folder(Path(home) / "model") as folder:
...         write_json(folder / "encoder.json", {"dim": 3})
...     read_json(Path(home) / "model" / "encoder.json")
{'dim': 3}
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor
from torch import uint8 as torch_uint8

from reldp._remove_tree import remove_tree
from reldp._validate import unique_names
from reldp.errors import EncoderError

__all__ = ["check_size", "new_folder", "read_json", "state_hash", "write_json"]

_MAX_JSON = 2**24  # bytes; parsing takes about twenty times as much memory


@contextmanager
def new_folder(folder: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Return a folder beside the wanted one, which takes its place only when everything is written.

    An error (a full disk, say) leaves what was there before.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise EncoderError(f"`folder` must be a folder, got the file {target.name!r}.")
    if target.exists() and any(target.iterdir()) and not overwrite:
        raise EncoderError(
            f"`folder` must be new or empty, got {target.name!r}. Choose another, or overwrite it."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    partial.mkdir()
    try:
        yield partial
        _replace(partial, target)
    finally:
        remove_tree(partial)


def write_json(path: Path, values: Any) -> None:
    """Write indented JSON with a newline at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def read_json(
    path: Path, argument: str = "folder", limit: int = _MAX_JSON, *, is_strict: bool = True
) -> Any:
    """Return the JSON in the file; a missing, damaged or too large file is refused by name.

    Args:
        path: The file.
        argument: The argument that names its folder, for the message.
        limit: Maximum number of bytes.
        is_strict: Whether a name that comes twice in an object is damage.
    """
    if path.exists() and not path.is_file():  # a named pipe would block, a device never end
        raise EncoderError(
            f"`{argument}` must hold {path.name}, got {path.parent.name!r} without such a file."
        )
    try:
        check_size(path, argument, limit)
        hook = unique_names if is_strict else None
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=hook)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise EncoderError(
            f"`{argument}` must hold {path.name}, got {path.parent.name!r} without it."
        ) from error
    except EncoderError:
        raise
    except (ValueError, RecursionError, OSError) as error:
        raise EncoderError(
            f"`{argument}` must hold readable JSON, got a damaged {path.name}."
        ) from error


def check_size(path: Path, argument: str, limit: int = _MAX_JSON) -> None:
    """Refuse a file of more bytes than such a file has, before it is read.

    Args:
        path: The file.
        argument: The argument that names its folder, for the message.
        limit: Maximum number of bytes.
    """
    size = path.stat().st_size
    if size > limit:
        raise EncoderError(
            f"`{argument}` must hold a {path.name} of at most {limit:,} bytes, got {size:,}."
        )


def state_hash(state: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes of all tensors, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        digest.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        digest.update(value.reshape(-1).view(torch_uint8).numpy().data)
    return digest.hexdigest()


def _replace(partial: Path, target: Path) -> None:
    """Put the finished folder in the place of the old one, if there is one."""
    if not target.exists():
        os.replace(partial, target)
        return
    old = partial.with_name(partial.name + ".old")
    os.replace(target, old)
    try:
        os.replace(partial, target)
    except OSError:
        os.replace(old, target)
        raise
    remove_tree(old)
