"""A run that stopped goes on, or is refused: never other coins with the same noise."""

import os
import signal

import pytest
import torch

import reldp.training.trainer as trainer_module
from reldp.encoders.folders import state_hash
from reldp.errors import ConfigError, ResumeError, RunError
from reldp.reporting import verify
from reldp.training import Trainer
from tests.training.small import small_encoder, small_graph, small_parts, small_plan

torch.set_num_threads(1)


def test_fit_on_a_complete_run_only_loads_it(tmp_path):
    encoder, capped, plan = small_parts()
    first = Trainer(encoder, capped, plan).fit(tmp_path / "run")
    ledger = (tmp_path / "run" / "ledger.jsonl").read_bytes()
    again = small_encoder()
    second = Trainer(again, capped, plan).fit(tmp_path / "run")
    assert state_hash(again.trainable()) == state_hash(encoder.trainable())
    assert second.certificate == first.certificate
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == ledger


@pytest.mark.parametrize("average", [None, 0.9])
@pytest.mark.parametrize("optimizer", ["adam", "sgd", "rmsprop", "adamw"])
def test_a_run_stopped_and_resumed_ends_bit_for_bit_the_same(
    tmp_path, monkeypatch, optimizer, average
):
    key = bytes(range(32))
    monkeypatch.setattr("reldp.runs.key.new_key", lambda: key)
    options = {"momentum": 0.9} if optimizer == "sgd" else {}
    settings = {
        "optimizer": optimizer,
        "optimizer_options": options,
        "average": average,
        "schedule": "cosine",
        "checkpoint_every": 4,
    }
    whole = Trainer(*small_parts(), **settings).fit(tmp_path / "whole")
    take = trainer_module.TrainingLoop._take
    for moment in (2, 7, 11):

        def dying(self, step, moment=moment):
            if step == moment:
                raise MemoryError("the machine stopped")
            return take(self, step)

        monkeypatch.setattr(trainer_module.TrainingLoop, "_take", dying)
        with pytest.raises(MemoryError):
            Trainer(*small_parts(), **settings).fit(tmp_path / "torn")
    monkeypatch.setattr(trainer_module.TrainingLoop, "_take", take)
    torn = Trainer(*small_parts(), **settings).fit(tmp_path / "torn")
    assert state_hash(torn.encoder.trainable()) == state_hash(whole.encoder.trainable())
    steps = torn.certificate.values["steps"]
    assert steps["counted"] == 12
    assert steps["resumes"] == 3
    assert [line["step"] for line in torn.metrics] == list(range(12))
    assert verify(tmp_path / "torn")


def test_where_replay_differs_a_new_branch_is_opened_and_abandoned_steps_stay_counted(
    tmp_path, monkeypatch
):
    settings = {"checkpoint_every": 4}
    take = trainer_module.TrainingLoop._take
    seen = []

    def dying(self, step):
        branch = self._session.ledger.branch
        if step == 6 and branch == 0:
            raise MemoryError("the machine stopped")
        seen.append((branch, step))
        return take(self, step)

    monkeypatch.setattr(trainer_module.TrainingLoop, "_take", dying)
    with pytest.raises(MemoryError):
        Trainer(*small_parts(), **settings).fit(tmp_path / "run")
    other = {**settings, "microbatch_units": 7}  # other sums of floats
    result = Trainer(*small_parts(), **other).fit(tmp_path / "run")
    steps = result.certificate.values["steps"]
    assert steps == {
        "planned": 12,
        "counted": 12,
        "abandoned": 4,
        "branches": 2,
        "resumes": 1,
        "overflowed_batches": 0,
    }
    # Counted up to 8 and abandoned from 4 on: four steps are left, in the new branch.
    assert seen == [(0, s) for s in range(6)] + [(1, s) for s in range(4, 8)]
    assert result.certificate.epsilon == pytest.approx(small_parts()[2].epsilon())
    assert verify(tmp_path / "run")


