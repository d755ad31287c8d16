"""Trained losses on disk."""

import json

import pytest
import torch

from reldp._validate import TYPED_LOSSES
from reldp.errors import ConfigError
from reldp.losses import HingeLoss, MatryoshkaLoss, load, make_loss
from reldp.losses.saved import LOSS_SETTINGS, LOSS_WEIGHTS, save, typed_part
from tests.losses.test_typed import typed
from tests.losses.typed_oracle import NAMES


@pytest.mark.parametrize("name", TYPED_LOSSES)
@pytest.mark.parametrize("is_run", [True, False])
def test_a_typed_loss_is_loaded_as_it_was_saved(tmp_path, name, is_run):
    loss = typed(name, objective="hinge", margin=2.0, pairing="one", score="dot").float()
    place = tmp_path / "model"
    place.mkdir()
    save(loss, place)
    found = load(tmp_path if is_run else place)
    assert type(found) is type(loss)
    assert found.type_names == NAMES
    assert found.describe() == loss.describe()
    assert torch.equal(found.relations.weight, loss.relations.weight)
    assert not found.training


def test_the_loss_inside_a_matryoshka_loss_is_loaded(tmp_path):
    loss = typed("transe", distance="l1").float()
    save(MatryoshkaLoss(loss, [6, 2]), tmp_path)
    found = load(tmp_path)
    assert torch.equal(found.relations.weight, loss.relations.weight)
    assert found.comparison == "l1"
    assert json.loads((tmp_path / LOSS_SETTINGS).read_text())["matryoshka"]["dims"] == [6, 2]


def test_a_module_of_ones_own_has_weights_only(tmp_path):
    save(torch.nn.Linear(2, 1), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LOSS_WEIGHTS]
    with pytest.raises(ConfigError, match=r"^`folder` must hold a typed loss, loss\.json, got"):
        load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"num_types": 4},
        {"type_names": ["a"], "num_types": 1},
        {"score": "euclid"},
        {"dim": 4},
        {"type_names": []},
        {"colour": "red"},
        {"objective": 3},
    ],
)
def test_files_that_do_not_fit_are_refused_in_one_line(tmp_path, change):
    save(typed("distmult").float(), tmp_path)
    path = tmp_path / LOSS_SETTINGS
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(
        ConfigError, match=r"^`folder` must hold loss\.json and .* got others in"
    ) as e:
        load(tmp_path)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", "3"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path, text):
    save(typed("distmult").float(), tmp_path)
    (tmp_path / LOSS_SETTINGS).write_text(text)
    with pytest.raises(ConfigError, match="got others in"):
        load(tmp_path)


def test_damaged_weights_are_refused_in_one_line(tmp_path):
    save(typed("distmult").float(), tmp_path)
    (tmp_path / LOSS_WEIGHTS).write_bytes(b"nothing")
    with pytest.raises(ConfigError, match="got others in"):
        load(tmp_path)


def test_the_typed_part_of_a_loss():
    loss = typed("distmult")
    assert typed_part(loss) is typed_part(MatryoshkaLoss(loss, [4])) is loss
    assert typed_part(HingeLoss()) is typed_part(MatryoshkaLoss(make_loss("hinge"), [4])) is None
