"""A suggested plan follows from bounds, and looking at a graph never releases its sizes unasked."""

from pathlib import Path
from typing import Any

import pytest

from reldp.graph import EntityGraph, sizes
from reldp.graph.inspection import suggest_settings
from reldp.graph.sizes import has_release
from reldp.training.suggestion import Suggestion, suggest

PRIVATE = {"sizes": "private", "min_entities": None, "max_relations": None}
PUBLIC = {**PRIVATE, "sizes": "public"}


def ring(size: int, text: str) -> Any:
    pairs = [(i, (i + 1) % size) for i in range(size)]
    graph = EntityGraph.from_lists(list(range(size)), pairs, text=[text] * size)
    return graph.promise_degrees(2)


def suggested(capped: Any, given: dict[str, Any], folder: Path | None = None, **more: Any) -> Any:
    settings = {"sizes": given, "targets": (4.0,), "folder": folder, "release": False, **more}
    return suggest(capped, **settings)


def test_nothing_is_released_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "remembered", lambda *given: pytest.fail("a release was drawn"))
    capped = ring(5000, "unasked")
    suggestion = suggested(capped, PRIVATE, tmp_path)
    assert (suggestion.bounds, suggestion.settings, list(suggestion.plans)) == (None, None, [])
    assert "--release-sizes" in suggestion.note
    assert "about epsilon 0." in suggestion.note
    assert list(tmp_path.iterdir()) == []
    assert suggestion.to_json()["sizes"] is None


def test_a_release_is_drawn_when_asked_for_and_used_again(tmp_path: Path) -> None:
    capped = ring(5000, "asked for")
    assert not has_release(capped, tmp_path)
    first = suggested(capped, PRIVATE, tmp_path, release=True)
    assert has_release(capped, tmp_path)
    assert first.bounds.source == "private"
    assert first.bounds.min_entities < 5000 < first.bounds.max_relations
    again = suggested(capped, PRIVATE, tmp_path)
    assert again == first
    assert first.settings == suggest_settings(2, first.bounds.max_relations)
    (row,) = first.plans
    assert row["delta"] == 0.1 / first.bounds.min_entities
    assert row["noise_per_batch"] == row["noise_multiplier"] / first.settings.expected_batch_size


def test_declared_and_public_sizes_need_no_release() -> None:
    capped = ring(3000, "no release")
    public = suggested(capped, PUBLIC)
    assert (public.bounds.min_entities, public.bounds.max_relations) == (3000, 3000)
    declared = {"sizes": "declared", "min_entities": 2500, "max_relations": 40_000}
    suggestion = suggested(capped, declared)
    assert suggestion.settings == suggest_settings(2, 40_000)
    assert suggestion.plans[0]["delta"] == 0.1 / 2500
    assert not has_release(capped)


def test_why_there_is_no_plan_is_said() -> None:
    declared = {"sizes": "declared", "min_entities": 2500, "max_relations": 10}
    assert "max_relations" in suggested(ring(3000, "too many"), declared).note
    small = suggested(ring(60, "too small"), PRIVATE, release=True)
    assert "for this graph" in small.note
    assert small == Suggestion(note=small.note)
