"""A search releases its best run with the epsilon of the search, draws its number once, and shows no other run."""

import json
import shutil
import sys
from types import ModuleType

import pytest
import torch

from reldp.accounting.search import SearchSize
from reldp.errors import ConfigError, LedgerError, PlanError, ResumeError, RunError
from reldp.graph.graph_names import graph_names
from reldp.reporting import verify
from reldp.reporting.bundle import publish
from reldp.reporting.publishing import write_report
from reldp.runs.budget import Budget
from reldp.runs.budget_cost import search_epsilon
from reldp.runs.budget_entry import enter_past_run
from reldp.runs.budgeted_graphs import refuse_copied_graph
from reldp.runs.certificate_files import write_certificate
from reldp.runs.ledger import Ledger
from reldp.runs.new_budget import new_budget
from reldp.runs.run_folder import RunFolder, read_plan
from reldp.training import Trainer, searching
from reldp.training.finishing import finish
from reldp.training.loop import TrainingLoop
from reldp.training.searching import Search, candidates
from reldp.training.selection import Selection
from tests.training.searches import RATES, make, new_search
from tests.training.small import small_graph, small_parts
from tests.training.test_selection import public_graph

torch.set_num_threads(1)


@pytest.fixture
def home(tmp_path):
    Budget.create(tmp_path / "budget").close()
    return tmp_path


def test_the_best_of_a_drawn_number_has_the_epsilon_of_the_search(home, monkeypatch):
    size = SearchSize(mean=3.0)
    monkeypatch.setattr(SearchSize, "draw", lambda self: 3)
    scores = []
    score = Search._score
    monkeypatch.setattr(Search, "_score", lambda *given: scores.append(score(*given)) or scores[-1])
    best = new_search(home, size).run()
    assert sorted(p.name for p in (home / "search").iterdir()) == ["best", "budget.json"]
    certificate = verify(best).certificate
    plan = read_plan(RunFolder(best))
    assert certificate.epsilon == search_epsilon(plan, size, plan.delta) > plan.epsilon()
    assert any("number of runs that was drawn" in t for t in certificate.values["assumptions"])
    public = "".join((best / name).read_text() for name in ("ledger.jsonl", "certificate.json"))
    with Budget.open(home / "budget", read_only=True) as budget:
        (entry,) = [e for e in budget.entries if e["kind"] in ("run", "search")]
        assert budget.epsilon(plan.delta) == certificate.epsilon
        assert entry["token"] not in public
    assert len(scores) == 3
    start = json.loads((best / "ledger.jsonl").read_text().splitlines()[-2])
    assert start["chosen"]["score"] == max(scores)
    assert new_search(home, size).run() == best  # nothing more is done
    assert len(scores) == 3
    rates = candidates({"learning.learning_rate": [0.7, 0.9]})
    for other in (
        new_search(home, SearchSize(runs=3)),
        new_search(home, size, RATES[:1]),
        new_search(home, size, rates),
        new_search(home, size, num_steps=7),
    ):
        with pytest.raises(ResumeError, match="is complete, and it is another one"):
            other.run()


def test_an_interrupted_search_keeps_its_number_and_removes_what_lost(home, monkeypatch):
    size, drawn = SearchSize(mean=3.0), iter((4, 99))
    monkeypatch.setattr(SearchSize, "draw", lambda self: next(drawn))
    score, number = Search._score, []

    def interrupted(self, place, state):
        number.append(place)
        runs = {p.name for p in (home / "search" / "runs").iterdir()}
        assert len(runs - {str(place)}) <= 1  # the best so far
        if len(number) == 2:
            raise KeyboardInterrupt
        return score(self, place, state)

    monkeypatch.setattr(Search, "_score", interrupted)
    with pytest.raises(KeyboardInterrupt):
        new_search(home, size).run()
    with pytest.raises(ResumeError, match="`vary` of a search must stay"):
        new_search(home, size, RATES[:1]).run()
    with pytest.raises(ConfigError, match="the plan that its budget knows"):
        new_search(home, SearchSize(mean=9.0)).run()
    new_search(home, size).run()
    assert number == [0, 1, 1, 2, 3]


