"""What is found in a folder decides what happens; secrets stay out of the ledger."""

import json

import pytest
import torch

from reldp.cli.main import main
from reldp.errors import ResumeError, RunError
from reldp.reporting import verify
from reldp.runs import session as session_module
from reldp.runs.budget import Budget
from reldp.runs.durable import write_durably
from reldp.runs.ledger import Ledger
from reldp.runs.run_folder import RunFolder
from reldp.runs.session import Session, threads_of
from reldp.training import Trainer
from reldp.training.state import TrainingState
from tests.training.small import small_graph, small_parts
from tests.training.test_facts import facts

torch.set_num_threads(1)


def first(known):
    return TrainingState(step=0, branch=0, weights=known.encoder.trainable()).to_bytes()


def opened(tmp_path, known=None):
    known = known or facts()
    return Session.open(RunFolder(tmp_path / "run"), known, lambda: first(known))


def test_a_new_run_has_all_of_its_steps_before_it(tmp_path):
    with opened(tmp_path) as session:
        assert session.stop == 12
        assert not session.is_complete
        assert session.streams is not None


def test_nothing_secret_is_in_the_ledger(tmp_path):
    with opened(tmp_path) as session:
        text = session.run.ledger.read_text()
        key = session.run.key.read_bytes()
        secret = json.loads(session.run.sensitive.read_text())
    assert key.hex() not in text
    assert secret["salt"] not in text
    assert secret["fingerprint"] not in text


def test_two_sessions_at_once_are_refused(tmp_path):
    with opened(tmp_path), pytest.raises(RunError, match="one writer"):
        opened(tmp_path)


def test_a_resumed_session_on_the_same_machine_keeps_its_branch(tmp_path):
    opened(tmp_path).close()
    with opened(tmp_path) as session:
        assert session.ledger.branch == 0
        assert session.ledger.record.num_resumes == 1


def test_another_number_of_threads_opens_a_branch_and_says_why(tmp_path):
    opened(tmp_path).close()
    with opened(tmp_path, facts(threads=2)) as session:
        assert session.ledger.branch == 1
        assert "threads was 1, is 2" in session.ledger.record.entries[-1]["reason"]
    assert threads_of(RunFolder(tmp_path / "run")) == 2


def test_two_copies_of_a_run_resumed_elsewhere_draw_different_noise(tmp_path):
    """The same key and step must never meet two sums: subtracting them would cancel the noise."""
    import shutil

    opened(tmp_path).close()
    shutil.copytree(tmp_path, tmp_path.with_name("copy"))
    with (
        opened(tmp_path, facts(threads=2)) as one,
        opened(tmp_path.with_name("copy"), facts(threads=3)) as two,
    ):
        assert one.run.key.read_bytes() == two.run.key.read_bytes()
        assert one.ledger.branch == two.ledger.branch == 1
        assert one.stream_number != two.stream_number
        assert 0 not in (one.stream_number, two.stream_number)
    with opened(tmp_path, facts(threads=2)) as again:
        assert again.stream_number == one.stream_number


def test_when_every_step_is_counted_a_new_branch_has_none_left(tmp_path):
    with opened(tmp_path) as session:
        session.ledger.reserve(0, 12)
    with opened(tmp_path, facts(microbatch_units=3)) as session:
        assert session.ledger.branch == 1
        assert session.stop == session.next_step == 0


def test_a_run_between_its_last_checkpoint_and_its_end_needs_no_key(tmp_path):
    with opened(tmp_path) as session:
        session.ledger.reserve(0, 12)
        session.save(12, session.read_checkpoint())
        session.run.key.unlink()
    with opened(tmp_path) as session:
        assert session.streams is None
        assert session.stop == 12
        encoder = facts().encoder
        session.complete(lambda folder: encoder.save(folder, overwrite=True), "00" * 32)
        assert session.is_complete
    with Ledger.open(tmp_path / "run" / "ledger.jsonl") as ledger:
        assert ledger.record.completion["key"] == "destroyed"


def test_a_plan_or_secret_that_is_gone_is_a_clear_error(tmp_path):
    opened(tmp_path).close()
    plan = tmp_path / "run" / "plan.json"
    kept = plan.read_bytes()
    plan.unlink()
    with pytest.raises(ResumeError, match=r"plan\.json"):
        opened(tmp_path)
    plan.write_bytes(kept)
    (tmp_path / "run" / "sensitive.json").unlink()
    with pytest.raises(ResumeError, match=r"without sensitive\.json: a published bundle"):
        opened(tmp_path)


