"""Which pairs of a tuple are compared: chosen by the plan, kept by the run, local always."""

import json
from dataclasses import replace

import pytest
import torch

from reldp.errors import ConfigError, ResumeError
from reldp.training import Trainer
from tests.training.small import small_encoder, small_parts

torch.set_num_threads(1)


def test_pairs_are_chosen_by_the_plan_and_written_down(tmp_path):
    encoder, capped, plan = small_parts(num_steps=1)
    assert Trainer(encoder, capped, plan).config.learning.pairing == "all"
    assert Trainer(encoder, capped, plan, pairing="both").config.learning.pairing == "both"
    assert Trainer(encoder, capped, plan, loss="hinge").config.learning.pairing == "one"
    pairwise = replace(plan, clipping="pair")
    assert Trainer(encoder, capped, pairwise, loss="logistic").config.learning.pairing == "one"
    with pytest.raises(ConfigError, match="must be a sum over negatives"):
        Trainer(encoder, capped, pairwise, loss="logistic", pairing="all")
    folder = Trainer(encoder, capped, plan).fit(tmp_path / "run").folder
    started = json.loads((folder / "ledger.jsonl").read_text().splitlines()[0])
    assert '"pairing": "all"' in json.dumps(started)
    with pytest.raises(ResumeError):
        Trainer(small_encoder(), capped, plan, pairing="one").fit(tmp_path / "run")
