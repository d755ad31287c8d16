"""A command in a process of its own that is killed where it would rename a temporary file."""

import os
import signal
import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import os, pathlib, sys
replace = os.replace
def killed(source, target):
    if pathlib.Path(target).name == sys.argv[1]:
        os.kill(os.getpid(), 9)
    replace(source, target)
os.replace = killed
import torch
torch.set_num_threads(1)
from reldp.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def killed_writing(place: Path, *arguments: str) -> Path:
    """Run a reldp command that is killed before it renames the temporary file of `place`; return that file."""
    process = subprocess.run(
        [sys.executable, "-c", _SCRIPT, place.name, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    partial = place.with_name(f"{place.name}.partial")
    assert partial.is_file()
    return partial
