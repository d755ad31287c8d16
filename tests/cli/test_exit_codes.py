"""Every command ends with the same codes, and a bug of ours is one line without anybody's data."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from reldp.cli import exit_codes
from reldp.cli.main import COMMANDS, main
from reldp.errors import InputError, VerificationError

SECRET = "bob@example.com"
# What makes each command reach its own code.
WORDS = {
    "account": [],
    "calibrate": [],
    "inspect": ["wordnet-verbs"],
    "prepare": ["wordnet", "-o", "graph"],
    "train": ["-o", "run"],
    "evaluate": ["run", "--graph", "wordnet-verbs"],
    "encode": ["run", "--graph", "wordnet-verbs", "-o", "file.parquet"],
    "verify": ["run"],
    "report": ["run"],
    "publish": ["run", "-o", "bundle"],
    "sign": ["bundle", "--key", "key"],
    "finish": ["run"],
    "abandon": ["run"],
    "budget": ["show", "graph"],
    "audit": [],
    "demo": [],
    "theory": [],
}
PLAN = [
    *("--num-entities", "1e4", "--num-relations", "2e4", "--max-degree", "5", "--delta", "1e-6"),
    *("--num-negatives", "4", "--sample-rate", "1e-3", "--noise-multiplier", "1"),
    *("--num-steps", "10"),
]
ENDINGS = [
    (KeyError(SECRET), 70, "Internal error: KeyError"),
    (EOFError(SECRET), 70, "Internal error: EOFError"),
    (AssertionError(SECRET), 70, "Internal error: AssertionError"),
    (RecursionError(SECRET), 70, "Internal error: RecursionError"),
    (SystemExit(SECRET), 70, "Internal error: SystemExit"),
    (SystemExit(), 70, "Internal error: SystemExit"),
    (KeyboardInterrupt(), 130, "stopped by the user."),
    (exit_codes.Terminated(), 143, "stopped by a termination signal."),
    (exit_codes.Terminated(129), 129, "stopped as the terminal was closed."),
    (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, None),
    (OSError(errno.ENOSPC, "No space left on device", "/home/x/a.json"), 2, "No space left"),
    (PermissionError(errno.EACCES, "Permission denied", "/home/x/a.json"), 2, "(a.json)"),
    (MemoryError(), 2, "too little memory"),
    (InputError("`delta` must be small, got 2."), 2, "delta must be small"),
    (VerificationError("plan.json is another."), 3, "plan.json is another."),
]


@pytest.fixture
def ending(monkeypatch):
    """Makes a command end with an exception."""

    def arrange(name, error):
        def end(**_):
            raise error

        command = import_module(f"reldp.cli.{name}").command
        for one in [command, *getattr(command, "commands", {}).values()]:
            monkeypatch.setattr(one, "callback", end)

    return arrange


def test_every_command_is_tried():
    assert set(WORDS) == set(COMMANDS)


@pytest.mark.parametrize("name", list(COMMANDS))
@pytest.mark.parametrize(("error", "code", "words"), ENDINGS, ids=lambda v: type(v).__name__)
def test_every_ending_of_every_command_has_its_code(ending, capsys, name, error, code, words):
    ending(name, error)
    assert main([name, *WORDS[name]]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert SECRET not in said.err
    assert "Traceback" not in said.err
    if words:
        assert words in said.err
        line = said.err.lstrip("\n")  # click ends the line that ^C is on
        assert line.startswith("reldp: ")
        assert line.count("\n") == 1
    else:
        assert said.err == ""


def test_the_line_about_a_bug_says_where_and_what_to_do(capsys, monkeypatch):
    def divide(run, **options):
        return 1 / 0

    monkeypatch.setattr("reldp.reporting.verify", divide)
    assert main(["verify", "run"]) == 70
    line = capsys.readouterr().err
    assert re.search(r"ZeroDivisionError in cli/verify\.py, line \d+\.", line)
    assert "bug in reldp" in line
    assert "RELDP_DEBUG=1" in line


def test_the_traceback_is_shown_on_demand_only(ending, capsys, monkeypatch):
    ending("account", KeyError(SECRET))
    monkeypatch.setenv("RELDP_DEBUG", "1")
    assert main(["account"]) == 70
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert SECRET in said
    monkeypatch.setenv("RELDP_DEBUG", "0")
    assert main(["account"]) == 70
    assert "Traceback" not in capsys.readouterr().err


def test_the_codes_are_in_the_help_and_on_the_page(capsys):
    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    for code in ("0", "2", "3", "70", "129", "130", "141", "143"):
        assert re.search(rf"\b{code} \w", shown)
        assert re.search(rf"^\| {code} \|", page, re.MULTILINE)
        assert f"| {code} |" in exit_codes.__doc__


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interruption_after_a_signal_has_the_code_of_the_signal(number: int, code: int) -> None:
    with exit_codes.termination_as_exception():
        assert exit_codes.interruption(" Hint.") == ("stopped by the user. Hint.", 130)
        with pytest.raises(exit_codes.Terminated):
            signal.raise_signal(number)
        assert exit_codes.interruption("")[1] == code
    with exit_codes.termination_as_exception():
        assert exit_codes.interruption("")[1] == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_are_left_as_they_were(number):
    before = signal.getsignal(number)
    with exit_codes.termination_as_exception(), pytest.raises(exit_codes.Terminated):
        signal.raise_signal(number)
    assert signal.getsignal(number) is before
    signal.signal(number, signal.SIG_IGN)
    try:
        with exit_codes.termination_as_exception():
            signal.raise_signal(number)  # ignored, as whoever started the process asked
    finally:
        signal.signal(number, before)


def shell(*arguments, **options):
    command = [sys.executable, "-c", "from reldp.cli.main import main; main()", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, **options)


@pytest.mark.parametrize("words", [["account", *PLAN], ["account", *PLAN, "--json"], ["--help"]])
def test_a_closed_pipe_is_141_and_silent(words):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        done = shell(*words, stdout=out)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(("words", "code"), [(["account", *PLAN], 0), (["--help"], 0), (["q"], 2)])
def test_a_process_without_an_output_has_its_codes(words, code):
    start = 'exec "$0" -c "from reldp.cli.main import main; main()" "$@" >&- 2>&-'
    command = ["sh", "-c", start, sys.executable, *words]
    assert subprocess.run(command, timeout=60, check=False).returncode == code


def test_a_closed_error_stream_changes_no_code():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", "from reldp.cli.main import main; main()", "qqq"]
    with os.fdopen(writing, "w") as out:
        assert subprocess.run(command, stderr=out, timeout=60).returncode == 2


@pytest.mark.parametrize("words", [["account", *PLAN], ["account", *PLAN, "--json"], ["--help"]])
def test_output_to_a_full_disk_is_one_line(words):
    with open("/dev/full", "w") as out:
        done = shell(*words, stdout=out)
    assert done.returncode == 2
    assert (
        done.stderr
        == "reldp: A file could not be written: the disk is full. Free some space and run the same command again.\n"
    )


SLEEPER = (
    "import time, sys; from reldp.cli import account\n"
    "def sleep(**_):\n print('ready', flush=True)\n time.sleep(60)\n"
    "account.command.callback = sleep\n"
    "from reldp.cli.main import main; main(None)"
)


SIGNALS = [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=["term", "int", "hup"])
def test_signals_stop_a_real_process_in_one_line(number, code):
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER, "account"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert time.monotonic() - began < 20
    assert said.lstrip("\n").startswith("reldp: stopped ")
    assert said.strip().count("\n") == 0


TWICE = SLEEPER.replace(
    "; main(None)",
    """
