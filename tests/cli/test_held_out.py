"""The table of ``reldp train --holdout``."""

from reldp.cli.held_out import show_held_out

AFTER = {
    "mrr": 0.527,
    "intervals": {"mrr": [0.511, 0.542]},
    "gain": {"mrr": [0.023, -0.012, 0.034]},
    "num_relations": 5120,
    "candidates": 256,
}
BEFORE = {**AFTER, "mrr": 0.504, "intervals": {"mrr": [0.487, 0.521]}}


def test_before_after_and_gain_are_shown_in_percent_with_a_warning(capsys):
    show_held_out({"before": BEFORE, "after": AFTER})
    text = " ".join(capsys.readouterr().out.split())
    assert "mrr 50.4 [48.7, 52.1] 52.7 [51.1, 54.2] +2.3 [-1.2, +3.4]" in text
    assert "5,120 relations between held-out entities, predicted among 256 candidates" in text
    assert "Sensitive" in text


def test_without_a_result_before_training_there_is_no_gain(capsys):
    show_held_out({"after": AFTER})
    text = capsys.readouterr().out
    assert "52.7" in text
    assert "gain" not in text
