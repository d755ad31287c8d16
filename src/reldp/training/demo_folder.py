"""The folder of ``reldp demo``: claimed before anything is computed, and deleted only if a demo made it.

    reldp-demo/  demo.json   says that a demo made the folder; at the end also its results
                 graph/      the training graph: entities.csv and relations.csv
                 recipe.toml all settings of the run, for `reldp train --config`
                 run/        the run folder
                 compare/    run folders of the comparisons

Inside the package: `DemoFolder`.

>>> DemoFolder("nowhere").run.as_posix()
'nowhere/run'
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reldp.errors import ConfigError, RunError
from reldp.runs.plain_files import read_plain

__all__ = ["DemoFolder"]

_MADE_BY = "reldp demo"
_NAMES = frozenset({"demo.json", "graph", "recipe.toml", "run", "compare"})


class DemoFolder:
    """Paths of a demo.

    Args:
        path: The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.marker = self.path / "demo.json"
        self.graph = self.path / "graph"
        self.recipe = self.path / "recipe.toml"
        self.run = self.path / "run"
        self.compare = self.path / "compare"

    def check(self, *, overwrite: bool) -> None:
        """Refuse what `claim` refuses, and change nothing.

        Args:
            overwrite: Whether to delete the folder of an earlier demo.

        Raises:
            ConfigError: Something is there: anything without ``overwrite``, and with it anything that is neither an
                empty folder nor one that a demo made and nobody added to.
        """
        if os.path.lexists(self.path):
            if not overwrite:
                raise ConfigError(
                    f"`output` must not exist, got {str(self.path)!r}. Name another folder, or use --overwrite to "
                    "delete what an earlier demo left there."
                )
            self._refuse_foreign()

    def claim(self, *, overwrite: bool) -> None:
        """Make the folder, after `check`."""
        self.check(overwrite=overwrite)
        if self.path.is_dir():
            shutil.rmtree(self.path)
        self.path.mkdir(parents=True)
        self.write({})

    def write(self, results: Mapping[str, Any]) -> None:
        """Write demo.json."""
        values = {"made_by": _MADE_BY, **results}
        self.marker.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")

    def _refuse_foreign(self) -> None:
        """Refuse to delete anything but a demo."""
        if self.path.is_symlink() or not self.path.is_dir():
            raise ConfigError(
                f"`output` must be a folder, got {str(self.path)!r}, which is a file or a link."
            )
        names = set(os.listdir(self.path))
        foreign = sorted(names - _NAMES)
        if names and (foreign or not self._is_marked()):
            content = repr(foreign[0]) if foreign else "no demo.json of a demo"
            raise ConfigError(
                f"`output` must be a folder that reldp demo made, got {str(self.path)!r} with {content}. It is not "
                "deleted; name another folder."
            )

    def _is_marked(self) -> bool:
        """Whether demo.json says that a demo made the folder."""
        try:
            values = json.loads(read_plain(self.marker, limit=2**16))
        except (RunError, ValueError):
            return False
        return isinstance(values, dict) and values.get("made_by") == _MADE_BY
