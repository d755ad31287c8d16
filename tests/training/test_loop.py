"""Steps are counted before they run, empty batches get noise, and what is shown was spent."""

import pytest
import torch

from reldp.encoders.folders import state_hash
from reldp.runs.ledger import read_ledger
from reldp.sampling import TupleSampler
from reldp.training import Trainer, loop
from reldp.training.advice import PoorPlanWarning
from tests.training.small import small_encoder, small_parts

torch.set_num_threads(1)


def test_an_empty_batch_still_gets_noise_and_an_overflow_is_in_the_ledger(tmp_path, monkeypatch):
    """With one expected tuple most batches are small; an overflow batch is empty by its type."""
    encoder, capped, plan = small_parts(expected_batch_size=0.001, num_steps=3)
    sample = TupleSampler.sample

    def overflowing(self, step, branch=0):
        batch = sample(self, step, branch)
        assert batch.num_tuples == 0
        object.__setattr__(batch, "overflow", step == 1)
        return batch

    monkeypatch.setattr(TupleSampler, "sample", overflowing)
    with pytest.warns(PoorPlanWarning, match="noise hides the signal"):
        result = Trainer(encoder, capped, plan).fit(tmp_path / "run")
    assert state_hash(encoder.trainable()) != state_hash(small_encoder().trainable())
    assert result.certificate.values["steps"]["overflowed_batches"] == 1
    assert read_ledger(tmp_path / "run" / "ledger.jsonl").overflows == ((0, 1),)


def test_steps_are_counted_before_they_run(tmp_path, monkeypatch):
    counted = []
    take = loop.TrainingLoop._take

    def watched(self, step):
        record = self._session.ledger.record
        on_disk = (tmp_path / "run" / "ledger.jsonl").read_bytes()
        assert record.head.encode() in on_disk
        counted.append(record.num_counted)
        assert record.num_counted > step
        return take(self, step)

    monkeypatch.setattr(loop.TrainingLoop, "_take", watched)
    Trainer(*small_parts(), checkpoint_every=5).fit(tmp_path / "run")
    assert counted == [5] * 5 + [10] * 5 + [12] * 2


def test_the_progress_bar_never_shows_less_than_was_spent(tmp_path, capsys, monkeypatch):
    shown = []
    bar = loop.progress_bar

    def watched(wanted, first, stop, spent):
        def seen(step):
            shown.append((step, spent(step)))
            return shown[-1][1]

        return bar(wanted, first, stop, seen)

    monkeypatch.setattr(loop, "progress_bar", watched)
    encoder, capped, plan = small_parts(num_steps=101, expected_batch_size=8.0)
    Trainer(encoder, capped, plan, progress=True, log_every=50).fit(tmp_path / "run")
    assert [step for step, _ in shown] == list(range(1, 102))
    assert shown[-1][1] == pytest.approx(plan.epsilon())
    for step, epsilon in shown[::25]:
        assert epsilon >= plan.epsilon(num_steps=step)
    assert "101/101" in capsys.readouterr().err
