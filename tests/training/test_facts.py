"""Facts of a training run: what is public, what is sensitive, and what the key is bound to."""

import json

import pytest
import torch

from reldp.runs.sensitive_file import SensitiveRecord
from reldp.training.config import TrainingConfig
from reldp.training.facts import TrainingFacts
from tests.training.small import small_parts

torch.set_num_threads(1)
SENSITIVE = SensitiveRecord(salt="00" * 32, fingerprint="ab" * 32)


def facts(threads=1, pool=None, **settings):
    encoder, capped, plan = small_parts()
    return TrainingFacts(
        encoder=encoder,
        capped=capped,
        plan=plan,
        config=TrainingConfig.make(**settings),
        threads=threads,
        make_table=lambda: encoder.table(capped),
        pool=pool,
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
