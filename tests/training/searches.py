"""Searches over two learning rates, on a small graph with a budget."""

from reldp.training import Trainer
from reldp.training.searching import Search, candidates
from reldp.training.selection import Selection
from tests.training.small import small_parts
from tests.training.test_selection import public_graph

RATES = candidates({"learning.learning_rate": [0.01, 0.5]})


def make(home, **plan_changes):
    def trainer(settings):
        encoder, capped, plan = small_parts(**plan_changes)
        selection = Selection(public_graph(), 100, capped)
        return Trainer(
            encoder,
            capped,
            plan,
            selection=selection,
            budget=home / "budget",
            **settings["learning"],
        )

    return trainer


def new_search(home, size, settings=RATES, **plan_changes):
    maker = make(home, **plan_changes)
    return Search(home / "search", size, settings, maker, budget=home / "budget")
