"""Copies of a search: one of them releases its best run, also if all scores are equal, and whatever interrupts it."""

import json
import shutil

import pytest
import torch

from reldp.accounting.search import SearchSize
from reldp.errors import ResumeError
from reldp.reporting import verify
from reldp.runs.budget import Budget
from reldp.runs.ledger import Ledger
from reldp.training import searching
from reldp.training.searching import Search
from tests.training.searches import RATES, make

torch.set_num_threads(1)


@pytest.fixture
def home(tmp_path):
    Budget.create(tmp_path / "budget").close()
    return tmp_path


def saturated(home, monkeypatch, number=2):
    """Let every run of a search have the same score, as on a public graph that is too easy."""
    score = Search._score
    monkeypatch.setattr(SearchSize, "draw", lambda self: number)
    monkeypatch.setattr(Search, "_score", lambda *given: (score(*given), 1.0)[1])


def search_in(home, name):
    return Search(home / name, SearchSize(mean=3.0), RATES, make(home), budget=home / "budget")


def interrupted_before(monkeypatch, name, search, *, calls=1):
    """Run a search, and stop it before a call of one of its methods."""
    method, made = getattr(Search, name), []

    def stopping(self, *given):
        made.append(name)
        if len(made) == calls:
            raise KeyboardInterrupt
        return method(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Search, name, stopping)
        with pytest.raises(KeyboardInterrupt):
            search.run()


def weights(best):
    return json.loads((best / "ledger.jsonl").read_text().splitlines()[-2])["weights_sha256"]


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def sessions(home):
    with Budget.open(home / "budget", read_only=True) as budget:
        return [entry["head"] for entry in budget.entries if entry["kind"] == "session"]


COPIED = pytest.raises(ResumeError, match="delete this one, of which nothing may be released")


@pytest.mark.parametrize("order", ["one after the other", "both are complete before one is noted"])
def test_of_two_copies_with_equal_scores_one_is_released(home, monkeypatch, order):
    """Their runs have noise of their own: two releases would count once."""
    saturated(home, monkeypatch)
    interrupted_before(monkeypatch, "_score", search_in(home, "one"))
    shutil.copytree(home / "one", home / "two")
    if order != "one after the other":
        for name in ("one", "two"):
            interrupted_before(monkeypatch, "_release", search_in(home, name))
    best = search_in(home, "one").run()
    for _ in range(2):
        with COPIED:
            search_in(home, "two").run()
    assert not (home / "two" / "best").exists()
    assert verify(best).certificate
    assert len(sessions(home)) == 2


def test_a_copy_from_after_the_best_run_releases_the_same_bytes(home, monkeypatch):
    saturated(home, monkeypatch)
    interrupted_before(monkeypatch, "_release", search_in(home, "one"))
    shutil.copytree(home / "one", home / "two")
    best, other = search_in(home, "one").run(), search_in(home, "two").run()
    assert files(best) == files(other)
    assert len(sessions(home)) == 2


@pytest.mark.parametrize("where", ["release", "certificate", "move", "clean"])
def test_a_search_that_is_interrupted_after_its_end_was_noted_goes_on(home, monkeypatch, where):
    saturated(home, monkeypatch)
    places = {
        "release": (Ledger, "release"),
        "certificate": (searching, "write_certificate"),
        "move": (searching.os, "replace"),
        "clean": (searching.shutil, "rmtree"),
    }
    owner, name = places[where]
    function = getattr(owner, name)

    def stopping(*given, **settings):
        is_it = {"move": home / "one" / "best", "clean": home / "one" / "runs"}
        if where not in is_it or is_it[where] in given:
            raise KeyboardInterrupt
        return function(*given, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stopping)
        with pytest.raises(KeyboardInterrupt):
            search_in(home, "one").run()
    noted = sessions(home)
    assert len(noted) == 2
    best = search_in(home, "one").run()
    assert sessions(home) == noted
    assert verify(best).certificate
    assert sorted(p.name for p in (home / "one").iterdir()) == ["best", "budget.json"]


def old_end(self, state):
    """What version 0.10 noted: the scores, whichever run had them."""
    drawn = self._commitment(state)
    if len(state["scores"]) < len(state["choices"]):
        return [drawn]
    return [drawn, searching._hashed(drawn, state["scores"])]


@pytest.mark.parametrize("is_released", [False, True])
def test_a_search_whose_end_an_older_version_noted_goes_on_where_it_was_released(
    home, monkeypatch, is_released
):
    saturated(home, monkeypatch)
    search = search_in(home, "one")
    with monkeypatch.context() as patch:
        patch.setattr(Search, "_heads", old_end)
        patch.setattr(searching, "write_certificate", lambda run: 1 / 0)
        interrupted_before(monkeypatch, "_score", search)
        shutil.copytree(home / "one", home / "two")
        for name in ("one", "two"):
            interrupted_before(monkeypatch, "_release", search_in(home, name))
        with pytest.raises(ZeroDivisionError):
            search.run()
    if is_released:
        assert verify(search_in(home, "one").run()).certificate
    with COPIED:  # whether this is the copy that was released, nobody knows
        search_in(home, "two").run()


def test_a_search_that_an_older_version_began_goes_on(home, monkeypatch):
    saturated(home, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(Search, "_heads", old_end)
        interrupted_before(monkeypatch, "_score", search_in(home, "one"), calls=2)
    assert verify(search_in(home, "one").run()).certificate
