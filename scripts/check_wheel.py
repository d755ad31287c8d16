"""Test a wheel of reldp in two clean environments, outside of the clone: bare, and with the extra demo.

python scripts/check_wheel.py dist/reldp-X.whl            # minutes: installs torch, runs the whole demo
python scripts/check_wheel.py dist/reldp-X.whl --bare     # without the extra

The environments are made with the Python that runs this script.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "scripts" / "constraints.txt"
INSIDE = [
    "reldp/docs/theory.md",
    "reldp/py.typed",
    *(
        f"reldp/graph/data/wordnet-{part}/{file}"
        for part in ("nouns", "verbs", "adjectives")
        for file in ("entities.parquet", "relations.parquet", "record.json", "NOTICE.txt")
    ),
]
SETTINGS = (
    *(
        "--num-entities",
        "1e5",
        "--num-relations",
        "2e5",
        "--max-degree",
        "5",
        "--num-negatives",
        "4",
    ),
    *("--expected-batch-size", "64", "--num-steps", "100", "--delta", "1e-6"),
)


class CheckFailed(Exception):
    """A wheel that does not do what it must."""


def missing_files(wheel: Path) -> list[str]:
    """Return the files that the wheel must hold and does not."""
    names = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in INSIDE if name not in names]
    return missing + ([] if any(n.endswith("licenses/LICENSE") for n in names) else ["LICENSE"])


def twelve_lines(readme: str) -> str:
    """Return the README's first program that trains, with few steps."""
    blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    code = next(block for block in blocks if "Trainer(" in block)
    for pattern, value in {
        r"num_steps=\d+": "num_steps=2",
        r"expected_batch_size=\d+": "expected_batch_size=16",
        r"max_relations=\d+": "max_relations=256",
    }.items():
        code = re.sub(pattern, value, code)
    return code


class Environment:
    """A new environment, and a folder to run commands in."""

    def __init__(self, folder: Path) -> None:
        """Make both."""
        venv.create(folder / "env", with_pip=True)
        self.programs = folder / "env" / "bin"
        self.work = folder / "work"
        self.work.mkdir()
        self.variables = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
            "RELDP_STATE_DIR": str(folder / "state"),
            "HF_HUB_OFFLINE": "1",
        }

    def install(self, *requirements: str) -> None:
        """Install packages with the versions that the scripts pin."""
        self.run("python", "-m", "pip", "install", "--quiet", "-c", str(CONSTRAINTS), *requirements)

    def run(self, program: str, *arguments: str, code: int = 0, says: str = "") -> str:
        """Run a program, and check its exit code and that it says something."""
        began = time.perf_counter()
        done = subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.work,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        shown = " ".join([program, *arguments])[:80].splitlines()[0]
        text = done.stdout + done.stderr
        if done.returncode != code or says not in text:
            raise CheckFailed(f"{shown}: exit code {done.returncode}\n{text[-3000:]}")
        print(f"  {time.perf_counter() - began:6.1f} s  {shown}", flush=True)
        return done.stdout


def check_bare(wheel: Path, folder: Path) -> None:
    """Arithmetic and graphs work without torch; everything else says what to install."""
    bare = Environment(folder)
    bare.install(str(wheel))
    bare.run("reldp", "--version", says=wheel.name.split("-")[1])
    bare.run("reldp", "account", *SETTINGS, "--noise-multiplier", "1", says="proven")
    bare.run("reldp", "inspect", "wordnet-verbs", "--no-plan", says="13,639")
    hint = 'pip install "reldp[text]"'
    bare.run("reldp", "train", "wordnet-verbs", "--target-epsilon", "4", code=2, says=hint)
    bare.run("reldp", "demo", code=2, says=hint.replace("text", "demo"))
    bare.run("reldp", "evaluate", "x", "--graph", "wordnet-verbs", code=2, says=hint)
    left = sorted(path.name for path in bare.work.iterdir())
    if left:
        raise CheckFailed(f"refused commands left {', '.join(left)} behind")


def check_demo(wheel: Path, folder: Path) -> None:
    """Everything that the demo and the README's program need is in the extra."""
    full = Environment(folder)
    full.install("torch")  # first and alone: no later requirement can pull a CUDA build
    full.install(f"{wheel}[demo]")
    full.run("reldp", "demo", says="What was gained")
    full.run("reldp", "verify", "reldp-demo/run")
    full.run("reldp", "inspect", "wordnet-verbs", says="13,639")
    full.run("python", "-c", twelve_lines((ROOT / "README.md").read_text()), says="Proven")


def main() -> int:
    """Check a wheel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=lambda text: Path(text).resolve())
    parser.add_argument("--bare", action="store_true", help="Skip the extra demo.")
    given = parser.parse_args()
    missing = missing_files(given.wheel)
    if missing:
        print(f"{given.wheel.name} lacks {', '.join(missing)}", file=sys.stderr)
        return 1
    checks = [check_bare] if given.bare else [check_bare, check_demo]
    for check in checks:
        print(f"{check.__name__} on Python {sys.version.split()[0]}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(given.wheel, Path(folder).resolve())
            except CheckFailed as error:
                print(f"{check.__name__} failed: {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
