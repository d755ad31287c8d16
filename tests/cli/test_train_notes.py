"""What ``reldp train`` says besides its result."""

import shlex

import pytest

from reldp.cli.main import main
from tests.cli.train_flags import EXACT, FLAGS, SIZES
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
