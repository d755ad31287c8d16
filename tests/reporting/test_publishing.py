"""Reports and audits are written for verified runs only, and follow from plan and ledger."""

import math

import pytest
import torch

from reldp.errors import RunError, VerificationError
from reldp.reporting import verify
from reldp.reporting.publishing import record_audit, refresh_report, write_report
from reldp.reporting.report import is_full
from reldp.runs.ledger import read_ledger
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
from tests.reporting.killed import killed_writing
from tests.training.small import small_parts

torch.set_num_threads(1)


@pytest.fixture
def run(tmp_path):
    Trainer(*small_parts(), log_sensitive=True).fit(tmp_path / "run")
    return RunFolder(tmp_path / "run")


def test_an_audit_is_in_the_chain_and_on_every_page(run):
    for public in (False, True):
        write_report(run.path, public=public)
        before = read_ledger(run.ledger).head
        assert record_audit(run, [{"lower bound": 0.3, "claimed": math.inf}])
        assert read_ledger(run.ledger).head != before
        found = verify(run.path).certificate.values["audits"]
        assert found[-1] == {"lower bound": 0.3, "claimed": "Infinity"}
        assert is_full(run.report.read_bytes()) is not public
    assert len(found) == 2
    assert "lower bound" in run.certificate_text.read_text()
    assert "lower bound" in run.report.read_text()


def test_an_unfinished_run_keeps_no_audit(run):
    lines = run.ledger.read_text().splitlines(keepends=True)
    run.ledger.write_text("".join(lines[:-1]))
    assert not record_audit(run, [{"lower bound": 0.3}])
    assert run.ledger.read_text() == "".join(lines[:-1])


def test_there_is_no_report_of_a_run_that_does_not_verify(run, tmp_path):
    run.plan.write_text(run.plan.read_text().replace("2.0", "2.5"))
    with pytest.raises(VerificationError):
        write_report(run.path)
    assert not run.report.exists()
    with pytest.raises(RunError):
        write_report(tmp_path)


def test_a_report_is_refreshed_in_its_form_only_if_there_is_one(run):
    refresh_report(run)
    assert not run.report.exists()
    write_report(run.path)
    before = run.report.read_bytes()
    line = {"graph": "g", "candidates": 9, "mrr": 0.25, "intervals": {"mrr": [0.2, 0.3]}}
    run.append_line(run.evaluations, line)
    with pytest.raises(VerificationError, match=r"report\.html"):
        verify(run.path)
    refresh_report(run)
    assert run.report.read_bytes() != before
    verify(run.path)


@pytest.mark.parametrize("name", ["report.html", "certificate.html"])
def test_a_killed_report_is_in_nobodys_way(run, name):
    partial = killed_writing(run.path / name, "report", str(run.path))
    with pytest.raises(
        VerificationError,
        match=rf"'{name}\.partial' is what a stopped command left: delete it, or run reldp report",
    ):
        verify(run.path)
    write_report(run.path)
    assert not partial.exists()
    verify(run.path)


def test_a_report_that_was_never_finished_is_removed_without_a_new_one(run):
    partial = killed_writing(run.report, "report", str(run.path))
    refresh_report(run)
    assert not partial.exists()
    assert not run.report.exists()
    verify(run.path)


def test_a_link_of_a_temporary_name_is_refused_and_not_followed(run, tmp_path):
    (tmp_path / "target").write_text("mine")
    (run.path / "report.html.partial").symlink_to(tmp_path / "target")
    with pytest.raises(VerificationError, match=r"'report\.html\.partial' is a link"):
        write_report(run.path)
    assert (tmp_path / "target").read_text() == "mine"


def test_other_temporary_files_are_refused_and_stay(run):
    (run.path / "other.partial").touch()
    with pytest.raises(VerificationError, match=r"'other\.partial' is not a file of a run"):
        write_report(run.path)
    assert (run.path / "other.partial").exists()
