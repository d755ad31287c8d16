"""A training loop of one's own: nothing that the ledger needs can be forgotten silently."""

import pytest
import torch

import reldp
from reldp.errors import ConfigError, ResumeError, RunError
from reldp.losses import HingeLoss
from reldp.noise import Streams
from reldp.runs.ledger import read_ledger
from reldp.training.config import PerformanceSettings
from reldp.training.counted_steps import CountedSteps
from reldp.training.objective import LOSS_WEIGHTS
from reldp.training.step import PrivateStep
from reldp.training.trainer import Trainer
from tests.training.small import small_parts
from tests.training.test_objective import Bilinear

torch.set_num_threads(1)


def margin_loss(embeddings, batch):
    anchor, partner, negatives = embeddings[:, :1], embeddings[:, 1:2], embeddings[:, 2:]
    near, far = (anchor - partner).square().sum(-1), (anchor - negatives).square().sum(-1)
    return torch.relu(1 + near - far).masked_fill(batch.mask, 0.0)


def take(run, optimizer, stop=None):
    """Take the steps that are left, or stop before one of them."""
    seen = []
    for number in run:
        if number == stop:
            break
        run.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(number)
    return seen


def stepped(loss=None, **plan):
    step = PrivateStep(*small_parts(**plan), loss=margin_loss if loss is None else loss)
    return step, torch.optim.SGD(step.parameters.values(), lr=0.1)


def weights(step):
    return torch.cat([p.detach().reshape(-1) for p in step.parameters.values()])


@pytest.mark.parametrize("rule", ["tuple", "pair"])
def test_a_loop_of_ones_own_has_a_ledger_and_a_certificate_that_verifies(tmp_path, rule):
    step, optimizer = stepped(clipping=rule)
    before = weights(step)
    with step.record(tmp_path / "run") as run:
        assert take(run, optimizer) == list(range(12))
    assert not torch.equal(weights(step), before)
    values = run.certificate.values
    assert values["steps"]["counted"] == values["steps"]["planned"] == 12
    assert values["training"] == {"loop": "PrivateStep", "clip": True}
    assert values["loss"]["name"].endswith("test_recording.margin_loss")
    assert not values["loss"]["included"]
    assert any("The training loop is not part of reldp" in line for line in values["assumptions"])
    assert any("margin_loss, is not part of reldp" in line for line in values["assumptions"])
    assert values["loss"]["sha256"] in run.certificate.to_markdown()
    assert reldp.verify(tmp_path / "run")
    assert run.certificate.epsilon == step._plan.epsilon()


def test_a_trained_loss_is_trained_saved_and_counted(tmp_path):
    loss = Bilinear()
    before = loss.layer.weight.detach().clone()
    step, optimizer = stepped(loss)
    with step.record(tmp_path / "run") as run:
        take(run, optimizer)
    assert not torch.equal(loss.layer.weight, before)
    assert LOSS_WEIGHTS in run.certificate.values["model"]["files"]
    assert run.certificate.values["loss"]["num_trainable"] == 21
    assert reldp.verify(tmp_path / "run")


@pytest.mark.parametrize("way", ["draw", "run"])
def test_a_step_outside_of_a_ledger_raises(tmp_path, way):
    step, optimizer = stepped()

    def outside():
        if way == "draw":
            step.draw(0)
        else:
            step.run(None, 0)

    with pytest.raises(RunError, match="A step must be counted before it runs"):
        outside()
    with step.record(tmp_path / "run") as run:
        with pytest.raises(RunError, match="A step must be counted before it runs"):
            outside()
        with pytest.raises(RunError, match="while the step is recorded"):
            step.open(Streams(bytes(32)))
        take(run, optimizer)
    with pytest.raises(RunError, match="A step must be counted before it runs"):
        outside()


def test_streams_of_ones_own_need_no_ledger():
    step, _ = stepped()
    step.open(Streams(bytes(32)))
    step.run(step.draw(0), 0)
    step.close()


