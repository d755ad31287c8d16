"""Publishing twice writes the same, and only what follows from plan and ledger."""

import pytest
import torch

from reldp.errors import LedgerError, RunError
from reldp.reporting.publishing import publish, read_plan
from reldp.reporting.run_folder import RunFolder
from reldp.training import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)


def test_everything_can_be_made_anew_from_plan_and_ledger(tmp_path):
    parts = small_parts()
    Trainer(*parts).fit(tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    files = (run.certificate, run.certificate_text, run.card)
    before = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    publish(run)
    assert [path.read_bytes() for path in files] == before
    assert read_plan(run) == parts[2]


def test_a_run_that_is_not_over_is_not_published(tmp_path):
    Trainer(*small_parts()).fit(tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    lines = run.ledger.read_text().splitlines(keepends=True)
    run.ledger.write_text("".join(lines[:-1]))
    with pytest.raises(LedgerError, match="complete"):
        publish(run)
    run.plan.unlink()
    with pytest.raises(RunError, match=r"plan\.json"):
        publish(run)
