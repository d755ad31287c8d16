"""Publishing a run: a folder with everything that verifies it, and nothing sensitive.

A bundle holds plan.json, ledger.jsonl, certificate.json, certificate.md, the public form of report.html, and
model/ with its card. All of them follow from noisy values and public settings (theory.md 6). The
key, sensitive.json, metrics.jsonl, evaluations.jsonl, tensorboard/ and checkpoints stay in the run
folder, and so does every file that is not one of a run: files are copied by name.

The bundle is filled beside its final place, verified there as a reader without the run would, and then renamed: it
appears complete or not at all, and a process that is killed leaves nothing under the bundle's name.

Public inside the package: `publish`, `PUBLIC_FILES`.

>>> publish("nowhere", "bundle")
Traceback (most recent call last):
reldp.errors.RunError: The run folder must exist, got 'nowhere'.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reldp._real_path import real_path
from reldp.errors import ConfigError, VerificationError
from reldp.reporting.certificate_form import certificate_form
from reldp.reporting.report import report_page
from reldp.reporting.verification import Verification, verify, verify_files
from reldp.runs.durable import (
    TEMPORARY,
    disk_errors,
    lock_or_refuse,
    sync_folder,
    write_durably,
)
from reldp.runs.plain_files import open_plain
from reldp.runs.run_folder import CARD, RunFolder

__all__ = ["PUBLIC_FILES", "publish"]

PUBLIC_FILES = ("plan.json", "ledger.jsonl", "certificate.json", "certificate.md")
"""Files of a run that a bundle copies as they are; report.html, certificate.html and model/ come besides."""

_FILE_MODE = 0o644
_FOLDER_MODE = 0o755


def publish(folder: str | Path, output: str | Path) -> Verification:
    """Verify a complete run and write what may be published of it into a new folder.

    Args:
        folder: The run folder. It is not changed, except that what killed commands left in it is removed.
        output: The folder to make; it must not exist, or be empty.

    Returns:
        The verification of the bundle.

    Raises:
        ConfigError: The output is not new, or lies in the run folder.
        VerificationError: The run's files do not match its ledger; nothing is published.
        RunError: There is no run, or the disk cannot be written to.
    """
    run, target = RunFolder(folder), Path(output)
    _check_target(run, target)
    run.remove_leftovers()
    verified = verify_files(run)
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with _partial(target) as partial:
        _fill(run, partial, verified)
        sync_folder(partial)
        published = _verified_as_published(partial, run)
        with disk_errors(target):
            os.rename(partial, target)  # replaces an empty folder, and refuses any other
    sync_folder(target)
    return published


def _check_target(run: RunFolder, target: Path) -> None:
    """Refuse a place that is taken, or inside of the run."""
    if os.path.lexists(target) and (target.is_symlink() or not _is_empty_folder(target)):
        raise ConfigError(
            f"`output` must be a new folder, got {str(target)!r}, which exists. Choose another."
        )
    if real_path(target).is_relative_to(real_path(run.path)):
        raise ConfigError(
            "`output` must lie outside of the run folder, got a place in it. Choose another."
        )


def _is_empty_folder(place: Path) -> bool:
    return place.is_dir() and not any(place.iterdir())


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside the target, locked against a second process, and remove it on errors."""
    partial = target.with_name(f".{target.name}{TEMPORARY}")
    with disk_errors(target):
        partial.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(partial, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        _refuse_foreign(descriptor, partial)
        lock_or_refuse(
            descriptor,
            target.name,
            "Another process is publishing it. Wait until it ends, or stop it.",
        )
        with disk_errors(target):
            for place in partial.iterdir():  # left by a process that was killed
                shutil.rmtree(place) if place.is_dir() else place.unlink()
        try:
            yield partial
        except BaseException:
            with suppress(OSError):
                shutil.rmtree(partial)
            raise
    finally:
        os.close(descriptor)


def _refuse_foreign(descriptor: int, partial: Path) -> None:
    """Refuse a folder that somebody else could change between the verification and the end."""
    status = os.fstat(descriptor)
    if (hasattr(os, "getuid") and status.st_uid != os.getuid()) or status.st_mode & 0o022:
        raise ConfigError(
            f"`output` must be made by this user alone, got {partial.name!r} beside it, which others own or may write "
            "to. Remove it, or choose another place."
        )


def _fill(run: RunFolder, partial: Path, verified: Verification) -> None:
    """Copy the public files of a verified run, each by its name."""
    for name in PUBLIC_FILES:
        _copy(run.path / name, partial / name)
    for name in (*verified.certificate.values["model"]["files"], CARD):
        place = partial / run.model.name / name
        with disk_errors(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        _copy(run.model / name, place)
    page = report_page(run, verified.certificate, verified.checks, public=True)
    form = certificate_form(verified.certificate, verified.checks)
    write_durably(RunFolder(partial).report, page.encode(), mode=_FILE_MODE)
    write_durably(RunFolder(partial).certificate_form, form.encode(), mode=_FILE_MODE)
    with disk_errors(partial):
        for place in (partial, *partial.rglob("*")):
            if place.is_dir():
                place.chmod(_FOLDER_MODE)


def _copy(path: Path, target: Path) -> None:
    """Copy a regular file, however large, to a new file that everybody may read."""
    with open_plain(path) as file, disk_errors(target):
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        with open(descriptor, "wb") as copy:
            os.fchmod(descriptor, _FILE_MODE)  # whatever the umask
            shutil.copyfileobj(file, copy)


def _verified_as_published(partial: Path, run: RunFolder) -> Verification:
    """Verify the bundle as a reader without the run does."""
    try:
        return verify(partial)
    except VerificationError as error:
        # The run was changed between its verification and the copy.
        words = str(error).replace(repr(partial.name), repr(run.path.name))
        raise VerificationError(words) from None
