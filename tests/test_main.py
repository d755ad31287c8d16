"""``python -m reldp`` is the command ``reldp``."""

import os
import subprocess
import sys

import reldp


def run_module(*arguments):
    command = [sys.executable, "-m", "reldp", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_module_runs_the_command_line_under_its_name():
    done = run_module("--version")
    assert (done.returncode, done.stdout) == (0, f"reldp, version {reldp.__version__}\n")
    assert run_module("account", "--help").stdout.startswith("Usage: reldp account")


def test_bad_input_is_one_line_and_exit_code_2():
    done = run_module("acount")
    assert done.returncode == 2
    assert done.stderr.startswith("reldp: 'acount' is not a command.")
    assert done.stderr.count("\n") == 1


def test_importing_the_module_runs_nothing():
    command = [sys.executable, "-c", "import reldp.__main__"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ctrl_c_while_the_command_is_imported_is_one_line():
    broken = "import sys; sys.meta_path.insert(0, type('F', (), {'find_spec': stop}))"
    lines = [
        "def stop(name, *rest):",
        "    if name == 'reldp.cli.main': raise KeyboardInterrupt",
        broken,
        "from reldp._entry import main",
        "main()",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "reldp: stopped by the user.\n")


def test_closed_streams_are_the_null_device():
    """Otherwise files that are opened take their numbers, and what a library prints goes into them."""
    look = "import os, sys; from reldp import _entry; _entry._open_closed_streams(); " + (
        "print(os.dup(0), sys.stdin.read(), file=open(sys.argv[1], 'w')); print('x'); "
        "print('y', file=sys.stderr); os.write(2, b'z')"
    )
    for closed in ([2], [1, 2], [0, 1, 2], [0]):
        shell = " ".join(f"{number}>&-" for number in closed)
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-c", look, os.devnull],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == ("" if 1 in closed else "x\n")
        assert done.stderr == ("" if 2 in closed else "y\nz")


def test_a_command_with_closed_streams_does_what_it_does_with_open_ones():
    command = f'"{sys.executable}" -m reldp calibrate --help 2>&- <&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: reldp calibrate")
