"""Verification passes on good runs and fails on every kind of tampering."""

import json
import os
import shutil
import warnings

import pytest
import torch

from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.errors import RunError, VerificationError
from reldp.graph import EntityGraph
from reldp.reporting import verify
from reldp.reporting.publishing import write_report
from reldp.runs.ledger import _FIRST_LINK, _line
from reldp.training import Trainer
from reldp.training.callbacks import TrainingCallback, TrainingStopped
from tests.encoders.tiny import SENTENCE, write_model
from tests.training.small import small_encoder, small_parts, small_plan

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    Trainer(*small_parts(), checkpoint_every=5, log_sensitive=True).fit(folder)
    return folder


@pytest.fixture
def run(good, tmp_path):
    return shutil.copytree(good, tmp_path / "run")


def lines(run):
    return (run / "ledger.jsonl").read_text().splitlines()


def rewrite(run, entries):
    """Writes entries as a ledger whose chain is in order: what a careful forger would do."""
    head, text = _FIRST_LINK, b""
    for entry in entries:
        line, head = _line({k: v for k, v in entry.items() if k != "hash"}, head)
        text += line
    (run / "ledger.jsonl").write_bytes(text)


def change_json(path, change):
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def test_a_run_that_was_stopped_says_what_to_do(tmp_path):
    class Stop(TrainingCallback):
        def on_step_end(self, progress, requests):
            requests.stop = True

    with pytest.raises(TrainingStopped):
        Trainer(*small_parts(), callbacks=[Stop()]).fit(tmp_path / "run")
    with pytest.raises(
        VerificationError,
        match=r"is not finished, .* same program, or end it with reldp finish or reldp abandon",
    ):
        verify(tmp_path / "run")
    (tmp_path / "run" / "key").unlink()  # the control: without its key it cannot be resumed
    with pytest.raises(VerificationError, match=r"ledger\.jsonl has no end"):
        verify(tmp_path / "run")


def test_a_good_run_passes(run):
    found = verify(run)
    assert len(found.checks) == 9
    assert found.unverified == ("metrics.jsonl",)
    assert found.certificate.epsilon > 0


def edit_ledger(run):
    text = (run / "ledger.jsonl").read_text()
    (run / "ledger.jsonl").write_text(text.replace('"stop":10', '"stop":11'))


def remove_line(run):
    kept = lines(run)
    (run / "ledger.jsonl").write_text("\n".join(kept[:2] + kept[3:]) + "\n")


def remove_last_line(run):
    (run / "ledger.jsonl").write_text("\n".join(lines(run)[:-1]) + "\n")


def forge_fewer_steps(run, **end):
    entries = [json.loads(line) for line in lines(run)]
    blocks = ["reserve", "checkpoint"] * 3
    assert [e["kind"] for e in entries] == ["start", *blocks, "complete"]
    del entries[5:7]
    entries[-1] |= {"num_counted": 10, **end}
    rewrite(run, entries)


def forge_an_early_end(run):
    forge_fewer_steps(run, stopped_at=10, stop_decided_by="steps")


def edit_plan(run):
    change_json(run / "plan.json", lambda plan: plan.update(noise_multiplier=3.0))


def swap_model(run):
    shutil.rmtree(run / "model")
    FeatureEncoder.save(small_encoder(seed=4), run / "model")


def change_one_weight(run):
    path = run / "model" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def add_model_file(run):
    (run / "model" / "extra.bin").write_bytes(b"x")


def remove_model_file(run):
    (run / "model" / "encoder.json").unlink()


def edit_epsilon(run):
    def smaller(values):
        values["guarantee"]["epsilon"]["pld"] *= 0.5

    change_json(run / "certificate.json", smaller)


def edit_assumptions(run):
    change_json(run / "certificate.json", lambda values: values["assumptions"].pop())


def edit_steps(run):
    change_json(run / "certificate.json", lambda values: values["steps"].update(counted=11))


def add_a_promise(run):
    change_json(run / "certificate.json", lambda values: values.update(also="perfect secrecy"))


def edit_text(run):
    path = run / "certificate.md"
    path.write_text(path.read_text().replace("Proven", "Proven beyond doubt"))


def edit_card(run):
    path = run / "model" / "README.md"
    path.write_text(path.read_text().replace("| epsilon |", "| small epsilon |"))


def remove_a_page(name):
    def remove(run):
        (run / name).unlink()

    return remove


def duplicate_a_name(run):
    path = run / "certificate.json"
    text = path.read_text()
    assert text.count('  "key": "destroyed",\n') == 1
    path.write_text(
        text.replace('  "key": "destroyed",\n', '  "key": "kept",\n  "key": "destroyed",\n')
    )


