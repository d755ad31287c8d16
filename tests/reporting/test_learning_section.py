"""Evaluations and curves: before and after, with intervals, folded away under a warning."""

import json

import pytest

from reldp.errors import RunError
from reldp.evaluation.lines import BEFORE
from reldp.reporting.learning_section import HEADING, evaluation_pairs, learning_section
from reldp.runs.run_folder import RunFolder
from tests.reporting.html import parsed

AFTER = {"graph": "verbs", "candidates": 256, "mrr": 0.527, "intervals": {"mrr": [0.511, 0.542]}}
FIRST = {**AFTER, "encoder": BEFORE, "mrr": 0.504, "intervals": {"mrr": [0.487, 0.521]}}


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def run(tmp_path):
    return RunFolder(tmp_path)


def test_before_and_after_are_shown_with_intervals_and_the_gain(run):
    write(run.evaluations, [FIRST, {**AFTER, "gain": {"mrr": [0.023, 0.012, 0.034]}}])
    text = learning_section(run)
    parsed(text)
    assert "50.4 [48.7, 52.1]" in text
    assert "52.7 [51.1, 54.2]" in text
    assert "+2.3 [+1.2, +3.4]" in text
    assert HEADING in text
    assert text.index(HEADING) < text.index("<details>") < text.index("<svg")
    assert text.count('class="interval') == 2


def test_evaluations_with_other_settings_are_not_compared(run):
    write(run.evaluations, [FIRST, {**AFTER, "candidates": 64, "gain": {"mrr": [0.1, 0, 0.2]}}])
    text = learning_section(run)
    assert "before" not in text.split("<table")[1]
    assert "+10.0" not in text
    assert "50.4" not in text


def test_the_newest_evaluation_of_a_setting_counts():
    newer = {**AFTER, "mrr": 0.6}
    assert evaluation_pairs([AFTER, FIRST, newer]) == [(FIRST, newer)]
    assert evaluation_pairs([FIRST]) == []


def test_curves_are_folded_and_nothing_is_no_section(run):
    assert learning_section(run) == ""
    write(run.metrics, [{"step": s, "sensitive": {"loss": 2.0 - s}} for s in (0, 1)])
    text = learning_section(run)
    assert text.count("<svg") == 1
    assert "Training curves" in text


@pytest.mark.parametrize(
    "line", [{}, {"candidates": 1, "intervals": {"mrr": [0, 1]}}, {**AFTER, "mrr": "x"}]
)
def test_damage_is_one_error(run, line):
    write(run.evaluations, [line])
    with pytest.raises(RunError, match="results of evaluations"):
        learning_section(run)
    run.evaluations.unlink()
    write(run.metrics, [{"sensitive": {"loss": 1.0}}])
    with pytest.raises(RunError, match="that training logged"):
        learning_section(run)
