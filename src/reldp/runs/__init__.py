"""The run folder: what a run keeps on disk. Without torch, so that a verifier need not have it."""

from reldp.runs.private_file import PrivateRecord, check_private_file

__all__ = ["PrivateRecord", "check_private_file"]