def test_every_step_runs_exactly_once(tmp_path):
    step, _ = stepped()
    with (
        pytest.raises(RunError, match="got step 0, which is counted and did not"),
        step.record(tmp_path / "forgotten") as run,
    ):
        for _ in run:
            pass
    step, _ = stepped()
    with step.record(tmp_path / "twice") as run:
        next(run)
        run.backward()
        with pytest.raises(RunError, match="got a second call for step 0"):
            run.backward()


def test_nothing_works_before_and_after_the_block(tmp_path):
    step, optimizer = stepped()
    run = step.record(tmp_path / "run")
    for call in (run.backward, lambda: next(run)):
        with pytest.raises(RunError, match="A record must be open"):
            call()
    with run:
        with pytest.raises(RunError, match="must be called for a step"):
            run.backward()
        with pytest.raises(RunError, match="opened once"):
            run.__enter__()
        with pytest.raises(RunError, match="A certificate must come after the last step"):
            _ = run.certificate
        take(run, optimizer, stop=3)
    with pytest.raises(RunError, match="A certificate must come after the last step"):
        _ = run.certificate
    with pytest.raises(RunError, match="A record must be open"):
        run.backward()


def test_an_interrupted_loop_continues_in_a_new_branch_with_other_noise(tmp_path, monkeypatch):
    drawn = []
    draw = PrivateStep._draw_noise

    def watched(self, step, branch, total):
        noise = draw(self, step, branch, total)
        drawn.append((branch, noise.numpy().tobytes()))
        return noise

    monkeypatch.setattr(PrivateStep, "_draw_noise", watched)
    step, optimizer = stepped()

    def interrupted():
        with step.record(tmp_path / "run") as run:
            for number in run:
                run.backward()
                optimizer.step()
                if number == 4:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    left = weights(step)
    again, optimizer = stepped()
    assert not torch.equal(weights(again), left)
    with again.record(tmp_path / "run") as run:
        assert torch.equal(weights(again), left)
        # Eight steps were reserved, five ran: three of twelve are lost.
        assert take(run, optimizer) == [5, 6, 7, 8]
    steps = run.certificate.values["steps"]
    assert (steps["counted"], steps["abandoned"], steps["branches"]) == (12, 3, 2)
    assert len({noise for _, noise in drawn}) == len(drawn) == 9
    assert [branch == 0 for branch, _ in drawn] == [True] * 5 + [False] * 4
    assert reldp.verify(tmp_path / "run")


def test_a_crash_without_goodbye_leaves_reserved_steps_counted(tmp_path, monkeypatch):
    step, optimizer = stepped()
    run = step.record(tmp_path / "run", checkpoint_every=4).__enter__()
    take(run, optimizer, stop=6)
    run._session.close()  # the process ends here, without __exit__
    record = read_ledger(tmp_path / "run" / "ledger.jsonl")
    assert record.num_counted == 8
    again, optimizer = stepped()
    with again.record(tmp_path / "run") as run:
        assert take(run, optimizer) == [4, 5, 6, 7]
    assert run.certificate.values["steps"]["counted"] == 12
    assert run.certificate.values["steps"]["abandoned"] == 4


def test_a_complete_run_has_no_step_left_and_gives_model_and_certificate(tmp_path):
    step, optimizer = stepped()
    with step.record(tmp_path / "run") as first:
        take(first, optimizer)
    again, optimizer = stepped()
    with again.record(tmp_path / "run") as run:
        assert take(run, optimizer) == []
    assert run.certificate.to_json() == first.certificate.to_json()
    assert torch.equal(weights(again), weights(step))


def test_an_error_after_the_last_step_completes_when_the_run_is_recorded_again(tmp_path):
    step, optimizer = stepped()

    def interrupted():
        with step.record(tmp_path / "run") as run:
            take(run, optimizer)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    again, optimizer = stepped()
    with again.record(tmp_path / "run") as run:
        assert take(run, optimizer) == []
    assert run.certificate.values["steps"]["counted"] == 12