import reldp.cli.main as command_line
stopped = command_line._stopped
def slow(*words):
    print("stopping", flush=True)
    time.sleep(1.5)
    return stopped(*words)
command_line._stopped = slow
main(None)""",
)


@pytest.mark.parametrize(("first", "code"), SIGNALS, ids=["term", "int", "hup"])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_second_signal_while_the_first_is_reported_changes_nothing(first, code, second):
    with subprocess.Popen(
        [sys.executable, "-c", TWICE, "account"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(first)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(second)
        _, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert said.strip().count("\n") == 0, said
    assert said.strip().startswith("reldp: stopped ")


def test_a_stop_is_reported_without_importing_the_command_again(monkeypatch, capsys):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("reldp.cli.main.import_module", interrupted)
    monkeypatch.setattr("reldp.cli.messages.import_module", interrupted)
    assert main(["theory"]) == 130
    assert capsys.readouterr().err.strip() == "reldp: stopped by the user."


TRAINING = """
import os, signal, sys, time
from pathlib import Path
from tests.training.small import small_graph
small_graph().write(sys.argv[1] + "/graph")
from reldp.training import metrics
write, steps, number = metrics.MetricsLog.write, [], int(sys.argv[2])
def stop_at_the_third_step(self, step, *rest):
    steps.append(step)
    if len(steps) == 3:
        os.kill(os.getpid(), number)
    return write(self, step, *rest)
