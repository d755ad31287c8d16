"""Names of files, lines of files, hashes of files."""

import hashlib
import resource
import signal
import stat

import pytest

from reldp.errors import ReldpError, ResumeError, RunError
from reldp.runs.run_folder import (
    RunFolder,
    file_hashes,
    plan_bytes,
    read_json,
    read_plan,
)
from tests.reporting.example import PLAN


def test_naming_a_folder_makes_nothing(tmp_path):
    run = RunFolder(tmp_path / "run")
    assert not run.has_run
    assert not run.path.exists()
    assert str(tmp_path) not in repr(run)


def test_hashes_cover_every_file_but_the_card(tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_bytes(b"{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "README.md").write_bytes(b"card")
    assert file_hashes(tmp_path) == {
        "1_Pooling/config.json": hashlib.sha256(b"{}").hexdigest(),
        "model.safetensors": hashlib.sha256(b"weights").hexdigest(),
    }


def test_lines_are_appended_for_their_owner_and_read_but_for_a_torn_one(tmp_path):
    run = RunFolder(tmp_path)
    assert run.read_lines(run.metrics) == []
    run.append_line(run.metrics, {"step": 0})
    run.append_line(run.metrics, {"step": 1})
    assert stat.S_IMODE(run.metrics.stat().st_mode) == 0o600
    with run.metrics.open("a") as file:
        file.write('{"st')
    assert run.read_lines(run.metrics) == [{"step": 0}, {"step": 1}]
    run.metrics.write_text("nonsense\n")
    with pytest.raises(RunError, match="got damage"):
        run.read_lines(run.metrics)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("plan.json", True),
        ("model/deep/file.bin", True),
        ("checkpoints/", True),
        ("tensorboard/", True),
        ("tensorboard/events.out.tfevents.17.host.3.0", True),
        ("tensorboard/certificate.json", False),
        ("tensorboard/events.out.tfevents.1/x", False),
        ("key", False),
        ("audits.json", False),
        ("model", False),
        ("plan.json/x", False),
        ("certificate.html", True),
        (".hidden", False),
    ],
)
def test_what_belongs_in_a_run_folder_is_known(tmp_path, name, known):
    assert RunFolder(tmp_path).knows(name) is known


def test_a_plan_is_read_from_the_bytes_that_it_is_written_as(tmp_path):
    run = RunFolder(tmp_path)
    run.plan.write_bytes(plan_bytes(PLAN))
    assert read_plan(run) == PLAN
    for damage, words in [
        (b"[]", "one object"),
        (b"{", "JSON"),
        (plan_bytes(PLAN)[:-1], "other bytes"),
        (b"\xef\xbb\xbf" + plan_bytes(PLAN), "JSON"),
        (plan_bytes(PLAN).replace(b"1e-06", b"0.000001"), "other bytes"),
        (plan_bytes(PLAN).replace(b"1e-06", b"2"), r"plan\.json: `delta` must"),
    ]:
        run.plan.write_bytes(damage)
        with pytest.raises(ReldpError, match=words):
            read_plan(run)


def test_missing_and_damaged_json_are_clear_errors(tmp_path):
    with pytest.raises(RunError, match=r"x\.json must be there"):
        read_json(tmp_path / "x.json")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(RunError, match="got damage"):
        read_json(tmp_path / "x.json")


def test_lines_are_not_appended_to_what_a_link_leads_to(tmp_path):
    run, other = RunFolder(tmp_path), tmp_path / "other"
    other.write_text("mine")
    run.evaluations.symlink_to(other)
    with pytest.raises(RunError, match=r"evaluations\.jsonl could not be written"):
        run.append_line(run.evaluations, {"hits": 1})
    assert other.read_text() == "mine"


def test_a_folder_without_a_ledger_says_what_may_have_happened(tmp_path):
    run = RunFolder(tmp_path)
    with pytest.raises(RunError, match=r"without it\.$"):
        run.require_run()
    run.plan.write_bytes(plan_bytes(PLAN))
    with pytest.raises(RunError, match=r"stopped before its first step has none: .* restore it\.$"):
        run.require_run()


