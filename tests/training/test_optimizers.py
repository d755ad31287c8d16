"""Optimizers by name, schedules as functions of the step, averages without a cold start."""

import pytest
import torch

from reldp.errors import ConfigError, ResumeError
from reldp.training.optimizers import (
    WeightAverage,
    check_optimizer,
    learning_rate,
    load_optimizer_state,
    make_optimizer,
    optimizer_state,
)


def parameters():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(3, 2)), torch.nn.Parameter(torch.randn(4))]


def advance(optimizer, values, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for value in values:
            value.grad = torch.randn(value.shape, generator=generator)
        optimizer.step()


@pytest.mark.parametrize(
    "name", ["Adam", "adamw", "SGD", "rmsprop", "adagrad", "nadam", "radam", "adamax", "adadelta"]
)
def test_a_state_written_down_and_read_goes_on_with_the_same_bits(name):
    one, names = parameters(), ["first", "second"]
    first = make_optimizer(name, one, 0.1, {})
    advance(first, one, 3, seed=1)
    tensors, numbers = optimizer_state(first, names)
    two = [torch.nn.Parameter(value.detach().clone()) for value in one]
    second = make_optimizer(name, two, 0.1, {})
    load_optimizer_state(second, names, tensors, numbers)
    advance(first, one, 3, seed=2)
    advance(second, two, 3, seed=2)
    for a, b in zip(one, two, strict=True):
        assert torch.equal(a, b)


def test_a_state_of_another_encoder_is_refused():
    optimizer = make_optimizer("adam", parameters(), 0.1, {})
    with pytest.raises(ResumeError, match="'third'"):
        load_optimizer_state(optimizer, ["first", "second"], {"third/step": torch.ones(1)}, {})


def test_unknown_names_and_options_are_refused():
    with pytest.raises(ConfigError, match="`optimizer` must be one of"):
        make_optimizer("adan", parameters(), 0.1, {})
    with pytest.raises(ConfigError, match="`optimizer` must be one of"):
        make_optimizer("lbfgs", parameters(), 0.1, {})
    with pytest.raises(ConfigError, match="`optimizer_options` must fit sgd"):
        make_optimizer("sgd", parameters(), 0.1, {"momentun": 0.9})
    with pytest.raises(ConfigError, match="`optimizer_options` must fit adam"):
        make_optimizer("adam", parameters(), 0.1, {"betas": (2.0, 0.9)})
    with pytest.raises(ConfigError, match="`optimizer_options` must fit adafactor"):
        check_optimizer("adafactor", {"eps": [None, "a"]})  # not all of its defaults are numbers
    for options in (
        {"betas": [0.9]},
        {"betas": []},
        {"betas": 0.9},
        {"eps": None},
    ):
        with pytest.raises(ConfigError, match=r"`optimizer_options` must fit adam, got \w+="):
            check_optimizer("adam", options)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("adam", {"eps": "a"}, "eps='a': eps must be a number"),
        ("adam", {"weight_decay": 0.1, "eps": True}, "eps=True: eps must be a number"),
        ("sgd", {"momentum": [0.9]}, r"momentum=\[0\.9\]: momentum must be a number"),
        ("adamw", {"betas": ["a", 0.9]}, r"betas=\['a', 0\.9\]: betas must be a list of 2 numbers"),
        ("adamw", {"betas": 0.9}, r"betas=0\.9: betas must be a list of 2 numbers"),
    ],
)
def test_an_option_that_must_be_a_number_is_named(name, options, words):
    with pytest.raises(ConfigError, match=rf"`optimizer_options` must fit {name}, got {words}\.$"):
        check_optimizer(name, options)


def test_numbers_and_lists_of_numbers_are_taken():
    check_optimizer(
        "adamw", {"betas": [0.8, 0.99], "eps": 1e-6, "weight_decay": 1, "foreach": None}
    )
    check_optimizer("adafactor", {"eps": (None, 1e-3)})


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1, 1, 1, 1]),
        ("linear", [1, 0.75, 0.5, 0.25]),
        ("cosine", [1, 0.8535534, 0.5, 0.1464466]),
        ("inverse_sqrt", [1, 1, 0.7071068, 0.5773503]),
    ],
)
def test_schedules_by_hand(schedule, expected):
    found = [learning_rate(schedule, 1.0, step, 4, 0) for step in range(4)]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "inverse_sqrt"])
def test_warmup_rises_in_equal_steps_to_the_full_rate(schedule):
    found = [learning_rate(schedule, 0.8, step, 100, 4) for step in range(5)]
    assert found[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert found[4] == pytest.approx(0.8)


def test_the_average_by_hand():
    average = WeightAverage(0.5, {"w": torch.tensor([0.0])})
    average.update({"w": torch.tensor([1.0])}, step=0)  # decay 1/10
    assert average.values["w"].tolist() == pytest.approx([0.9])
    average.update({"w": torch.tensor([0.0])}, step=100)  # decay 1/2
    assert average.values["w"].tolist() == pytest.approx([0.45])