def test_another_loss_or_plan_does_not_continue_the_run(tmp_path):
    step, optimizer = stepped()
    with step.record(tmp_path / "run") as run:
        take(run, optimizer, stop=2)
    for other, difference in (
        (stepped(HingeLoss()), r"loss\.name was"),
        (stepped(noise_multiplier=3.0), r"plan\.noise_multiplier was"),
        (stepped(lambda e, b: 2 * margin_loss(e, b)), r"loss\.name was"),
    ):
        with pytest.raises(ResumeError, match=difference), other[0].record(tmp_path / "run"):
            pass


def test_a_trained_encoder_starts_no_other_run(tmp_path):
    step, optimizer = stepped()
    with step.record(tmp_path / "run") as run:
        take(run, optimizer)
    with (
        pytest.raises(ConfigError, match="`encoder` must be as it was loaded"),
        step.record(tmp_path / "other"),
    ):
        pass


class Late:
    """A loss that begins to remember during training."""

    def __init__(self):
        self.is_late, self.seen = False, 0

    def __call__(self, embeddings, batch):
        self.seen += self.is_late
        return margin_loss(embeddings, batch)


@pytest.mark.parametrize("way", ["record", "fit"])
def test_a_loss_that_begins_to_keep_a_state_has_no_certificate(tmp_path, monkeypatch, way):
    loss, take_step = Late(), CountedSteps.take

    def late(self, number):
        loss.is_late = number > 5
        return take_step(self, number)

    monkeypatch.setattr(CountedSteps, "take", late)

    def recorded():
        if way == "fit":
            Trainer(*small_parts(), loss=loss).fit(tmp_path / "run")
        step, optimizer = stepped(loss)
        with step.record(tmp_path / "run") as run:
            take(run, optimizer)

    with pytest.raises(RunError, match=r"keep no state between steps, got .*Late"):
        recorded()
    assert not (tmp_path / "run" / "certificate.json").exists()
    counted = {"record": 8, "fit": 12}[way]  # the steps that were reserved when it was noticed
    assert read_ledger(tmp_path / "run" / "ledger.jsonl").num_counted == counted


def constant_for_some(embeddings, batch):
    """Decides by values, so that units run alone; without a gradient for about half of them."""
    values = [
        (rows[0] - rows[1]).square().sum()
        if float(rows[0].detach().sum()) > 0
        else rows.new_zeros(())
        for rows in embeddings
    ]
    return torch.stack(values)


def test_a_loss_may_be_constant_for_some_tuples(tmp_path):
    """Otherwise a run would stop at the first of them, and at the same step again when it is resumed."""
    step, optimizer = stepped(constant_for_some)
    with step.record(tmp_path / "run") as run:
        next(run)
        report = run.backward()
        optimizer.step()
        take(run, optimizer)
    assert report.num_nonfinite == 0
    assert run.certificate.values["steps"]["counted"] == 12


def test_a_loss_that_changes_after_its_check_takes_no_step(tmp_path):
    loss = Late()
    step, _ = stepped(loss)
    step.prepare()
    loss.is_late = True
    with step.record(tmp_path / "run") as run:
        next(run)
        with pytest.raises(RunError, match="which changed after it was checked"):
            run.backward()
        assert all(p.grad is None for p in step.parameters.values())


def test_an_interval_that_means_nothing_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="`checkpoint_every`"):
        stepped()[0].record(tmp_path / "run", checkpoint_every=0)


@pytest.mark.parametrize("setting", ["shard_weights", "checkpoint_activations"])
def test_settings_that_only_a_trainer_applies_are_refused(tmp_path, setting):
    """A ledger would say that they were on."""
    performance = PerformanceSettings(**{setting: True})
    step = PrivateStep(*small_parts(), performance=performance)
    with pytest.raises(ConfigError, match=f"`{setting}` must be used with Trainer"):
        step.record(tmp_path / "run")
    with pytest.raises(ConfigError, match=f"`{setting}` must be used with Trainer"):
        step.open(Streams(bytes(32)))
    assert not (tmp_path / "run").exists()
