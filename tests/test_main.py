"""``python -m reldp`` is the command ``reldp``."""

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
