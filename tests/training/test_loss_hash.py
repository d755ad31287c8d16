"""The hash of a loss changes with its code, its settings, and wherever it may keep a state."""

import argparse
import collections
import functools
import importlib
import os
import subprocess
import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from reldp.losses import HingeLoss, MatryoshkaLoss
from reldp.training.loss_hash import kept_state_sha256, loss_sha256
from tests.training.small import small_parts


def made_loss(factor, parts=()):
    def loss(embeddings, batch):
        return factor * embeddings.sum((1, 2)) + sum(parts)

    return loss


class Weighted:
    """A callable object: its attributes count."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, embeddings, batch):
        return self.weight * embeddings.sum((1, 2))

    def doubled(self, embeddings, batch):
        return 2 * self(embeddings, batch)


@pytest.mark.parametrize(
    "make",
    [
        made_loss,
        Weighted,
        lambda value: Weighted(value).doubled,
        lambda value: functools.partial(made_loss, value),
        lambda value: HingeLoss(margin=float(value)),
        lambda value: MatryoshkaLoss(HingeLoss(margin=float(value)), [2]),
        lambda value: MatryoshkaLoss(HingeLoss(), [value]),
        lambda value: MatryoshkaLoss(Weighted(value), [2]),
    ],
)
def test_the_hash_of_a_loss_covers_code_settings_and_closures(make):
    assert loss_sha256(make(1)) == loss_sha256(make(1))
    assert loss_sha256(make(1)) != loss_sha256(make(2))


def test_the_hash_of_a_loss_covers_buffers_and_no_trained_weights():
    def changed(change):
        module = nn.BatchNorm1d(3)  # any module with weights and buffers
        change(module)
        return loss_sha256(module)

    start = changed(lambda module: None)
    assert changed(lambda module: module.weight.data.add_(1.0)) == start
    assert changed(lambda module: module.running_mean.add_(1.0)) != start
    assert loss_sha256(made_loss(1)) != loss_sha256(Weighted(1))


class Slotted:
    __slots__ = ("weight",)

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, embeddings, batch):
        return self.weight * embeddings.sum((1, 2))


def closing(value):
    def loss(embeddings, batch):
        return value(embeddings) if callable(value) else value

    return loss


HELPER = types.ModuleType("helper_of_a_user")
HELPER.scale = 1
STATE = {"scale": 1}


def helper(embeddings):
    return STATE["scale"] * embeddings.sum((1, 2))


def by_a_global_name(embeddings, batch):
    return helper(embeddings)


def by_a_module(embeddings, batch):
    return HELPER.scale * embeddings.sum((1, 2))


def with_attributes(embeddings, batch):
    return with_attributes.scale * embeddings.sum((1, 2))


class WithMemory:
    memory = []  # noqa: RUF012 # a list on a class is the mistake

    def __call__(self, embeddings, batch):
        return embeddings.sum((1, 2)) + len(self.memory)


class ModuleWithList(nn.Module):
    def __init__(self, head):
        super().__init__()
        self.heads = [head]

    def forward(self, embeddings, batch):
        return self.heads[0](embeddings).sum((1, 2))


@pytest.mark.parametrize(
    "make",
    [
        Slotted,
        lambda value: closing(torch.full((2,), float(value))),
        lambda value: closing(np.full(2, value)),
        lambda value: closing([{"a": (value,)}]),
        lambda value: closing(collections.deque([value])),
        lambda value: closing({value}),
        lambda value: closing(types.SimpleNamespace(scale=value)),
        lambda value: closing(argparse.Namespace(scale=value)),
        lambda value: closing(Slotted(value)),
        lambda value: closing(filled(value)),
        lambda value: closing(functools.partial(closing(value), 1)),
        lambda value: ModuleWithList(filled(value)),
        lambda value: MatryoshkaLoss(closing(filled(value)), [2]),
    ],
)
def test_the_hash_covers_everything_that_a_loss_may_keep_a_state_in(make):
    assert loss_sha256(make(1)) == loss_sha256(make(1))
    assert loss_sha256(make(1)) != loss_sha256(make(2))


def filled(value):
    """A frozen layer."""
    layer = nn.Linear(2, 2).requires_grad_(False)
    nn.init.constant_(layer.weight, value)
    nn.init.constant_(layer.bias, value)
    return layer


def test_the_hash_covers_globals_of_functions_classes_and_modules(monkeypatch):
    with_attributes.scale = 1
    monkeypatch.setitem(sys.modules, HELPER.__name__, HELPER)
    losses = by_a_global_name, by_a_module, with_attributes, WithMemory()
    before = [loss_sha256(loss) for loss in losses]
    assert before == [loss_sha256(loss) for loss in losses]
    monkeypatch.setitem(STATE, "scale", 2)
    monkeypatch.setattr(HELPER, "scale", 2)
    monkeypatch.setattr(with_attributes, "scale", 2)
    monkeypatch.setattr(WithMemory, "memory", [1])
    after = [loss_sha256(loss) for loss in losses]
    assert all(one != other for one, other in zip(before, after, strict=True))
    monkeypatch.undo()
    monkeypatch.setitem(globals(), "helper", lambda embeddings: embeddings.sum((1, 2)))
    assert loss_sha256(by_a_global_name) != before[0]


def test_objects_that_hold_private_data_or_change_in_training_do_not_count():
    (encoder, capped, plan), other = small_parts(), small_parts()[0]
    with torch.no_grad():
        for parameter in other.module.parameters():
            parameter.add_(1.0)
    optimizers = [torch.optim.Adam(e.module.parameters(), lr=0.1) for e in (encoder, other)]
    assert loss_sha256(closing(encoder)) == loss_sha256(closing(other))
    assert loss_sha256(closing(encoder.module)) == loss_sha256(closing(other.module))
    assert loss_sha256(closing(optimizers[0])) == loss_sha256(closing(optimizers[1]))
    assert loss_sha256(closing(capped)) != loss_sha256(closing(plan))


def test_a_loss_that_holds_itself_has_a_hash():
    loss = Weighted(1)
    loss.weight = [loss, {"loss": loss}]
    assert loss_sha256(loss) == loss_sha256(loss)


def test_the_hash_is_the_same_in_every_process():
    code = (
        "from tests.training.test_loss_hash import *\n"
        "print(loss_sha256(closing({'a', 'b', 'c'})), loss_sha256(Weighted(object)), "
        "loss_sha256(by_a_global_name), loss_sha256(WithMemory()), loss_sha256(ModuleWithList(filled(1))))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in (1, 2)
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0].split())) == 5


def test_the_state_of_a_module_leaves_out_parameters_and_libraries():
    module = nn.Sequential(ModuleWithList(filled(1)), nn.BatchNorm1d(2))
    before = kept_state_sha256(module)
    with torch.no_grad():
        module[1].weight.add_(1.0)
        module[1].running_mean.add_(1.0)
    assert kept_state_sha256(module) == before
    module[0].heads.append(1)
    assert kept_state_sha256(module) != before


@pytest.mark.parametrize(("folder", "counts"), [("mine", True), ("site-packages", False)])
def test_classes_of_installed_packages_do_not_count_wherever_they_are(
    tmp_path, monkeypatch, folder, counts
):
    """A package that stands outside of the interpreter's own folders is a library by its folder's name."""
    (tmp_path / folder).mkdir()
    name = f"reldp_test_{folder.replace('-', '_')}"
    (tmp_path / folder / f"{name}.py").write_text("class Part:\n    state = []\n")
    monkeypatch.syspath_prepend(str(tmp_path / folder))
    part = importlib.import_module(name).Part

    def loss(embeddings, batch, part=part):
        return embeddings.sum((1, 2))

    before = loss_sha256(loss)
    part.state.append(1)
    assert (loss_sha256(loss) != before) == counts
