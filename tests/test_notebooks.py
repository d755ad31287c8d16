"""The notebooks: stored without outputs, and all of their code runs, with small settings."""

import json
import sys
from pathlib import Path

import pytest

import reldp
from tests.encoders.tiny import write_model
from tests.training.test_demo import write_graph

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(name):
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]


def run(name, **parameters):
    """Run all code of a notebook in one namespace, with other values in the cell of parameters; return the names."""
    names = {"__name__": name}
    for cell in cells(name):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}:{cell['id']}", "exec"), names)
        if "parameters" in cell["metadata"].get("tags", ()):
            assert set(parameters) <= set(names)
            names.update(parameters)
    return names


def test_every_notebook_is_tested_here():
    assert [path.stem for path in NOTEBOOKS] == [
        "choosing_settings",
        "from_a_data_frame",
        "one_customer",
    ]


def stored_outputs(content):
    """Cells with outputs or with a count of executions."""
    return [
        cell["id"]
        for cell in content
        if cell["cell_type"] == "code" and (cell["outputs"] or cell["execution_count"] is not None)
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path):
    content = cells(path.stem)
    assert stored_outputs(content) == []
    assert sum("parameters" in cell["metadata"].get("tags", ()) for cell in content) == 1
    assert content[0]["cell_type"] == "markdown"
    assert content[0]["source"][0].startswith("# ")


def test_control_an_output_is_seen():
    shown = {"cell_type": "code", "id": "x", "outputs": [{}], "execution_count": None}
    counted = {"cell_type": "code", "id": "y", "outputs": [], "execution_count": 3}
    assert stored_outputs([shown, counted]) == ["x", "y"]


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_from_a_data_frame_to_a_certified_encoder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run(
        "from_a_data_frame",
        MODEL=str(write_model("bert", tmp_path / "model")),
        GRAPH=str(write_graph(tmp_path / "graph", 0, 2000)),
        TEST_GRAPH=str(write_graph(tmp_path / "test", 1, 600)),
        NUM_STEPS=2,
        BATCH_SIZE=4,
        MAX_RELATIONS=256,
    )
    assert reldp.verify("notebook-run").certificate == names["result"].certificate
    assert names["result"].certificate.epsilon <= 4
    printed = capsys.readouterr().out
    assert "Proven, under the assumptions" in printed
    assert "\nTrue\n" in printed


def test_what_epsilon_means_for_one_customer(monkeypatch, capsys):
    import matplotlib as mpl

    mpl.use("Agg")
    names = run("one_customer", TRIALS=2000, DEGREES=(1, 5))
    curve, rates = names["curve"], names["rates"]
    assert all(rates < curve.power(rates, "presence"))
    assert all(curve.power(rates, "presence") < rates * 55)
    printed = capsys.readouterr().out
    assert "5 of 5 purchases: epsilon 4.00" in printed
    assert "refuted: False" in printed
    assert len(names["figure"].axes[0].lines) == 3
    names["plt"].close(names["figure"])


def test_settings_are_chosen_without_torch(monkeypatch, capsys):
    for module in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "torch", None)
    names = run(
        "choosing_settings", MAX_DEGREES=(1, 20), NEGATIVES=(1,), BATCH_SIZES=(512,), PASSES=(1,)
    )
    assert names["plan"].epsilon() <= 4
    lines = {
        line[:28].strip(): float(line.split()[-1])
        for line in capsys.readouterr().out.splitlines()
        if " noise " in line
    }
    assert lines["K = 1"] < lines["base"] < lines["K = 20"]
    assert lines["k = 4, from products"] < lines["k = 1"] < lines["base"]
    assert lines["batch 512, 488 steps"] < lines["base"]
