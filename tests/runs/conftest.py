"""Fixtures of interrupted runs, shared with the tests of training."""

from tests.training.conftest import addresses, folder

__all__ = ["addresses", "folder"]
