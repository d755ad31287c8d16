"""A bundle holds what may be published of a run, verifies alone, and appears complete or not at all."""

import os
import shutil
import stat

import pytest
import torch

from reldp.errors import ConfigError, RunError, VerificationError
from reldp.reporting import bundle, verify
from reldp.reporting.bundle import PUBLIC_FILES, publish
from reldp.reporting.publishing import write_report
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A complete run with every sensitive file that a run can have."""
    run = RunFolder(tmp_path_factory.mktemp("trained") / "run")
    Trainer(*small_parts(), log_sensitive=True, tensorboard=False).fit(run.path)
    run.append_line(run.evaluations, {"graph": "g", "candidates": 9, "intervals": {}})
    write_report(run.path)
    return run


def files(folder):
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_a_bundle_holds_public_files_only_and_verifies_without_the_run(trained, tmp_path):
    published = publish(trained.path, tmp_path / "bundle")
    model = {f"model/{name}" for name in ("README.md", "encoder.json", "model.safetensors")}
    assert files(tmp_path / "bundle") == {*PUBLIC_FILES, "report.html", "certificate.html", *model}
    assert files(trained.path) > files(tmp_path / "bundle")
    # A copy in another place, where nothing of the run exists.
    shutil.copytree(tmp_path / "bundle", tmp_path / "elsewhere" / "bundle")
    shutil.rmtree(tmp_path / "bundle")
    head = published.certificate.values["ledger"]["head"]
    checked = verify(tmp_path / "elsewhere" / "bundle", head=head.upper())
    assert checked.checks[-1].startswith("the ledger's")


def test_a_place_that_others_can_write_to_is_refused(trained, tmp_path):
    waiting = tmp_path / ".bundle.partial"
    waiting.mkdir()
    waiting.chmod(0o777)
    with pytest.raises(ConfigError, match="`output` must be made by this user alone"):
        publish(trained.path, tmp_path / "bundle")
    waiting.chmod(0o700)
    assert publish(trained.path, tmp_path / "bundle").unverified == ()


def test_no_byte_of_a_sensitive_file_is_in_a_bundle(trained, tmp_path):
    publish(trained.path, tmp_path / "bundle")
    everything = b"".join(
        (tmp_path / "bundle" / n).read_bytes() for n in files(tmp_path / "bundle")
    )
    record = trained.sensitive.read_text()
    salt = record.partition('"salt": "')[2][:64]
    fingerprint = record.partition('"fingerprint": "')[2][:64]
    assert len(salt) == len(fingerprint) == 64
    for secret in (salt, fingerprint, "median_norm", "Sensitive: keep this part"):
        assert secret.encode() not in everything
    assert b"Sensitive: keep this part" in trained.report.read_bytes()  # the words exist


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_modes_do_not_depend_on_the_umask(trained, tmp_path, umask):
    before = os.umask(umask)
    try:
        publish(trained.path, tmp_path / "bundle")
    finally:
        os.umask(before)
    for place in (tmp_path / "bundle", *(tmp_path / "bundle").rglob("*")):
        expected = 0o755 if place.is_dir() else 0o644
        assert stat.S_IMODE(place.stat().st_mode) == expected, place.name


def test_a_place_that_is_taken_or_inside_the_run_is_refused(trained, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for place in (tmp_path / "full", tmp_path / "link", trained.path):
        with pytest.raises(ConfigError, match="must be a new folder"):
            publish(trained.path, place)
    with pytest.raises(ConfigError, match="outside of the run folder"):
        publish(trained.path, trained.path / "bundle")
    assert files(tmp_path) == {"full/file"}
    (tmp_path / "empty").mkdir()
    publish(trained.path, tmp_path / "empty")


def test_a_run_that_does_not_verify_is_not_published(trained, tmp_path):
    shutil.copytree(trained.path, tmp_path / "run")
    with (tmp_path / "run" / "model" / "model.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(VerificationError, match=r"model/model\.safetensors is changed"):
        publish(tmp_path / "run", tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_a_run_that_changes_while_it_is_copied_is_not_published(trained, tmp_path, monkeypatch):
    shutil.copytree(trained.path, tmp_path / "run")
    fill = bundle._fill

    def change_then_fill(run, partial, verified):
        (run.model / "encoder.json").write_text("{}")
        fill(run, partial, verified)

    monkeypatch.setattr(bundle, "_fill", change_then_fill)
    with pytest.raises(VerificationError, match=r"'run' failed .*encoder\.json is changed"):
        publish(tmp_path / "run", tmp_path / "bundle")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]


def test_a_killed_publication_leaves_no_bundle_and_the_next_one_succeeds(
    trained, tmp_path, monkeypatch
):
    class Killed(BaseException):
        pass

    def die(folder):
        raise Killed

    monkeypatch.setattr(bundle, "sync_folder", die)
    monkeypatch.setattr(bundle.shutil, "rmtree", lambda place: None)  # nothing is tidied up
    with pytest.raises(Killed):
        publish(trained.path, tmp_path / "bundle")
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == [".bundle.partial"]
    publish(trained.path, tmp_path / "bundle")
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


def test_a_second_process_is_refused(trained, tmp_path):
    with (
        bundle._partial(tmp_path / "bundle"),
        pytest.raises(RunError, match="Another process is publishing"),
    ):
        publish(trained.path, tmp_path / "bundle")
    publish(trained.path, tmp_path / "bundle")


def test_a_full_disk_leaves_nothing(trained, tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle.shutil, "copyfileobj", full)
    with pytest.raises(RunError, match=r"plan\.json could not be written: the disk is full"):
        publish(trained.path, tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_published_beside_what_a_killed_command_left_and_a_bundle_is_not(
    trained, tmp_path
):
    run = shutil.copytree(trained.path, tmp_path / "run")
    (run / "report.html.partial").touch()
    publish(run, tmp_path / "bundle")
    assert files(run) == files(trained.path)
    (tmp_path / "bundle" / "report.html.partial").touch()
    with pytest.raises(VerificationError, match="is what a stopped command left"):
        publish(tmp_path / "bundle", tmp_path / "second")
    assert (tmp_path / "bundle" / "report.html.partial").exists()


def test_a_full_report_of_a_bundle_does_not_follow_from_it(trained, tmp_path):
    """Its sensitive values come from files that whoever has the bundle may have written."""
    publish(trained.path, tmp_path / "bundle")
    for place in (trained.metrics, trained.evaluations, trained.report):
        shutil.copy(place, tmp_path / "bundle")
    assert verify(trained.path)
    with pytest.raises(VerificationError, match=r"report\.html is not the page that follows"):
        verify(tmp_path / "bundle")
    write_report(tmp_path / "bundle")
    assert verify(tmp_path / "bundle")
