"""A copy of a run that is edited, judged and restored, thousands of times."""

import json
import math
import os
import shutil
from pathlib import Path

# What a published copy may lack.
OPTIONAL = (
    "report.html",
    "certificate.html",
    "sensitive.json",
    "metrics.jsonl",
    "evaluations.jsonl",
)
# Never published, and only read to make a full report: `verify` says nothing about these.
SENSITIVE = ("metrics.jsonl", "evaluations.jsonl")


def content(folder):
    """Bytes of every file of a run, by its relative path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


class Workspace:
    """A run folder, what it held at first, and what was touched since.

    Attributes:
        path: The folder.
        base: Bytes of its files before any edit.
        lender: Bytes of the files of another run.
    """

    def __init__(self, path, lender):
        self.path, self.base, self.lender = Path(path), content(Path(path)), lender
        self._touched = []

    def published(self):
        """Names of files that `verify` makes a statement about."""
        return [name for name in self.base if name not in SENSITIVE]

    def write(self, name, data):
        self._clear(name)
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def remove(self, name):
        self._clear(name)

    def link(self, name, target):
        self._clear(name)
        (self.path / name).symlink_to(target)

    def pipe(self, name):
        self._clear(name)
        os.mkfifo(self.path / name)

    def folder(self, name):
        self._clear(name)
        (self.path / name).mkdir(parents=True)

    def touch(self, *names):
        """Notes files that somebody else writes."""
        self._touched += names

    def undo(self):
        """Puts everything back as it was."""
        for name in self._touched:
            top = name if name in self.base else name.split("/")[0]
            _delete(self.path / (name if (self.path / top).is_dir() else top))
        for name in self._touched:
            first = self.path / name.split("/")[0]
            if "/" in name and first.is_dir() and not first.is_symlink():
                _delete_new_folders(self.path, name, self.base)
        for name, data in self.base.items():
            place = self.path / name
            if name in self._touched or not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
        self._touched = []

    def is_equivalent(self):
        """Whether the edit left a run of which the same is true, byte for byte."""
        return all(map(self._is_same, self._affected())) and not self._new_folders()

    def _affected(self):
        """Names that were touched, and files of the run inside of those."""
        touched = set(self._touched)
        inside = {name for name in self.base for top in touched if name.startswith(top + "/")}
        return touched | inside

    def _is_same(self, name):
        place = self.path / name
        if not os.path.lexists(place):
            optional = name in OPTIONAL or name.startswith("checkpoints")
            return optional or not any(f"{known}/".startswith(f"{name}/") for known in self.base)
        if place.is_dir() and not place.is_symlink():
            return any(known.startswith(f"{name}/") for known in self.base)
        if place.is_symlink() or not place.is_file():
            return False
        if name in SENSITIVE or name not in self.base:
            return name in SENSITIVE
        old, new = self.base[name], place.read_bytes()
        return old == new or (name == "certificate.json" and _close(old, new))

    def _new_folders(self):
        known = {str(Path(name).parent) for name in self.base} | {"checkpoints", "tensorboard"}
        return any(
            path.relative_to(self.path).as_posix() not in known
            for path in self.path.rglob("*")
            if path.is_dir()
        )

    def _clear(self, name):
        self._touched.append(name)
        _delete(self.path / name)


def _delete(place):
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    elif os.path.lexists(place):
        place.unlink()


def _delete_new_folders(root, name, base):
    """Removes folders above a deleted file that the run did not have."""
    for folder in (root / name).parents:
        inside = folder.relative_to(root).as_posix() if folder != root else ""
        if not inside or any(known.startswith(inside + "/") for known in base):
            return
        _delete(folder)


def _close(before, after):
    """Whether two certificates differ in the last digits of epsilon alone."""
    try:
        old, new = json.loads(before), json.loads(after)
        names = list(old["guarantee"]["epsilon"])
        pairs = [
            (old["guarantee"]["epsilon"][name], new["guarantee"]["epsilon"][name]) for name in names
        ]
        if not all(type(a) is float and type(b) is float for a, b in pairs):
            return False
        if not all(math.isclose(a, b, rel_tol=1e-6) for a, b in pairs):
            return False
        new["guarantee"]["epsilon"] |= dict(zip(names, (a for a, _ in pairs), strict=True))
        text = json.dumps(json.loads(after), indent=2, ensure_ascii=False) + "\n"
        return json.dumps(new) == json.dumps(old) and after == text.encode()
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return False