def test_on_a_device_that_does_not_repeat_every_resume_opens_a_branch(tmp_path, monkeypatch):
    """Steps are counted eight at a time there: reserved steps that did not run stay counted."""
    for module in ("loop", "facts"):
        monkeypatch.setattr(f"reldp.training.{module}.is_repeatable", lambda device: False)
    take = trainer_module.TrainingLoop._take
    seen = []

    def dying(self, step):
        branch = self._session.ledger.branch
        if (branch, step) in ((0, 11), (1, 14)):
            raise MemoryError("the machine stopped")
        seen.append((branch, step))
        return take(self, step)

    monkeypatch.setattr(trainer_module.TrainingLoop, "_take", dying)

    def parts():
        return small_parts(num_steps=30)

    for _ in range(2):
        with pytest.raises(MemoryError):
            Trainer(*parts(), checkpoint_every=10).fit(tmp_path / "run")
    result = Trainer(*parts(), checkpoint_every=10).fit(tmp_path / "run")
    # Branch 0 counts 0..15 and is left at its checkpoint 10; branch 1 counts 10..17 and is left
    # there too; of 30 steps 6 remain.
    assert seen == [
        *((0, step) for step in range(11)),
        *((1, step) for step in range(10, 14)),
        *((2, step) for step in range(10, 16)),
    ]
    steps = result.certificate.values["steps"]
    assert (steps["counted"], steps["abandoned"], steps["branches"]) == (30, 14, 3)
    assert verify(tmp_path / "run")


def test_a_replay_that_gives_other_bits_leaves_its_branch(tmp_path, monkeypatch):
    """Whatever the machine says of itself: repeated steps are compared with what they gave."""
    take = trainer_module.TrainingLoop._take

    def dying(self, step):
        if step == 7:
            raise MemoryError("the machine stopped")
        return take(self, step)

    def unsteady(self, step):
        branch = self._session.ledger.branch
        result = take(self, step)
        if (branch, step) == (0, 6):
            with torch.no_grad():
                next(iter(self._step.parameters.values())).view(-1)[0] += 1e-6
        return result

    with monkeypatch.context() as patch:
        patch.setattr(trainer_module.TrainingLoop, "_take", dying)
        with pytest.raises(MemoryError):
            Trainer(*small_parts(), checkpoint_every=4).fit(tmp_path / "run")
    monkeypatch.setattr(trainer_module.TrainingLoop, "_take", unsteady)
    result = Trainer(*small_parts(), checkpoint_every=4).fit(tmp_path / "run")
    steps = result.certificate.values["steps"]
    assert (steps["branches"], steps["abandoned"], steps["counted"]) == (2, 4, 12)
    # Counted up to 8, back to 4: four steps are left, all of them with fresh noise.
    assert [(line["branch"], line["step"]) for line in result.metrics[4:]] == [
        (1, step) for step in range(4, 8)
    ]
    assert verify(tmp_path / "run")


def test_going_back_to_the_first_machine_opens_a_branch_again(tmp_path, monkeypatch):
    take = trainer_module.TrainingLoop._take

    def dying(moment):
        def die(self, step):
            if (self._session.ledger.branch, step) == moment:
                raise MemoryError
            return take(self, step)

        return die

    for moment, chunk in (((0, 5), None), ((1, 5), 7)):
        monkeypatch.setattr(trainer_module.TrainingLoop, "_take", dying(moment))
        with pytest.raises(MemoryError):
            Trainer(*small_parts(), checkpoint_every=2, microbatch_units=chunk).fit(
                tmp_path / "run"
            )
    monkeypatch.setattr(trainer_module.TrainingLoop, "_take", take)
    result = Trainer(*small_parts(), checkpoint_every=2).fit(tmp_path / "run")
    assert result.certificate.values["steps"]["branches"] == 3


def started(tmp_path, monkeypatch, **settings):
    """A run that stopped after a few steps."""
    with monkeypatch.context() as patch:
        patch.setattr(trainer_module.TrainingLoop, "_take", _stop)
        with pytest.raises(MemoryError):
            Trainer(*small_parts(), **settings).fit(tmp_path / "run")
    return tmp_path / "run"


