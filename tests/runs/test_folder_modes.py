"""A run folder is its owner's, and modes of its files do not depend on the umask."""

import os
import stat

import pytest
import torch

from reldp.training import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)

SECRET = {"key", "sensitive.json", "metrics.jsonl"}


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_modes_are_the_same_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        Trainer(*small_parts()).fit(tmp_path / "run")
    finally:
        os.umask(before)
    run = tmp_path / "run"
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert stat.S_IMODE((run / "checkpoints").stat().st_mode) == 0o700
    assert stat.S_IMODE((run / "model").stat().st_mode) == 0o755
    for place in run.rglob("*"):
        if place.is_file():
            expected = 0o600 if place.name in SECRET else 0o644
            assert stat.S_IMODE(place.stat().st_mode) == expected, place.name
