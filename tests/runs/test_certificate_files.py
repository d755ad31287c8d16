"""The files of a certificate follow from plan and ledger, and from nothing else."""

import pytest
import torch

from reldp.errors import LedgerError, RunError
from reldp.runs.certificate_files import write_certificate
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
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
