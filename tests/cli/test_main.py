import json
import subprocess
import sys

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reldp
from reldp.cli import main as program
from reldp.cli.main import COMMANDS, main

FLAGS = [
    *("--num-entities", "--num-relations", "--max-degree", "--num-negatives", "--sample-rate"),
    *("--expected-batch-size", "--noise-multiplier", "--num-steps", "--delta", "--clipping"),
    *("--negatives", "--pool-size", "--unit", "--analysis", "--accountant", "--target-epsilon"),
    *("--json", "--price-list", "--help", "-h", "--", "-x", "--delt"),
]


def run(capsys, *arguments):
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def fails_in_one_line(capsys, *arguments):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("reldp: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_without_a_command_it_helps(capsys):
    code, out, err = run(capsys)
    assert code == 0
    assert err == ""
    for name, words in COMMANDS.items():
        assert name in out
        assert words[:30] in out


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_a_module_and_help(capsys, name):
    code, out, err = run(capsys, name, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: reldp {name}")


def test_the_version_is_the_packages(capsys):
    assert run(capsys, "--version") == (0, f"reldp, version {reldp.__version__}\n", "")


def test_a_misspelled_command_is_named_with_the_nearest(capsys):
    assert "Did you mean account?" in fails_in_one_line(capsys, "acount")


def test_an_unknown_command_lists_all(capsys):
    err = fails_in_one_line(capsys, "qqq")
    assert all(name in err for name in COMMANDS)


def test_a_misspelled_flag_is_named_with_the_nearest(capsys):
    err = fails_in_one_line(capsys, "account", "--detla", "1e-6")
    assert "--detla is not an option of reldp account" in err
    assert "--delta" in err


def test_a_flag_without_a_value_is_named(capsys):
    assert "--delta" in fails_in_one_line(capsys, "account", "--delta")


def test_a_stray_word_is_named(capsys):
    assert "stray" in fails_in_one_line(capsys, "account", "stray")


def test_control_characters_never_reach_the_terminal(capsys):
    err = fails_in_one_line(capsys, "account", "--clipping", "\x1b[31mred\r\nline two")
    assert "\x1b" not in err
    assert "\r" not in err


def test_an_error_of_the_library_becomes_its_flag(capsys, monkeypatch):
    def refuse(**_):
        raise reldp.ReldpError("`accountant` must be above 0, got 0.\nTry 1.")

    monkeypatch.setattr(program._root, "main", refuse)
    err = fails_in_one_line(capsys, "account")
    assert err == "reldp: --accountant must be above 0, got 0. Try 1.\n"


def test_a_file_that_cannot_be_opened_is_one_line(capsys, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied", "/somewhere/secret/plan.json")

    monkeypatch.setattr(program._root, "main", refuse)
    assert fails_in_one_line(capsys, "account") == "reldp: Permission denied (plan.json).\n"


def test_an_interrupt_is_130(capsys, monkeypatch):
    def stop(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(program._root, "main", stop)
    code, _, err = run(capsys, "account")
    assert (code, err) == (130, "reldp: stopped by the user.\n")


def _shell(*arguments, **options):
    command = [sys.executable, "-c", "from reldp.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_the_process_exits_with_the_code():
    done = _shell("account", "--num-entities", "many")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_accounting_from_the_shell_loads_no_heavy_package():
    code = (
        "import sys, json; from reldp.cli.main import main; "
        "main('account --num-entities 1e4 --num-relations 2e4 --max-degree 5 --num-negatives 4 --sample-rate 1e-3 "
        "--noise-multiplier 1 --num-steps 10 --delta 1e-6 --json'.split()); "
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    heavy = {"torch", "transformers", "pandas", "matplotlib", "networkx", "scipy.stats", "pyarrow"}
    assert not loaded & heavy


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(["account", "calibrate"]),
    st.lists(
        st.one_of(
            st.sampled_from(FLAGS),
            st.text(max_size=12),
            st.integers().map(str),
            st.floats().map(str),
            st.sampled_from(["tuple", "pair", "frequency", "public", "relation", "rdp"]),
        ),
        max_size=12,
    ),
)
def test_any_words_give_an_answer_or_one_line(capsys, command, words):
    capsys.readouterr()
    code, _, err = run(capsys, command, *words)
    assert code in (0, 2)
    assert err.count("\n") == (1 if code == 2 else 0)
    assert len(err.splitlines()) == err.count("\n")
    assert "Traceback" not in err


def test_a_model_that_is_not_there_is_named_by_its_flag(capsys, tmp_path):
    run = ["--output", str(tmp_path / "run"), "--target-epsilon", "4"]
    code = main(["train", "wordnet-verbs", "--model", "no-such-folder/model", *run])
    assert code == 2
    line = capsys.readouterr().err
    assert "--model must" in line
    assert "--source" not in line


def help_pages():
    """Every command and subcommand with its help page."""
    for name in COMMANDS:
        command = program._root.get_command(click.Context(program._root), name)
        context = click.Context(command, info_name=f"reldp {name}")
        yield name, command, context
        for inner in getattr(command, "commands", {}).values():
            yield f"{name} {inner.name}", inner, click.Context(inner, info_name=inner.name)


@pytest.mark.parametrize(
    ("command", "context"), [pytest.param(c, x, id=name) for name, c, x in help_pages()]
)
def test_help_pages_are_sentences_with_defaults(command, context):
    page = command.get_help(context)
    assert "\\b" not in page
    assert "[default" not in page
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden:
            continue
        record = option.get_help_record(context)
        assert record is not None
        assert record[1][0].isupper() or record[1].startswith(("plan.json", "apt")), record
        assert record[1].endswith("."), record
        assert len(record[1].split()) >= 3, record
