"""No command reads or writes a run whose files or folders are links."""

import shutil

import pytest
import torch

from reldp.cli.main import main
from reldp.reporting.bundle import publish
from reldp.reporting.signing import make_key
from reldp.training import Trainer
from tests.training.small import small_graph, small_parts

torch.set_num_threads(1)
COMMANDS = {
    "evaluate": ["evaluate", "RUN", "--graph", "GRAPH", "--candidates", "4"],
    "encode": ["encode", "RUN", "--graph", "GRAPH", "-o", "OUT"],
    "report": ["report", "RUN"],
    "verify": ["verify", "RUN"],
    "audit": ["audit", "RUN", "--trials", "10"],
    "abandon": ["abandon", "RUN"],
    "finish": ["finish", "RUN"],
    "publish": ["publish", "RUN", "-o", "OUT"],
    "sign": ["sign", "RUN", "--key", "KEY"],
}
NAMES = ("model", "checkpoints", "model/encoder.json", "ledger.jsonl", "plan.json")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("linked")
    small_graph().write(home / "graph")
    Trainer(*small_parts(), log_sensitive=True).fit(home / "run")
    publish(home / "run", home / "bundle")
    make_key(home / "key")
    return home


def state(folder):
    return {
        str(place.relative_to(folder)): place.read_bytes()
        for place in sorted(folder.rglob("*"))
        if place.is_file()
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_linked_part_of_a_run_is_refused(made, tmp_path, capsys, command, name):
    source = "bundle" if command == "sign" else "run"
    if not (made / source / name).exists():
        name = "certificate.json"
    run, elsewhere = shutil.copytree(made / source, tmp_path / "run"), tmp_path / "elsewhere"
    (run / name).rename(elsewhere)
    (run / name).symlink_to(elsewhere)
    before = state(tmp_path)
    places = {
        "RUN": run,
        "GRAPH": made / "graph",
        "OUT": tmp_path / "out.parquet",
        "KEY": made / "key",
    }
    assert main([str(places.get(word, word)) for word in COMMANDS[command]]) in (2, 3)
    said = capsys.readouterr().err
    assert "link" in said
    assert "Traceback" not in said
    assert state(tmp_path) == before


@pytest.mark.parametrize(
    "command", ["evaluate", "encode", "report", "verify", "publish", "finish", "sign"]
)
def test_the_same_run_without_links_is_taken(made, tmp_path, command):
    run = shutil.copytree(made / ("bundle" if command == "sign" else "run"), tmp_path / "run")
    places = {
        "RUN": run,
        "GRAPH": made / "graph",
        "OUT": tmp_path / "out.parquet",
        "KEY": made / "key",
    }
    assert main([str(places.get(word, word)) for word in COMMANDS[command]]) == 0
