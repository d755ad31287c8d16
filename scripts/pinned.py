"""Print the packages that an extra of reldp asks for, with the versions of scripts/constraints.txt.

python scripts/pinned.py demo
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def requirements(project: dict, extra: str) -> Iterator[str]:
    """Yield the names that an extra asks for, those of other extras included."""
    for line in project["optional-dependencies"][extra]:
        nested = re.fullmatch(r"reldp\[(.*)\]", line)
        if nested is None:
            yield re.split(r"[<>=\[;]", line)[0]
            continue
        for name in nested[1].split(","):
            yield from requirements(project, name)


def main(extra: str) -> None:
    """Print one line."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    text = (_ROOT / "scripts" / "constraints.txt").read_text()
    pins = dict(line.split("==") for line in text.splitlines() if "==" in line)
    pins = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    core = [re.split(r"[<>=\[;]", line)[0] for line in project["dependencies"]]
    names = sorted({*core, *requirements(project, extra)})
    print(", ".join(f"{name} {pins[name.lower()]}" for name in names))


if __name__ == "__main__":
    main(sys.argv[1])
