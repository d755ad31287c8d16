"""The state of training survives its bytes, which name all of it and are never a pickle."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import save

from reldp.errors import ResumeError
from reldp.training.state import TrainingState


def example(**changes):
    values = {
        "step": 3,
        "branch": 1,
        "weights": {"layer.weight": torch.arange(6.0).view(2, 3).t()},
        "optimizer": {
            "layer.weight/exp_avg": torch.ones(3, 2),
            "layer.weight/step": torch.tensor(3.0),
        },
        "numbers": {"layer.weight/lr": 0.5},
        "average": {"layer.weight": torch.zeros(3, 2)},
    }
    return TrainingState(**(values | changes))


def test_what_is_written_is_what_is_read():
    read = TrainingState.from_bytes(example().to_bytes())
    assert (read.step, read.branch, read.numbers) == (3, 1, {"layer.weight/lr": 0.5})
    for part in ("weights", "optimizer", "average"):
        written, again = getattr(example(), part), getattr(read, part)
        assert written.keys() == again.keys()
        assert all(torch.equal(written[name], again[name]) for name in written)


def test_the_average_is_released_if_there_is_one():
    averaged, last = example(), example(average={})
    assert averaged.released is averaged.average
    assert last.released is last.weights


def test_equal_states_have_equal_bytes():
    assert example().to_bytes() == example().to_bytes()


@pytest.mark.parametrize(
    "other",
    [
        {"step": 4},
        {"branch": 0},
        {"numbers": {"layer.weight/lr": 0.25}},
        {"weights": {"layer.weight": torch.ones(3, 2)}},
        {"optimizer": {"layer.weight/exp_avg": torch.zeros(3, 2)}},
        {"average": {}},
    ],
)
def test_a_state_with_different_content_has_different_bytes(other):
    """The ledger names the SHA-256 of the bytes, so it names all of the content."""
    one, two = (hashlib.sha256(x.to_bytes()).digest() for x in (example(), example(**other)))
    assert one != two


@pytest.mark.parametrize("damage", [b"", b"short", bytes(100), (1 << 40).to_bytes(8, "little")])
def test_damage_is_one_clear_line(damage):
    with pytest.raises(ResumeError, match="got damage"):
        TrainingState.from_bytes(damage)


def test_half_a_state_is_refused():
    with pytest.raises(ResumeError, match="got damage"):
        TrainingState.from_bytes(example().to_bytes()[:-20])


def test_a_pickle_in_the_place_of_a_state_is_never_run():
    import pickle

    class Bomb:
        def __reduce__(self):
            return (exec, ("raise SystemExit('ran')",))

    with pytest.raises(ResumeError):
        TrainingState.from_bytes(pickle.dumps(Bomb()))


@pytest.mark.parametrize(
    "change",
    [
        {"step": "3"},
        {"branch": None},
        {"numbers": 3},
        {"chosen": 5},
        {"chosen": "abc"},
        {"step": True},
    ],
)
def test_facts_of_another_kind_are_damage(change):
    facts = {"step": 3, "branch": 1, "numbers": {}, **change}
    with pytest.raises(ResumeError, match="got damage"):
        TrainingState.from_bytes(save({}, metadata={"reldp": json.dumps(facts)}))


def test_nested_facts_are_damage():
    data = save({}, metadata={"reldp": "[" * 200_000})
    with pytest.raises(ResumeError, match="got damage"):
        TrainingState.from_bytes(data)