def write_a_number_in_another_way(run):
    path = run / "plan.json"
    path.write_text(path.read_text().replace('"max_degree": 4,', '"max_degree": 4, '))


def link_a_model_file(run):
    path = run / "model" / "model.safetensors"
    shutil.copy(path, run.parent / "elsewhere")
    path.unlink()
    path.symlink_to(run.parent / "elsewhere")


def link_the_model(run):
    shutil.move(run / "model", run.parent / "elsewhere")
    (run / "model").symlink_to(run.parent / "elsewhere")


def link_the_ledger(run):
    shutil.move(run / "ledger.jsonl", run.parent / "elsewhere")
    (run / "ledger.jsonl").symlink_to(run.parent / "elsewhere")


def pipe_in(name):
    def make(run):
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)

    return make


def add(name, content=b"x"):
    def write(run):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_bytes(content)

    return write


def empty_folder(run):
    (run / "model" / "onnx").mkdir()


def swap_checkpoint(run):
    path = next((run / "checkpoints").iterdir())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def fabricate_an_audit(run):
    change_json(run / "certificate.json", lambda v: v["audits"].append({"verdict": "fine"}))


def old_format(run):
    change_json(run / "certificate.json", lambda v: v.update(format=1))


def missing_date(run):
    change_json(run / "certificate.json", lambda v: v.pop("date"))


def negative_epsilon(run):
    change_json(run / "certificate.json", lambda v: v["guarantee"]["epsilon"].update(pld=-1.0))


def bring_back_a_key(run):
    (run / "key").write_bytes(bytes(32))


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (edit_ledger, "changed, removed or added"),
        (remove_line, "changed, removed or added"),
        (remove_last_line, "ledger.jsonl has no end"),
        (forge_fewer_steps, "since the run ended before step 12"),
        (forge_an_early_end, "guarantee.epsilon.pld is"),
        (link_the_ledger, "ledger.jsonl must be there to be read: it is a link"),
        (remove_a_page("ledger.jsonl"), "has no ledger.jsonl"),
        (edit_plan, "plan.json is not the plan"),
        (remove_a_page("plan.json"), "plan.json must be there"),
        (write_a_number_in_another_way, "plan.json must be written as"),
        (swap_model, "model/model.safetensors is changed"),
        (change_one_weight, "model/model.safetensors is changed"),
        (add_model_file, "model/extra.bin is new"),
        (remove_model_file, "model/encoder.json is missing"),
        (link_a_model_file, "'model/model.safetensors' is a link"),
        (link_the_model, "'model' is a link"),
        (empty_folder, "model/onnx is new"),
        (pipe_in("model/more"), "'model/more' is a named pipe"),
        (pipe_in("certificate.json"), "certificate.json must be a regular file, got a named pipe"),
        (pipe_in("report.html"), "'report.html' is a named pipe"),
        (edit_epsilon, "guarantee.epsilon.pld is"),
        (negative_epsilon, "guarantee.epsilon.pld must be a number, 0 or more"),
        (missing_date, "certificate.json: date must be there"),
        (old_format, "got 1, which reldp 0.3 and earlier wrote"),
        (duplicate_a_name, "certificate.json must have each name once, got 'key' twice"),
        (edit_assumptions, "certificate.json: assumptions is"),
        (edit_steps, "steps.counted is 11, but must be 12"),
        (add_a_promise, "known parts only, got 'also'"),
        (fabricate_an_audit, "certificate.json: audits is"),
        (edit_text, "certificate.md does not say"),
        (edit_card, "model/README.md, the model card, does not say"),
        (remove_a_page("certificate.json"), "certificate.json must be there"),
        (remove_a_page("certificate.md"), "certificate.md must be there"),
        (remove_a_page("model/README.md"), "README.md must be there"),
        (bring_back_a_key, "The file key is still there"),
        (add("notes.txt"), "'notes.txt' is not a file of a run"),
        (add("audits.json", b"[]"), "'audits.json' is not a file of a run"),
        (add("more/x"), "'more/x' is not a file of a run"),
        (add(".lock"), "'.lock' is not empty"),
        (add("report.html"), "report.html is not the page"),
        (add("certificate.html"), "certificate.html is not the form"),
        (swap_checkpoint, "is not the file that the ledger names"),
        (add("checkpoints/step-000000001.safetensors"), "is not named in the ledger"),
    ],
)
def test_every_kind_of_tampering_is_named(run, tamper, words):
    tamper(run)
    with pytest.raises(VerificationError, match=r"failed verification|has no ledger") as e:
        verify(run)
    assert words in str(e.value)


