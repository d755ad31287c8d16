"""Every assumption of a certificate has a short sentence in the report, and none is left out."""

from dataclasses import replace

import pytest

from reldp.reporting.short_sentences import _SHORT, short_assumptions
from reldp.runs import result_wording, wording
from tests.reporting.example import PLAN, START, sized_plan

MODULE = {"kind": "module", "module": "Net"}
LOSS = {"name": "my_loss", "included": False}


def variants():
    """Plans and starts that together have every assumption there is."""
    yield sized_plan("private"), {}
    yield sized_plan("private"), {"search": {"runs": 4}}
    yield sized_plan("declared"), {}
    yield PLAN, {"encoder": MODULE, "loss": LOSS, "training": {"loop": "own"}}
    yield PLAN, {"noise": {"source": "fast", "description": "fast"}}
    yield replace(PLAN, clipping="frequency"), {}
    yield replace(PLAN, unit="owner"), {}
    yield replace(PLAN, negatives="public", pool_size=4000), {}
    yield replace(PLAN, negatives="unprotected", pool_size=4000), {}
    pool = {"negatives": "relations", "pool_size": 4000, "max_degree": 1}
    yield replace(PLAN, **pool, sizes="declared"), {}
    yield PLAN, {"graph": {**START["graph"], "holdout": {"share": 0.2, "seed": 0}}}
    for source in ("declared", "from the data"):
        graph = {**START["graph"], "relation_types": source}
        for number in (1, 7):
            yield replace(PLAN, num_relation_types=number), {"graph": graph}


def decisions():
    """Assumptions about decisions that were made during or after training."""
    for decided_by in ("schedule", "time", "result"):
        yield from result_wording.early_end(
            PLAN, 60, {"stopped_at": 60, "stop_decided_by": decided_by}
        )
    for decided_by in ("schedule", "time"):
        yield from result_wording.early_end(
            sized_plan("private"), 60, {"stopped_at": 60, "stop_decided_by": decided_by}
        )
    by = {"every": 5, "metric": "mrr", "graph_sha256": "ab" * 32, "shares_ids": False}
    yield from result_wording.choice({"selection": by}, {"chosen": {"step": 40}})
    yield from result_wording.search(PLAN, {"search": {"runs": 4}})
    secret = {"distribution": "logarithmic", "mean": 4.0, "candidates": 9}
    yield from result_wording.search(PLAN, {"search": secret})
    for by in ({"runs": 4}, secret):
        yield from result_wording.search(sized_plan("private"), {"search": by})


def test_decisions_have_short_sentences_that_say_what_is_assumed():
    full = list(decisions())
    short = short_assumptions(full)
    assert len(full) == 10 == len(set(short))
    assert short[3].endswith("Epsilon holds given the released bounds on sizes.")
    assert short[5].startswith("The weights after step 40 were chosen")
    for long, brief in zip(full, short, strict=True):
        assert len(brief) <= min(len(long), 150)
        assert not long.startswith(brief), "the first part of the sentence is not the assumption"


@pytest.mark.parametrize(("plan", "changes"), list(variants()))
def test_each_assumption_has_a_short_sentence(plan, changes):
    full = wording.assumptions(plan, {**START, **changes})
    short = short_assumptions(full)
    assert len(short) == len(full) == len(set(short))
    for long, brief in zip(full, short, strict=True):
        assert brief.endswith(".")
        assert len(brief) <= min(len(long), 150)
        assert "{" not in brief


def test_every_short_form_is_one_of_a_sentence_that_exists():
    """Otherwise a sentence was reworded, and its short form no longer applies."""
    full = [
        s for plan, changes in variants() for s in wording.assumptions(plan, {**START, **changes})
    ]
    full += wording.assumptions(sized_plan("private"), START, is_part=True)
    used = set(short_assumptions([*full, *decisions()]))
    for pattern, words in _SHORT:
        beginning = words.split("{")[0]
        assert any(brief.startswith(beginning) for brief in used), pattern


def test_an_unknown_sentence_is_shown_by_its_first_part():
    assert short_assumptions(["It holds (theory.md 2.4). More. And more."]) == [
        "It holds (theory.md 2.4)."
    ]
    assert short_assumptions(["Without an end"]) == ["Without an end"]