@pytest.mark.parametrize("before", ["a step", "the end"])
def test_half_a_line_of_an_inner_run_stops_no_search(home, monkeypatch, before):
    size = SearchSize(mean=3.0)
    monkeypatch.setattr(SearchSize, "draw", lambda self: 2)
    with monkeypatch.context() as patch:
        dying = lambda *given: (_ for _ in ()).throw(KeyboardInterrupt)  # noqa: E731
        place = (TrainingLoop, "_take") if before == "a step" else (Search, "_release")
        patch.setattr(*place, dying)
        with pytest.raises(KeyboardInterrupt):
            new_search(home, size).run()
    torn = list((home / "search").rglob("ledger.jsonl"))
    for ledger in torn:
        ledger.write_bytes(ledger.read_bytes() + b'{"branch":0,"first":20')
    verify(new_search(home, size).run())
    assert torn


def test_a_number_that_is_gone_or_changed_is_not_drawn_again(home, monkeypatch):
    monkeypatch.setattr(SearchSize, "draw", lambda self: 2)
    monkeypatch.setattr(Search, "_score", lambda self, place, state: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        new_search(home, SearchSize(mean=3.0)).run()
    place = home / "search" / "search.json"
    kept = place.read_text()
    state = json.loads(kept)
    for changed in ({**state, "choices": [0]}, {**state, "day": "2026-01-01"}):
        place.write_text(json.dumps(changed))
        with pytest.raises(ResumeError, match="copied before, or put back"):
            new_search(home, SearchSize(mean=3.0)).run()
    for damaged in ("{}", json.dumps({**state, "scores": "x"})):
        place.write_text(damaged)
        with pytest.raises(ResumeError, match=r"search\.json must be that of the search"):
            new_search(home, SearchSize(mean=3.0)).run()
    place.unlink()
    with pytest.raises(ResumeError, match="with the number that was drawn, got none"):
        new_search(home, SearchSize(mean=3.0)).run()
    shutil.rmtree(home / "search")
    with pytest.raises(ZeroDivisionError):  # a new search, entered again
        new_search(home, SearchSize(mean=3.0)).run()
    with Budget.open(home / "budget", read_only=True) as budget:
        assert len(budget.charges) == 2


def test_a_search_goes_on_in_the_budget_that_took_the_place_of_a_lost_one(home, monkeypatch):
    drawn = iter((2,))
    monkeypatch.setattr(SearchSize, "draw", lambda self: next(drawn))
    monkeypatch.setattr(Search, "_score", lambda self, place, state: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        new_search(home, SearchSize(mean=3.0)).run()
    # Its graph is known before the first run is made.
    with pytest.raises(ConfigError, match=r"has one in .*budget"):
        refuse_copied_graph(graph_names(small_graph()))
    with Budget.open(home / "budget", read_only=True) as budget:
        lost = budget.id
    (home / "budget" / "budget.jsonl").unlink()
    new_budget(home / "budget", lost=[lost]).close()
    with pytest.raises(ZeroDivisionError):
        new_search(home, SearchSize(mean=3.0)).run()
    with Budget.open(home / "budget", read_only=True) as budget:
        assert len(budget.charges) == 1


def test_a_fixed_number_is_composed_and_refused_before_it_starts(home, monkeypatch):
    monkeypatch.setattr(Search, "_score", lambda self, place, state: 1 / 0)
    plan = small_parts()[2]
    both = search_epsilon(plan, SearchSize(runs=2), plan.delta)
    with Budget.open(home / "budget") as budget:
        budget.set_limit(both * 1.0001, plan.delta)
    with pytest.raises(PlanError, match="The budget must stay within"):
        new_search(home, SearchSize(runs=3)).run()
    assert not (home / "search").exists()
    with pytest.raises(ZeroDivisionError):
        new_search(home, SearchSize(runs=2)).run()


def test_a_run_of_another_plan_does_not_belong_to_the_search(home):
    plans = iter(({}, {"num_steps": 9}))

    def maker(settings):
        return make(home, **next(plans))(settings)

    made = Search(home / "search", SearchSize(runs=1), RATES, maker, budget=home / "budget")
    with pytest.raises(ConfigError, match="A run of a search must have the plan"):
        made.run()


def test_what_may_not_vary_and_what_is_missing_is_refused(home):
    for varied in ({"privacy.clip_norm": [1]}, {"learning_rate": [1]}):
        with pytest.raises(ConfigError, match="`vary` must name a setting of learning or encoder"):
            candidates(varied)
    with pytest.raises(ConfigError, match="must give values"):
        candidates({"learning.learning_rate": []})
    assert candidates({}) == [{}]

    def without_choice(settings):
        return Trainer(*small_parts(), budget=home / "budget")

    with pytest.raises(ConfigError, match="`eval_graph` must be given for a search"):
        Search(home / "s", SearchSize(runs=2), [{}], without_choice, budget=home / "budget").run()
    with pytest.raises(ConfigError, match="must have a budget for a search"):
        Search(home / "s", SearchSize(runs=2), [{}], without_choice).run()
    assert small_graph().folder is None
    assert searching._best([1.0, 3.0, 3.0, 2.0]) == 1


def _stop_after_two(home, monkeypatch):
    """Make a search of three runs that was interrupted after its second."""
    write = Search._write

    def interrupted(self, state):
        if len(state["scores"]) == 2:
            raise KeyboardInterrupt
        write(self, state)

    monkeypatch.setattr(SearchSize, "draw", lambda self: 3)
    monkeypatch.setattr(Search, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        new_search(home, SearchSize(mean=3.0)).run()
    monkeypatch.setattr(Search, "_write", write)


def test_only_the_last_winner_is_released_and_once(home, monkeypatch):
    _stop_after_two(home, monkeypatch)
    runs = list((home / "search" / "runs").iterdir())
    assert runs
    assert not {run.name for run in runs} & {"0", "1", "2"}  # names show no place
    for run in runs:
        with pytest.raises(RunError, match="only the best run of all is released"):
            verify(run)
        # Wherever it lies: its ledger names the release that is missing.
        shutil.copytree(run, home / "out" / run.name)
        outside = RunFolder(home / "out" / run.name)
        assert not outside.certificate.exists()
        for look in (verify, finish, write_report, lambda p: write_certificate(RunFolder(p))):
            with pytest.raises(RunError, match="only the best run of all is released"):
                look(outside.path)
        refused = pytest.raises(LedgerError, match="released once, by the search")
        with Ledger.open(outside.ledger) as ledger, refused:
            ledger.release("00" * 32)
    shutil.copytree(home / "search", home / "copy")
    best = new_search(home, SearchSize(mean=3.0)).run()
    assert verify(best).certificate
    write_report(best, public=True)
    publish(best, home / "bundle")
    assert verify(home / "bundle").certificate
    with (
        Ledger.open(RunFolder(best).ledger) as ledger,
        pytest.raises(LedgerError, match="released once"),
    ):
        ledger.release("00" * 32)
    monkeypatch.setattr(Search, "_score", lambda self, place, state: 0.0)  # another end
    again = Search(home / "copy", SearchSize(mean=3.0), RATES, make(home), budget=home / "budget")
    with pytest.raises((ConfigError, ResumeError)):
        again.run()


def test_a_winner_that_is_entered_later_costs_what_its_search_cost(home, monkeypatch):
    size = SearchSize(mean=3.0)
    monkeypatch.setattr(SearchSize, "draw", lambda self: 2)
    best = new_search(home, size).run()
    plan = read_plan(RunFolder(best))
    Budget.create(home / "other").close()
    with Budget.open(home / "other") as budget:
        assert enter_past_run(best, budget)
        assert budget.epsilon(plan.delta) == search_epsilon(plan, size, plan.delta)
        assert budget.epsilon(plan.delta) > plan.epsilon()


@pytest.mark.parametrize("setting", [{"wandb_project": "p"}, {"log_sensitive": True}])
def test_a_search_shows_its_runs_to_nobody(home, monkeypatch, setting):
    monkeypatch.setitem(sys.modules, "wandb", ModuleType("wandb"))  # as if it were installed

    def shown(settings):
        encoder, capped, plan = small_parts()
        chosen = Selection(public_graph(), 100, capped)
        given = {**settings["learning"], **setting}
        return Trainer(encoder, capped, plan, selection=chosen, budget=home / "budget", **given)

    search = Search(home / "search", SearchSize(mean=3.0), RATES, shown, budget=home / "budget")
    with pytest.raises(ConfigError, match="neither wandb_project nor log_sensitive"):
        search.run()


@pytest.mark.parametrize("kind", ["a file", "other files", "a run", "no result"])
def test_a_folder_that_cannot_hold_the_result_is_refused_before_anything_is_made(home, kind):
    place = home / "search"
    if kind == "a file":
        place.write_text("x")
    else:
        (place / {"a run": "model", "no result": "best"}.get(kind, "notes")).mkdir(parents=True)
    made = []
    search = Search(place, SearchSize(runs=2), RATES, made.append, budget=home / "budget")
    with pytest.raises((ConfigError, RunError), match=r"search|must be a new folder"):
        search.run()
    assert made == []