def test_a_line_after_a_half_written_one_is_whole(tmp_path):
    run, place = RunFolder(tmp_path), tmp_path / "evaluations.jsonl"
    lines = [{"n": n, "text": "x" * (70_000 * (n == 1))} for n in range(3)]
    for line in lines[:2]:
        run.append_line(place, line)
    whole = place.read_bytes()
    for part in (b'{"half', b"x" * 200_000):
        place.write_bytes(whole + part)
        run.append_line(place, lines[2])
        assert run.read_lines(place) == lines
    place.write_bytes(b'{"never whole')
    run.append_line(place, lines[0])
    assert run.read_lines(place) == lines[:1]


def test_a_full_disk_leaves_whole_lines(tmp_path):
    run, place = RunFolder(tmp_path), tmp_path / "evaluations.jsonl"
    run.append_line(place, {"n": 0})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        with pytest.raises(RunError, match="could not be written"):
            run.append_line(place, {"text": "x" * 1_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert place.read_bytes() == b'{"n": 0}\n'


RUN_FILES = {
    *("budget.json", "metrics.jsonl", "certificate.json", "certificate.md", "certificate.html"),
    *("report.html", "signature.json", "model/README.md"),
}


@pytest.mark.parametrize("is_bundle", [False, True])
def test_leftovers_of_commands_are_removed_and_nothing_else(tmp_path, is_bundle):
    run = RunFolder(tmp_path / "run")
    run.model.mkdir(parents=True)
    left = {f"{name}.partial" for name in RUN_FILES}
    others = {"other.partial", "key.partial", "plan.json.partial", "model/other.partial"}
    for name in {*left, *others}:
        (run.path / name).touch()
    run.remove_leftovers(in_bundle=True)  # a folder without a run
    assert all((run.path / name).exists() for name in left)
    run.ledger.touch()
    if is_bundle:
        left = {f"{name}.partial" for name in ("report.html", "certificate.html", "signature.json")}
        run.remove_leftovers()
        assert all((run.path / name).exists() for name in left)
    else:
        run.sensitive.touch()
    kept = {f"{name}.partial" for name in RUN_FILES} - left
    assert set(run.leftovers) == left
    run.remove_leftovers(in_bundle=is_bundle)
    assert not any((run.path / name).exists() for name in left)
    assert all((run.path / name).exists() for name in {*others, *kept})


def test_leftovers_are_not_removed_where_a_link_leads(tmp_path):
    run, elsewhere = RunFolder(tmp_path / "run"), tmp_path / "elsewhere"
    run.path.mkdir()
    elsewhere.mkdir()
    for place in (run.ledger, run.sensitive, elsewhere / "README.md.partial", elsewhere / "page"):
        place.touch()
    run.model.symlink_to(elsewhere)
    (run.path / "report.html.partial").symlink_to(elsewhere / "page")
    run.remove_leftovers()
    assert {p.name for p in elsewhere.iterdir()} == {"README.md.partial", "page"}
    assert (run.path / "report.html.partial").is_symlink()


LINKED = (
    "model",
    "checkpoints",
    "tensorboard",
    "model/README.md",
    "checkpoints/step-000000000.safetensors",
)
LINKED += (
    "plan.json",
    "ledger.jsonl",
    "metrics.jsonl",
    "evaluations.jsonl",
    "budget.json",
    "report.html",
)


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("is_dangling", [False, True])
def test_links_in_place_of_files_and_folders_of_a_run_are_refused(tmp_path, name, is_dangling):
    run = RunFolder(tmp_path / "run")
    for folder in (run.model, run.checkpoints):
        folder.mkdir(parents=True)
    (run.path / "notes").symlink_to(
        tmp_path
    )  # not of the run: left alone here, and refused by verification
    run.refuse_links()
    place = run.path / name
    if place.is_dir():
        place.rmdir()
    if not is_dangling:
        (tmp_path / "elsewhere").mkdir()
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        ResumeError, match=f"{name} must be a (file|folder) in the run folder, got a link"
    ):
        run.refuse_links()
