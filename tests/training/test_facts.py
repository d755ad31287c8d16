"""Facts of a training run: what is public, what is sensitive, and what the key is bound to."""

import json
from dataclasses import asdict

import pytest
import torch
from torch import nn

from reldp.losses import HingeLoss, MatryoshkaLoss
from reldp.runs.sensitive_file import SensitiveRecord
from reldp.training.chosen_loss import resolve_loss
from reldp.training.config import TrainingConfig
from reldp.training.facts import TrainingFacts
from reldp.training.objective import Objective
from tests.training.small import small_parts

torch.set_num_threads(1)
SENSITIVE = SensitiveRecord(salt="00" * 32, fingerprint="ab" * 32)


def facts(threads=1, pool=None, loss=None, has_known_loop=True, **settings):
    encoder, capped, plan = small_parts()
    is_named = loss is None or isinstance(loss, str)
    config = TrainingConfig.make(**settings, **({"loss": loss} if loss and is_named else {}))
    training = asdict(config.learning)
    if not is_named:
        del training["loss"]
    return TrainingFacts(
        objective=Objective(encoder, resolve_loss(loss, plan, capped, encoder), plan),
        capped=capped,
        plan=plan,
        training=training,
        performance=config.performance,
        threads=threads,
        make_table=lambda: encoder.table(capped),
        pool=pool,
        has_known_loop=has_known_loop,
    )


def test_the_key_is_bound_to_data_and_objective():
    identity = facts().identity
    assert facts().identity == identity
    assert facts(learning_rate=0.5).identity != identity
    assert facts(pool=["a", "b"]).identity != identity


def test_the_key_is_not_bound_to_the_machine():
    assert facts(threads=2).identity == facts().identity
    assert facts(microbatch_units=3).identity == facts().identity
    assert facts(threads=2).machine != facts().machine


def test_the_ledgers_start_is_plain_json_without_anything_sensitive():
    known = facts()
    text = json.dumps(known.start(SENSITIVE) | {"inputs": known.inputs(SENSITIVE)})
    assert known.fingerprint not in text
    assert SENSITIVE.salt not in text
    assert SENSITIVE.commitment in text
    assert not set(known.statistics) & set(known.start(SENSITIVE)["graph"])


def test_the_rows_are_in_the_ledger_as_a_commitment_only():
    one, two = (
        facts().inputs(SensitiveRecord(salt=salt * 32, fingerprint="ab" * 32))
        for salt in ("00", "01")
    )
    assert one.pop("table_commitment") != two.pop("table_commitment")
    assert one == two


@pytest.mark.parametrize(("device", "repeatable"), [("cpu", True), ("cuda:0", False)])
def test_steps_repeat_bit_for_bit_on_a_cpu_only(device, repeatable):
    assert facts(device=device).is_repeatable is repeatable


def test_steps_of_an_unknown_loop_do_not_repeat():
    assert not facts(device="cpu", has_known_loop=False).is_repeatable


def test_the_loss_is_in_the_ledger_by_name_and_hash_and_the_key_is_bound_to_it():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, embeddings, batch):
            return self.scale * HingeLoss()(embeddings, batch)

    named = facts().start(SENSITIVE)["loss"]
    assert named["name"] == "reldp.losses.infonce.InfoNCELoss"
    assert named["included"]
    assert named["settings"]["temperature"] == 0.05
    given = facts(loss=Scaled())
    recorded = given.start(SENSITIVE)["loss"]
    assert recorded["name"].endswith("Scaled")
    assert not recorded["included"]
    assert recorded["num_trainable"] == 1
    assert recorded["sha256"] == given.inputs(SENSITIVE)["loss_sha256"] != named["sha256"]
    identities = {facts(loss=loss).identity for loss in (None, HingeLoss(), HingeLoss(margin=2.0))}
    assert len(identities) == 3


def own_loss(embeddings, batch):
    return embeddings.square().sum((1, 2))


def test_a_loss_of_ones_own_inside_of_an_included_one_is_not_part_of_reldp():
    inside = facts(loss=MatryoshkaLoss(MatryoshkaLoss(own_loss, [2]), [4])).start(SENSITIVE)["loss"]
    assert not inside["included"]
    assert inside["name"].startswith("reldp.losses.matryoshka.MatryoshkaLoss of ")
    assert inside["name"].endswith("own_loss")
    assert facts(loss=MatryoshkaLoss(HingeLoss(), [4])).start(SENSITIVE)["loss"]["included"]
    replaced = MatryoshkaLoss(HingeLoss(), [4])
    replaced.forward = own_loss
    assert not facts(loss=replaced).start(SENSITIVE)["loss"]["included"]