def test_a_published_copy_without_what_its_owner_keeps_passes(run):
    (run / "sensitive.json").unlink()
    shutil.rmtree(run / "checkpoints")
    (run / "metrics.jsonl").unlink()
    verify(run)


def test_an_epsilon_in_its_last_digits_is_the_same(run):
    """Another machine may sum in another order; a change that matters may not hide in that."""

    def nudge(factor):
        def change(values):
            values["guarantee"]["epsilon"]["pld"] *= factor

        return change

    change_json(run / "certificate.json", nudge(1 + 1e-9))
    verify(run)
    change_json(run / "certificate.json", nudge(1 - 1e-4))
    with pytest.raises(VerificationError):
        verify(run)


def test_only_epsilon_may_differ_in_its_last_digits(run):
    change_json(
        run / "certificate.json",
        lambda values: values["plan"].update(noise_multiplier=2.0 * (1 + 1e-9)),
    )
    with pytest.raises(VerificationError, match=r"plan\.noise_multiplier"):
        verify(run)


def test_reports_verify_as_they_are_written_and_edited_ones_do_not(run):
    for public in (False, True):
        page = write_report(run, public=public)
        assert len(verify(run).checks) == 9
        text = page.read_text()
        page.write_text(text.replace("Proven", "Proven beyond doubt"))
        with pytest.raises(VerificationError, match=r"report\.html is not"):
            verify(run)
        page.write_text(text)
        verify(run)


def test_a_full_report_does_not_verify_without_the_sensitive_files_it_shows(run):
    write_report(run)
    (run / "metrics.jsonl").unlink()
    with pytest.raises(VerificationError, match=r"report\.html is not"):
        verify(run)
    write_report(run, public=True)
    verify(run)


@pytest.mark.parametrize("text", ["nonsense\n", '{"step": "x", "sensitive": {"loss": []}}\n'])
def test_damaged_sensitive_files_are_named(run, text):
    write_report(run)
    (run / "metrics.jsonl").write_text(text)
    with pytest.raises(VerificationError, match=r"metrics\.jsonl|report\.html"):
        verify(run)


def test_many_strangers_are_counted(run):
    for number in range(30):
        (run / f"x{number:02}").write_bytes(b"")
    with pytest.raises(VerificationError, match=r"'x07' is not a file of a run\. 22 more are not"):
        verify(run)


def test_a_run_of_an_older_version_is_called_that_and_nothing_else(run):
    entries = [json.loads(line) for line in lines(run)]
    entries[0]["format"] = 1
    rewrite(run, entries)
    (run / "audits.json").write_text("[]")
    with pytest.raises(VerificationError) as caught:
        verify(run)
    assert str(caught.value) == (
        "The run in 'run' has format 1, which reldp 0.3 and earlier wrote, and is not verified by "
        "this version. Use the version that it was made with."
    )


def test_folders_without_a_run_are_clear_errors(tmp_path):
    with pytest.raises(RunError, match="must exist"):
        verify(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"must hold ledger\.jsonl"):
        verify(tmp_path)


@pytest.mark.parametrize("train", ["lora", "full", "head", "last:1", "pooling"])
@pytest.mark.parametrize("normalize", [False, True])
def test_runs_of_text_models_verify_as_they_are_written(tmp_path, train, normalize):
    """Whatever folders a saved text model has, none of them is foreign to its own run."""
    texts = [" ".join(SENTENCE.split()[: 1 + i % 5]) for i in range(60)]
    graph = EntityGraph.from_lists(
        list(range(60)), [(i, (i + 1) % 60) for i in range(60)], text=texts
    )
    capped = graph.promise_degrees(2)
    model = write_model("bert", tmp_path / "model")
    encoder = TextEncoder.load(model, train=train, normalize=normalize, max_length=8)
    plan = small_plan(capped, num_negatives=2, expected_batch_size=4.0, num_steps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Trainer(encoder, capped, plan, progress=False).fit(tmp_path / "run")
    assert verify(tmp_path / "run").checks


def test_what_a_killed_command_left_is_named_as_that(run):
    for name in ("certificate.json", "metrics.jsonl", "model/README.md"):
        partial = run / f"{name}.partial"
        partial.touch()
        with pytest.raises(
            VerificationError, match=rf"'{name}\.partial' is what a stopped command left: delete it"
        ):
            verify(run)
        assert partial.exists()
        partial.unlink()
    (run / "plan.json.partial").touch()  # the control: no command writes it while there is a run
    with pytest.raises(VerificationError, match=r"'plan\.json\.partial' is not a file of a run"):
        verify(run)
