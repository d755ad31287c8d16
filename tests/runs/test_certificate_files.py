"""The files of a certificate follow from plan and ledger, and from nothing else."""

import shutil

import pytest
import torch

from reldp.errors import LedgerError, RunError
from reldp.reporting.publishing import record_audit
from reldp.runs.certificate_files import write_certificate
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
from reldp.training.finishing import finish
from tests.training.small import small_parts

torch.set_num_threads(1)


@pytest.fixture
def run(tmp_path):
    Trainer(*small_parts()).fit(tmp_path / "run")
    return RunFolder(tmp_path / "run")


def test_all_files_can_be_recomputed_from_plan_and_ledger(run):
    files = (run.certificate, run.certificate_text, run.card)
    before = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    write_certificate(run)
    assert [path.read_bytes() for path in files] == before


def test_an_incomplete_run_gets_no_certificate(run):
    lines = run.ledger.read_text().splitlines(keepends=True)
    run.ledger.write_text("".join(lines[:-1]))
    with pytest.raises(LedgerError, match="complete"):
        write_certificate(run)
    run.plan.unlink()
    with pytest.raises(RunError, match=r"plan\.json"):
        write_certificate(run)


@pytest.mark.parametrize("name", ["model", "checkpoints", "tensorboard"])
def test_nothing_is_written_through_a_link(run, tmp_path, name):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "README.md").write_text("mine")
    shutil.rmtree(run.path / name, ignore_errors=True)
    (run.path / name).symlink_to(victim)
    ledger = run.ledger.read_bytes()
    run.certificate.write_bytes(b"old")
    for write in (
        write_certificate,
        lambda run: finish(run.path),
        lambda run: record_audit(run, [{"x": 1}]),
    ):
        with pytest.raises(
            RunError, match=f"{name} must be a folder in the run folder, got a link"
        ):
            write(run)
    assert run.certificate.read_bytes() == b"old"
    assert sorted(p.name for p in victim.iterdir()) == ["README.md"]
    assert (victim / "README.md").read_text() == "mine"
    assert run.ledger.read_bytes() == ledger
