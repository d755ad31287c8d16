"""Processes that differ are refused, with the rank and the difference; `test_distributed` tries it with real ones."""

import json

import pytest

from reldp.errors import ConfigError
from reldp.processes import Processes
from reldp.training import Trainer
from reldp.training.agreement import check_agreement, facts_in_common
from tests.training.small import small_parts

NOTHING = {"hidden": {}, "shown": {}}


class Gathered(Processes):
    """The last of three processes; the others sent values of their own."""

    def __init__(self, *others):
        super().__init__(rank=2, size=3)
        self._others, self.sent = others, b""

    def gather(self, data, about=""):
        self.sent = data
        return [*(json.dumps(other).encode() for other in self._others), data]


def test_equal_values_pass_and_only_their_hashes_are_sent():
    first = Gathered(NOTHING, NOTHING)
    with pytest.raises(ConfigError):
        check_agreement(first, {"the graph": "secret"}, {"plan.num_steps": 3})
    assert b"secret" not in first.sent
    same = json.loads(first.sent)
    check_agreement(Gathered(same, same), {"the graph": "secret"}, {"plan.num_steps": 3})


def test_every_rank_that_differs_is_named_and_nothing_sensitive_is_shown():
    hidden, shown = {"the graph": "one"}, {"plan.num_steps": 3, "plan.delta": 0.1}
    probe = Gathered(NOTHING, NOTHING)
    with pytest.raises(ConfigError):
        check_agreement(probe, hidden, shown)
    first = json.loads(probe.sent)
    second = {"hidden": first["hidden"], "shown": {"plan.num_steps": "4"}}
    with pytest.raises(ConfigError) as caught:
        check_agreement(Gathered(first, second), {"the graph": "two"}, shown)
    message = str(caught.value)
    assert "on rank 1 plan.num_steps is 4 and not 3, plan.delta is None and not 0.1" in message
    assert "on rank 2 the graph differs" in message
    assert "one" not in message.replace("None", "")
    assert first["hidden"]["the graph"] not in message


def test_one_process_agrees_with_itself():
    check_agreement(Processes(), {"the graph": "one"})


def test_the_facts_in_common_hold_everything_that_a_step_computes_with():
    encoder, capped, plan = small_parts()
    facts = Trainer(encoder, capped, plan, learning_rate=0.1)._facts(threads=1)
    hidden, shown = facts_in_common(facts, is_new=True)
    assert hidden["the graph"] == capped.fingerprint
    assert set(hidden) == {
        "the graph",
        "the table of texts or features",
        "the public pool",
        "the encoder",
        "the loss",
        "the choice of weights",
        "the held-out entities",
        "the start of the weights",
    }
    assert shown["plan.num_steps"] == plan.num_steps
    assert shown["training.learning_rate"] == 0.1
    assert "machine.probe_sha256" in shown
    assert "the start of the weights" not in facts_in_common(facts, is_new=False)[0]