def _stop(self, step):
    raise MemoryError("the machine stopped")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("graph", "the graph is another"),
        ("plan", "plan.noise_multiplier was 2.0, is 3.0"),
        ("encoder", "encoder.base_weights_sha256 was"),
        ("setting", "training.learning_rate was 0.001, is 0.5"),
    ],
)
def test_a_changed_run_is_refused_with_what_differs(tmp_path, monkeypatch, change, words):
    folder = started(tmp_path, monkeypatch)
    before = (folder / "ledger.jsonl").read_bytes()
    encoder, capped, plan = small_parts()
    settings = {}
    if change == "graph":
        capped = small_graph(seed=1).promise_degrees(4)
    elif change == "plan":
        plan = small_plan(capped, noise_multiplier=3.0)
    elif change == "encoder":
        encoder = small_encoder(seed=5)
    elif change == "setting":
        settings = {"learning_rate": 0.5}
    with pytest.raises(ResumeError, match=words):
        Trainer(encoder, capped, plan, **settings).fit(folder)
    assert (folder / "ledger.jsonl").read_bytes() == before


def test_free_settings_may_change_on_resuming(tmp_path, monkeypatch):
    folder = started(tmp_path, monkeypatch, optimizer_options={"betas": (0.8, 0.9)})
    result = Trainer(
        *small_parts(), optimizer_options={"betas": (0.8, 0.9)}, checkpoint_every=3, log_every=5
    ).fit(folder)
    assert result.certificate.values["steps"]["branches"] == 1


def test_without_its_key_a_run_cannot_go_on(tmp_path, monkeypatch):
    folder = started(tmp_path, monkeypatch)
    (folder / "key").unlink()
    with pytest.raises(ResumeError, match="key must be in its folder"):
        Trainer(*small_parts()).fit(folder)


def test_threads_of_the_run_are_restored_on_resuming(tmp_path, monkeypatch):
    torch.set_num_threads(2)
    folder = started(tmp_path, monkeypatch)
    torch.set_num_threads(1)
    result = Trainer(*small_parts()).fit(folder)
    assert result.certificate.values["steps"]["branches"] == 1
    assert torch.get_num_threads() == 1


def test_what_a_crash_before_the_first_entry_leaves_is_started_over(tmp_path, monkeypatch):
    def crash(path, facts):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("reldp.runs.session.Ledger.create", crash)
        with pytest.raises(MemoryError):
            Trainer(*small_parts()).fit(tmp_path / "run")
    old = (tmp_path / "run" / "key").read_bytes()
    started(tmp_path, monkeypatch)
    assert (tmp_path / "run" / "key").read_bytes() != old


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"thesis\.tex"):
        Trainer(*small_parts()).fit(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_full_disk_during_a_checkpoint_leaves_the_last_good_one(tmp_path, monkeypatch):
    from reldp.runs import checkpoints

    write = checkpoints.write_durably

    def full(path, data, **settings):
        if path.name == "step-000000008.safetensors":
            raise RunError(f"{path.name} could not be written: the disk is full.")
        write(path, data, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_durably", full)
        with pytest.raises(RunError, match="the disk is full"):
            Trainer(*small_parts(), checkpoint_every=4).fit(tmp_path / "run")
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == [
        "step-000000004.safetensors"
    ]
    result = Trainer(*small_parts(), checkpoint_every=4).fit(tmp_path / "run")
    assert result.certificate.values["steps"]["counted"] == 12


def test_ctrl_c_waits_for_the_step_and_a_checkpoint(tmp_path, monkeypatch):
    take = trainer_module.TrainingLoop._take

    def interrupted(self, step):
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return take(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(trainer_module.TrainingLoop, "_take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Trainer(*small_parts()).fit(tmp_path / "run")
    found = [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()]
    assert found == ["step-000000004.safetensors"]
    result = Trainer(*small_parts()).fit(tmp_path / "run")
    assert result.certificate.values["steps"]["counted"] == 12
