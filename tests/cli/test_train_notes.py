"""What ``reldp train`` says besides its result."""

import io
import json
import re
import shlex

import pytest

from reldp.cli.main import main
from reldp.runs.wording import shown as rounded_up
from reldp.training import log_lines
from tests.cli.train_flags import EXACT, FLAGS, PHASES, SIZES
from tests.training.small import small_graph


@pytest.fixture
def graph(tmp_path):
    small_graph().write(tmp_path / "graph")
    return str(tmp_path / "graph")


def test_commands_to_copy_quote_folders(tmp_path, graph, capsys):
    run = tmp_path / "my run"
    assert main(["train", graph, "-o", str(run), *FLAGS]) == 0
    line = capsys.readouterr().out.strip().splitlines()[-1]
    assert shlex.split(line.removeprefix("Check it: ")) == ["reldp", "verify", str(run)]


def test_entities_as_negatives_are_explained_unless_they_are_asked_for(tmp_path, graph, capsys):
    flags = ["--target-epsilon", "9", "--delta", "1e-4", "--sizes", "public", "--num-steps", "4"]
    for number, (more, reason) in enumerate(
        {
            ("--loss", "hinge"): "because loss is hinge",
            ("--max-degree", "4"): None,
            ("--negatives", "entities"): None,
        }.items()
    ):
        run = str(tmp_path / f"run-{number}")
        assert main(["train", graph, "-o", run, *flags, *more]) == 0
        said = capsys.readouterr().err
        assert ("negatives are entities, and an entity keeps up to 5" in said) == bool(reason)
        assert reason is None or reason in said


@pytest.mark.parametrize(("batch", "said"), [("3", False), ("4", True)])
def test_a_target_that_the_pool_keeps_out_of_reach_is_named(tmp_path, graph, capsys, batch, said):
    """One more relation in the batch needs eight times the noise: batches may be too large for the pool."""
    flags = [*EXACT, "--target-epsilon", "4", "--delta", "1e-4", "--num-steps", "8"]
    command = ["train", graph, "-o", str(tmp_path / "run"), *flags, "--expected-batch-size", batch]
    assert main(command) == 0
    shown = capsys.readouterr().err
    assert ("below the target: a larger one would give batches" in shown) is said
    assert ("reldp: epsilon is 0.65" in shown) is said


def test_a_default_delta_from_a_declared_bound_is_said(tmp_path, graph, capsys):
    """The graph may have many more entities than its owner declared, and nothing public can compare."""
    command = ["train", graph, "--max-degree", "4", *SIZES, "--noise-multiplier", "3"]
    declared = ["--sizes", "declared", "--min-entities", "250", "--max-relations", "700"]
    said = "delta is 0.0004, a tenth of one over the declared 250. If the graph has many more, give"
    for number, (more, is_said) in enumerate(
        {(*declared,): True, (*declared, "--delta", "1e-4"): False, (*EXACT,): False}.items()
    ):
        assert main([*command, "-o", str(tmp_path / f"run-{number}"), *more]) == 0
        assert (said in capsys.readouterr().err) == is_said


class Terminal(io.StringIO):
    def isatty(self):
        return True


def phases(text):
    """Lines about phases, also after the codes that end a bar."""
    return re.findall("|".join(map(re.escape, PHASES)), text)


def test_a_log_has_the_phases_of_a_run(tmp_path, graph, capsys):
    command = ["train", graph, "-o", str(tmp_path / "run"), *FLAGS, "--json"]
    assert main(command) == 0
    first = capsys.readouterr()
    assert phases(first.err) == PHASES
    for sensitive in ("300", "600"):  # the numbers of entities and relations
        assert sensitive not in first.err
    assert main(command) == 0  # it is complete: no step begins, and nothing is written
    again = capsys.readouterr()
    assert phases(again.err) == PHASES[:2]
    assert json.loads(first.out) == json.loads(again.out)
    assert main([*command, "-o", str(tmp_path / "quiet"), "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verbose", [False, True])
def test_a_terminal_shows_progress_in_place_of_phases(tmp_path, graph, monkeypatch, verbose):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    command = ["train", graph, "-o", str(tmp_path / "run"), *FLAGS]
    assert main([*command, *["--verbose"] * verbose]) == 0
    assert phases(screen.getvalue()) == PHASES * verbose
    assert "reldp: training an encoder of the graph's features" in screen.getvalue()
    assert "steps/s" in screen.getvalue(), "the bar"


def test_a_log_has_step_rate_time_left_and_epsilon(tmp_path, graph, capsys, monkeypatch):
    monkeypatch.setattr(log_lines, "INTERVAL", 0.0)
    run = tmp_path / "run"
    assert main(["train", graph, "-o", str(run), *FLAGS]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "(sensitive) step" in line]
    form = r"reldp: \(sensitive\) step (\d) of 4, about [\d.e+]+ steps/s, \d+ s left, epsilon <= ([\d.]+)"
    found = [re.fullmatch(form, line) for line in said]
    assert [match and match[1] for match in found] == ["1", "2", "3", "4"], said
    epsilon = json.loads((run / "certificate.json").read_text())["guarantee"]["epsilon"]["pld"]
    assert found[-1][2] == rounded_up(epsilon)
    monkeypatch.undo()
    assert main(["train", graph, "-o", str(tmp_path / "short"), *FLAGS]) == 0
    assert "(sensitive)" not in capsys.readouterr().err, "a short run has no such lines"