def test_every_difference_is_named_at_once(tmp_path):
    opened(tmp_path).close()
    other = facts(learning_rate=0.5, loss="hinge")
    with pytest.raises(ResumeError) as caught:
        opened(tmp_path, other)
    assert "training.learning_rate was 0.001, is 0.5" in str(caught.value)
    assert "training.loss was 'infonce', is 'hinge'" in str(caught.value)


def test_of_two_processes_that_start_at_once_one_starts(tmp_path, monkeypatch):
    """The second comes after the first has looked for a run and before it has written one."""
    known, refused = facts(), []
    run = RunFolder(tmp_path / "run")

    def write(path, data, **settings):
        if path == run.plan and not refused:
            with pytest.raises(RunError, match="one writer") as error:
                opened(tmp_path, known)
            refused.append(str(error.value))
        return write_durably(path, data, **settings)

    monkeypatch.setattr(session_module, "write_durably", write)
    with opened(tmp_path, known) as session:
        assert len(refused) == 1
        assert session.streams is not None
        with pytest.raises(RunError, match="Another process has this run open"):
            opened(tmp_path, known)  # after the ledger is there


def test_a_moved_run_writes_no_checkpoint_and_no_model_in_its_old_place(tmp_path):
    with opened(tmp_path) as session:
        session.ledger.reserve(0, 3)
        (tmp_path / "run").rename(tmp_path / "moved")
        with pytest.raises(RunError, match="must stay in its place"):
            session.save(1, b"checkpoint")
        with pytest.raises(RunError, match="must stay in its place"):
            session.complete(lambda place: place.mkdir(parents=True), "ab" * 32)
    assert not (tmp_path / "run").exists()
    assert (tmp_path / "moved" / "key").exists()
    (tmp_path / "moved").rename(tmp_path / "run")
    with opened(tmp_path) as session:
        assert session.next_step == 0
        assert session.ledger.record.num_counted == 3


def test_a_link_in_the_place_of_the_checkpoints_is_refused(tmp_path):
    opened(tmp_path).close()
    (tmp_path / "run" / "checkpoints").rename(tmp_path / "elsewhere")
    (tmp_path / "run" / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ResumeError, match="checkpoints must be a folder in the run folder"):
        opened(tmp_path)


def test_a_wrong_folder_is_refused_before_sizes_are_released(tmp_path, capsys):
    graph, other = tmp_path / "graph", tmp_path / "other"
    small_graph(seed=71).write(graph)
    other.mkdir()
    (other / "notes.txt").write_text("kept")
    command = ["train", str(graph), "--target-epsilon", "1", "--num-steps", "2", "-o"]
    for place in (other, other / "notes.txt"):
        assert main([*command, str(place)]) == 2
    assert "must be new, empty or hold a run, got one with 'notes.txt'" in capsys.readouterr().err
    assert not (graph / "sizes.private.json").exists()
    assert not (tmp_path / "new").exists()
    # The control: sizes are released for a folder that may hold a run, and are too noisy for so small a graph.
    assert main([*command, str(tmp_path / "new" / "run")]) == 2
    assert (graph / "sizes.private.json").exists()


def test_a_start_that_was_killed_while_its_budget_entry_was_written_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    Budget.create(tmp_path / "budget").close()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "budget.json.partial").write_bytes(b'{"bud')
    result = Trainer(*small_parts(), budget=tmp_path / "budget").fit(tmp_path / "run")
    assert verify(result.folder)
    assert not list((tmp_path / "run").glob("*.partial"))


def test_training_a_complete_run_again_removes_what_a_killed_command_left(tmp_path):
    folder = Trainer(*small_parts()).fit(tmp_path / "run").folder
    for name in ("report.html.partial", "other.partial"):
        (folder / name).touch()
    Trainer(*small_parts()).fit(folder)
    assert [p.name for p in folder.glob("*.partial")] == ["other.partial"]
    (folder / "other.partial").unlink()
    assert verify(folder)


def test_no_model_is_written_through_a_link_that_was_made_on_the_way(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    with opened(tmp_path) as session:
        session.run.model.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ResumeError, match="model must be a folder in the run folder"):
            session.complete(lambda place: (place / "weights").touch(), "ab" * 32)
        assert session.run.key.exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []
