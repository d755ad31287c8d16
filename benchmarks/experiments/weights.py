"""Model folders, whole or in parts: weights of 90 MB do not fit into one 64 MiB carriage.

`split_model` copies a model folder, its weights cut into numbered parts with their sha256;
`join_model` puts the weights together where all parts have arrived, and checks them.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path

from reldp.errors import ConfigError

WEIGHTS = "model.safetensors"
MANIFEST = "weights.json"
PART_BYTES = 55 << 20  # a carriage of 64 MiB takes the working tree as well


def split_model(source: Path, folder: Path, parts_folder: Path) -> list[Path]:
    """Copies the folder without its weights, and the weights in parts.

    Args:
        source: A model folder.
        folder: Where everything but the weights goes.
        parts_folder: Where the parts go; they travel one by one.

    Returns:
        The parts in order.
    """
    shutil.copytree(
        source,
        folder,
        ignore=shutil.ignore_patterns(WEIGHTS, "*.md", ".git*", "data_config.json"),
        dirs_exist_ok=True,
    )
    data = (source / WEIGHTS).read_bytes()
    parts_folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for number, start in enumerate(range(0, len(data), PART_BYTES)):
        part = parts_folder / f"{folder.name}-{number}.part"
        part.write_bytes(data[start : start + PART_BYTES])
        parts.append(part)
    manifest = {"parts": [p.name for p in parts], "sha256": hashlib.sha256(data).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    return parts


def join_model(folder: Path, parts_folder: Path, target: Path) -> Path:
    """A whole model folder, put together from its parts if it is not there yet.

    Args:
        folder: What `split_model` left of the model.
        parts_folder: Where the parts are.
        target: Where the whole model goes.
    """
    if (target / WEIGHTS).is_file():
        return target
    if not (folder / MANIFEST).is_file():
        raise ConfigError(f"`encoder` must be prepared first, got {folder.name!r}. Run prepare.")
    manifest = json.loads((folder / MANIFEST).read_text())
    places = [parts_folder / name for name in manifest["parts"]]
    missing = [place.name for place in places if not place.is_file()]
    if missing:
        raise ConfigError(f"`weights` must have all parts, got none of {', '.join(missing)}.")
    data = b"".join(place.read_bytes() for place in places)
    if hashlib.sha256(data).hexdigest() != manifest["sha256"]:
        raise ConfigError("`weights` must be those that were split, got others.")
    shutil.copytree(folder, target, dirs_exist_ok=True)
    # Written beside and renamed: other workers may look for it at any moment.
    temporary = target / f"{WEIGHTS}.{os.getpid()}"
    temporary.write_bytes(data)
    temporary.replace(target / WEIGHTS)
    return target
