"""The first process of a run writes its folder and the others follow; `test_distributed` tries it with real ones."""

import os
import threading
from collections import deque

import pytest

from reldp.errors import RunError
from reldp.processes import Processes
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
from reldp.training.callbacks import StepRequests
from reldp.training.config import TrainingConfig
from reldp.training.metrics import ReexecutionDiffers
from reldp.training.shared_run import SharedLog, SharedRun
from reldp.training.step_report import StepReport
from tests.training.small import small_parts


class Leader(Processes):
    """The first of two processes, whose messages wait for the other."""

    def __init__(self):
        super().__init__(0, 2)
        self.messages = deque()

    def from_first(self, make, about=""):
        self.messages.append(make())
        return self.messages[-1]

    def any(self, *flags, about=""):
        return flags

    def gather(self, data, about=""):
        return [data, b""]


class Follower(Processes):
    """The second of two, which reads the messages of the first."""

    def __init__(self, leader):
        super().__init__(1, 2)
        self._leader = leader

    def from_first(self, make, about=""):
        return self._leader.messages.popleft()

    def any(self, *flags, about=""):
        return flags


@pytest.fixture
def pair(tmp_path):
    """The same new run, seen by two processes, and its folder."""
    leader = Leader()
    trainer = Trainer(*small_parts())
    facts = trainer._facts(threads=1)
    run = RunFolder(tmp_path / "run")
    first = SharedRun(leader, run).open(facts, trainer._first_state)
    second = SharedRun(Follower(leader), RunFolder(tmp_path / "elsewhere")).open(facts, None)
    with first, second:
        yield first, second, tmp_path


def test_the_others_know_steps_and_streams_and_touch_no_file(pair):
    first, second, home = pair
    assert (second.next_step, second.stop, second.stream_number) == (0, 12, 0)
    assert not second.is_complete
    drawn = [session.streams.stream("x", 0, 1).bytes(8) for session in (first, second)]
    assert drawn[0] == drawn[1]
    second.ledger.reserve(0, 5)
    second.ledger.overflow(2)
    second.save(5, b"weights")
    assert second.next_step == 5
    assert first.ledger.record.num_counted == 0
    assert not (home / "elsewhere").exists()
    assert first.read_checkpoint() == second.read_checkpoint()


def test_the_key_is_on_disk_once_and_a_new_branch_is_known_to_all(pair):
    first, second, home = pair
    assert [place.name for place in home.rglob("key")] == ["key"]
    first.open_branch("bits differ")
    second.open_branch("bits differ")
    assert first.stream_number == second.stream_number != 0
    assert second.ledger.branch == 1


def test_all_processes_stop_when_one_is_asked_to(pair):
    _, second, _ = pair
    report = StepReport(
        num_tuples=0, overflow=False, loss=0.0, median_norm=0.0, clipped_share=0.0, num_nonfinite=0
    )

    class Other(Follower):
        """The first process sets all flags."""

        def from_first(self, make, about=""):
            return b"3"

        def any(self, *flags, about=""):
            return tuple(True for _ in flags)

    with SharedLog(Other(None), second, TrainingConfig(), lambda: False) as log:
        assert not log.must_stop
        log.write(3, 0.1, report, {})  # no process has executed it before
        assert log.agreed(StepRequests()) == StepRequests(checkpoint=True, stop=True)
        assert log.must_stop
        with pytest.raises(ReexecutionDiffers):
            log.write(2, 0.1, report, {})


def test_one_process_stops_as_soon_as_it_is_asked(tmp_path):
    trainer = Trainer(*small_parts())
    asked = threading.Event()
    shared = SharedRun(Processes(), RunFolder(tmp_path / "run"))
    assert not shared.has_run
    assert shared.threads(None, 3) == 3
    assert shared.threads(2, 3) == 2
    with (
        shared.open(trainer._facts(threads=1), trainer._first_state) as session,
        SharedLog(Processes(), session, TrainingConfig(), asked.is_set) as log,
    ):
        assert not log.must_stop
        asked.set()
        assert log.must_stop


class Disks(Processes):
    """The first of three processes; the others see what is given in the run folder."""

    def __init__(self, *seen):
        super().__init__(0, 3)
        self._seen = seen

    def gather(self, data, about=""):
        return [data, *(data if seen == "same" else seen for seen in self._seen)]


def test_a_run_that_only_another_process_sees_is_not_started_a_second_time(tmp_path):
    """As when the first process has moved to a machine with another disk."""
    folder = RunFolder(tmp_path / "run")
    assert not SharedRun(Disks(b"", b""), folder).has_run
    with pytest.raises(RunError, match="a run on rank 2 that rank 0 does not see"):
        _ = SharedRun(Disks(b"", b"other"), folder).has_run
    folder.path.mkdir()
    folder.ledger.write_text("{}\n")
    assert SharedRun(Disks(b"", b""), folder).has_run
    assert SharedRun(Disks("same", b""), folder).has_run
    with pytest.raises(RunError, match="a run on rank 1 that rank 0 does not see"):
        _ = SharedRun(Disks(b"other", "same"), folder).has_run


@pytest.mark.parametrize("target", ["/dev/zero", "pipe"])
def test_a_ledger_without_end_is_refused_and_not_waited_for(tmp_path, target):
    folder = RunFolder(tmp_path)
    if target == "pipe":
        os.mkfifo(folder.ledger)
    else:
        folder.ledger.symlink_to(target)
    with pytest.raises(RunError, match=r"ledger\.jsonl"):
        SharedRun(Processes(0, 1), folder).has_run  # noqa: B018  # a property that reads
