"""docs/audit.md: its code runs, and its tables are what the committed measurement says."""

import contextlib
import importlib.util
import io
import json
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "audit.md").read_text()
RESULT = json.loads((REPOSITORY / "benchmarks" / "results" / "audit.json").read_text())
POWER = json.loads((REPOSITORY / "benchmarks" / "results" / "audit_power.json").read_text())
PYTHON = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def benchmark(name="audit"):
    place = REPOSITORY / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name}_benchmark", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("code", PYTHON)
def test_the_python_code_runs(code, monkeypatch):
    # For each trial: what is seen of them has tests of its own.
    monkeypatch.setattr("reldp.auditing.step_audit._ADDRESSES", 2)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "audit.md", "exec"), {"__name__": "page"})
    assert printed.getvalue()


def test_the_tables_are_those_of_the_measurement():
    tool = benchmark()
    measured = PAGE.partition(tool.BEGIN)[2].partition(tool.END)[0]
    assert measured.strip() == tool.markdown(RESULT).strip()


def test_the_measurement_shows_what_is_promised():
    speed = RESULT["throughput"]
    assert speed["trials_per_minute_of_one_core"] > 100_000
    for row in RESULT["tightness"]:
        assert max(row["share"]) <= 1
    best = {row["analysis"]: min(row["share"]) for row in RESULT["tightness"]}
    assert min(best.values()) >= 0.75
    refuted = {
        name
        for row in RESULT["tightness"]
        for name, claim in row["wrong_claims"].items()
        if claim < min(row["audited"])
    }
    assert refuted == {"no reweighting", "shift 0.7 for negatives"}
    assert "".join(row["letter"] for row in RESULT["gallery"]) == "abcdefghijklmn"
    assert all(row["refuted"] and row["right_rules_accepted"] for row in RESULT["gallery"])
    for row in RESULT["search"]:
        limit = (row["ratio"] >= 1.75) if row["rule"] == "frequency" else (row["ratio"] < 1 + 1e-9)
        assert limit, row


def test_the_power_table_is_that_of_the_measurement():
    tool = benchmark("audit_power")
    measured = PAGE.partition(tool.BEGIN)[2].partition(tool.END)[0]
    assert measured.strip() == tool.markdown(POWER).strip()


def test_every_mistake_of_the_gallery_was_measured_and_nearly_always_refuted():
    from tests.auditing.mistakes.step import MISTAKES

    rows = POWER["rows"]
    assert {m.name for m in MISTAKES} == {name for name, row in rows.items() if row["wrong"]}
    for name, row in rows.items():
        refuted = list(row["refuted"].values())
        if row["wrong"]:
            assert sum(refuted) >= 0.9 * len(refuted), name
        else:
            assert not any(refuted), name
