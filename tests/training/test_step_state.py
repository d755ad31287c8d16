"""Texts that differ where two processes would compute a step differently; `test_hostile_groups` has real processes."""

import numpy as np
import torch
from torch import nn

from reldp.clipping import ClipUnits
from reldp.encoders.features import FeatureTable
from reldp.losses import InfoNCELoss
from reldp.training.objective import Objective
from reldp.training.step_state import StepState, numerics
from reldp.training.unit_rows import UnitRows
from tests.training.small import make_step, small_encoder, small_parts


def few_units():
    return ClipUnits(
        entities=np.arange(30).reshape(6, 5),
        endpoints=np.zeros((6, 3), np.int8),
        mask=np.zeros((6, 3), bool),
        thresholds=np.ones(6),
        tuple_index=np.arange(6),
    )


def state_of(step):
    return StepState(step._objective, step._rows)


def test_two_steps_of_the_same_parts_have_the_same_state():
    units = few_units()
    one, other = (state_of(make_step(*small_parts())) for _ in range(2))
    assert one.of(units, 1, custom_rows=False) == other.of(units, 1, custom_rows=False)
    assert one.of(units, 1, custom_rows=False) != one.of(units, 2, custom_rows=False)


def test_every_part_of_a_batch_counts():
    state = state_of(make_step(*small_parts()))
    before = state.of(few_units(), 0, custom_rows=False)["batch"]
    for name in ("entities", "endpoints", "mask", "thresholds", "tuple_index"):
        changed = few_units()
        value = getattr(changed, name)
        value.flat[-1] = 0 if value.flat[-1] else 1
        after = state.of(changed, 0, custom_rows=False)["batch"]
        assert after["the batch"] != before["the batch"], name


def test_weights_settings_and_rows_count_separately():
    step = make_step(*small_parts())
    state, units = state_of(step), few_units()
    before = state.of(units, 0, custom_rows=False)
    layer = next(m for m in step._encoder.module.modules() if isinstance(m, nn.Linear))
    layer.weight.data[0, 0] += 2.0**-20
    weights = state.of(units, 0, custom_rows=False)
    assert [kind for kind in before if before[kind] != weights[kind]] == ["weights"]
    layer.in_features += 1
    settings = state.of(units, 0, custom_rows=False)
    assert [kind for kind in before if weights[kind] != settings[kind]] == ["settings"]
    features = step._rows.table.features.copy()
    features[units.entities[0, 0]] += 1
    step._rows.table = FeatureTable(features=features)
    rows = state.of(units, 0, custom_rows=False)
    assert [kind for kind in before if settings[kind] != rows[kind]] == ["batch"]
    assert rows["batch"]["its rows"] != settings["batch"]["its rows"]


def test_all_tensors_of_encoder_and_loss_are_seen_once():
    class Scaled(nn.Module):
        """A loss with a buffer, and a tensor that is a plain attribute."""

        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(2))
            self.cache = torch.zeros(3)
            self.inner = InfoNCELoss()

        def forward(self, embeddings, batch):
            return self.inner(embeddings, batch)

    encoder, capped, plan = small_parts()
    encoder._beside = nn.Linear(1, 1)  # as the frozen model beside a head
    encoder._beside.tied = next(encoder.module.parameters())
    state = StepState(Objective(encoder, Scaled(), plan), UnitRows(encoder, encoder.table(capped)))
    names = list(state.witnesses())
    for wanted in ("loss.scale", "loss.cache", "_beside.weight", "_beside.bias"):
        assert any(name.endswith(wanted) for name in names), wanted
    count = sum(1 for _ in encoder.module.parameters())
    assert len(names) == count + 4


def test_the_place_that_a_model_was_loaded_from_does_not_count():
    step = make_step(*small_parts())
    state = state_of(step)
    layer = next(iter(step._encoder.module.modules()))
    layer.config = type("Config", (), {"to_dict": lambda self: {}})()
    layer.config.name_or_path, layer.config.attention = "here", "sdpa"
    before = state.settings()
    layer.config.name_or_path = "there"
    assert state.settings() == before
    layer.config.attention = "eager"
    assert state.settings() != before


def test_arithmetic_settings_are_seen():
    device = torch.device("cpu")
    before = numerics(device)
    torch.set_flush_denormal(True)
    try:
        assert numerics(device) != before
    finally:
        torch.set_flush_denormal(False)
    was = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert numerics(device) != before
    finally:
        torch.set_float32_matmul_precision(was)
    assert numerics(device) == before


def test_all_rows_of_a_custom_encoder_are_made_at_some_steps_only():
    """They may be expensive: every process would make those of all units."""
    _, capped, plan = small_parts()
    made = []

    class Custom(type(small_encoder())):
        def rows(self, table, indices):
            made.append(len(indices))
            return super().rows(table, indices)

    encoder = Custom(6, hidden=(5,), dim=4)
    step = make_step(encoder, capped, plan)
    state, units = state_of(step), few_units()
    few = state.of(units, 0, custom_rows=False)["batch"]["its rows"]
    # Those of four units, and these again in another order, to see that they are the same.
    assert sum(made) == 2 * 4 * units.entities.shape[1]
    made.clear()
    assert state.of(units, 0, custom_rows=True)["batch"]["its rows"] != few
    assert sum(made) == units.entities.size + 4 * units.entities.shape[1]
