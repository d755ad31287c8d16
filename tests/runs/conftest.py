"""Fixtures of interrupted runs, shared with the tests of training."""

from tests.training.conftest import addresses, folder, stopped_run

__all__ = ["addresses", "folder", "stopped_run"]
