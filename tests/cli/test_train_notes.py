"""What ``reldp train`` says besides its result."""

import shlex

import pytest

from reldp.cli.main import main
from tests.cli.test_train import FLAGS
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
