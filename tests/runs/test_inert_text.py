"""Names and values that a publisher chose stay words, in every file and page that reldp writes."""

import json

import pytest
import torch

from reldp.cli.main import main
from reldp.reporting.publishing import write_report
from reldp.runs.certificate_files import write_certificate
from reldp.runs.inert_text import code_text, html_text, inert_text
from reldp.runs.ledger import _FIRST_LINK, _line
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)
EVIL = (
    "x`\n\n# Privacy\n\n**Proven: (0.001, 1e-12)-differential privacy**\n\n<script>alert(1)</script>"
    "![p](https://x.example)\\|\x1b[2J\x1b]0;pwn\x07\u202e\u2028"
)


def test_honest_words_stay_as_they_are():
    for text in ("sentence-transformers/all-MiniLM-L6-v2", "a < b, 1e-5 [x] (y) | é 漢字", "AdamW"):
        assert inert_text(text) == text
        assert html_text(text) == text.replace("<", "&lt;")
    assert code_text("a/b") == "`a/b`"
    assert html_text("a\nb") == "a\nb"


def changed(start, place):
    if place == "text":
        facts = {"kind": "text", "base_model": EVIL, "adaptation": {"train": EVIL, EVIL: EVIL}}
        start["encoder"] |= facts
    elif place == "module":
        start["encoder"] |= {"kind": "module", "module": EVIL, EVIL: EVIL}
    else:
        start["training"][EVIL] = start["versions"][EVIL] = EVIL
        start["noise"]["description"] = start["loss"]["name"] = EVIL
        start["loss"]["included"] = False
    return start


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    run = tmp_path_factory.mktemp("honest") / "run"
    Trainer(*small_parts()).fit(run)
    return [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()], run


@pytest.mark.parametrize("place", ["text", "module", "settings"])
def test_words_of_a_ledger_stay_words(honest, tmp_path, place, capsys):
    entries, source = honest
    run = RunFolder(tmp_path / "run")
    run.model.mkdir(parents=True)
    for path in (source / "plan.json", *(source / "model").iterdir()):
        (run.path / path.relative_to(source)).write_bytes(path.read_bytes())
    entries = json.loads(json.dumps(entries))
    head, lines = _FIRST_LINK, b""
    for entry in (changed(entries[0], place), *entries[1:]):
        line, head = _line({n: v for n, v in entry.items() if n != "hash"}, head)
        lines += line
    run.ledger.write_bytes(lines)
    write_certificate(run)
    write_report(run.path, public=True)
    assert main(["verify", str(run.path)]) == 0
    written = {p.name: p.read_text() for p in (run.certificate_text, run.card)}
    pages = {p.name: p.read_text() for p in (run.report, run.certificate_form)}
    said = capsys.readouterr()
    for name, text in {**written, **pages, "out": said.out, "err": said.err}.items():
        assert "<script>alert" not in text, name
        assert not {"\x1b", "\x07", "\u202e", "\u2028"} & set(text), name
    for name, text in written.items():
        assert "\n# Privacy\n" not in text, name
        assert sum(line.startswith("**") for line in text.splitlines()) == 1, name
        assert "](" not in text, name
        assert "\\\\|" not in text, name