metrics.MetricsLog.write = stop_at_the_third_step
flags = "--max-degree 4 --noise-multiplier 2 --num-steps 400 --expected-batch-size 10 --delta 1e-4"
flags += " --num-negatives 2 --sizes public"
from reldp.cli.main import main
sys.argv[1:] = ["train", sys.argv[1] + "/graph", "-o", sys.argv[1] + "/run", *flags.split()]
main()
"""


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=["term", "int", "hup"])
def test_a_training_saves_a_checkpoint_before_it_stops(tmp_path, number, code):
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, str(tmp_path), str(int(number))],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=root,
        check=False,
    )
    assert done.returncode == code, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("reldp: stopped ")
    assert last.endswith(f"To resume, run the same command with -o {tmp_path / 'run'}.")
    saved = [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()]
    assert saved == ["step-000000003.safetensors"]


@pytest.mark.parametrize("command", [["inspect", "--no-plan"], ["prepare", "pairs", "-o"]])
def test_a_file_name_that_is_not_utf8_is_bad_input(tmp_path, capsys, command):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    (tmp_path / "pairs.jsonl").write_text('{"q_text": "a", "k_text": "b"}\n')
    if command[0] == "inspect":
        shutil.copytree(_written(tmp_path), folder)
        arguments = [*command, str(folder)]
    else:
        arguments = [*command, str(folder), str(tmp_path / "pairs.jsonl")]
    assert main(arguments) == 2
    line = capsys.readouterr().err
    assert line == (
        "reldp: Names of files and other arguments must be valid UTF-8 here. Rename the file or folder.\n"
    )


def _written(tmp_path):
    """A graph folder."""
    from reldp.graph import EntityGraph

    folder = tmp_path / "graph"
    EntityGraph.from_lists("ab", [("a", "b")], text=["x", "y"]).write(folder)
    return folder


def test_a_signal_in_a_finalizer_is_not_lost(capsys):
    """Python prints and forgets what a finalizer raises, also Ctrl-C."""

    class Noisy:
        def __del__(self):
            raise KeyboardInterrupt

    def use():
        Noisy()
        time.sleep(5)

    with pytest.raises(KeyboardInterrupt), exit_codes.termination_as_exception():
        use()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_that_a_module_turned_into_an_error_is_a_stop(capsys, monkeypatch, number, code):
    """As pandas does when it is imported: its own error comes in place of the one that was raised."""

    def half_imported(run, **options):
        with suppress(BaseException):
            signal.raise_signal(number)
        raise AttributeError("partially initialized module")

    monkeypatch.setattr("reldp.reporting.verify", half_imported)
    assert main(["verify", "run"]) == code
    assert "stopped by" in capsys.readouterr().err


def test_a_long_file_name_is_cut_to_its_end():
    lines = []
    error = OSError(errno.ENAMETOOLONG, "File name too long", "a" * 60_000 + ".csv")
    exit_codes.of_os_error(error, lambda line: lines.append(line) or 2)
    assert lines[0].startswith("File name too long (...aaa")
    assert lines[0].endswith("aaa.csv).")
    assert len(lines[0]) < 110
