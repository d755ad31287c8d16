"""The report is one page that loads nothing, answers questions, and folds away what is sensitive."""

import json
import re
import stat

import pytest
import torch

from reldp.reporting.publishing import write_report
from reldp.reporting.report import curves_of, is_full, report_page
from reldp.runs.certificate import Certificate
from reldp.runs.run_folder import RunFolder
from reldp.runs.wording import shown
from reldp.training import Trainer
from tests.reporting.example import certificate_of, sized_plan
from tests.reporting.html import parsed, table
from tests.training.small import small_parts

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    Trainer(*small_parts(), log_sensitive=True).fit(folder)
    line = {
        "graph": "<b>verbs</b>",
        "candidates": 256,
        "mrr": 0.2513,
        "intervals": {"mrr": [0.2013, 0.3013]},
    }
    (folder / "evaluations.jsonl").write_text(json.dumps(line) + "\n")
    return folder


def test_the_page_is_whole_html_that_loads_nothing(run):
    text = write_report(run).read_text()
    whole = parsed(text)
    assert whole.count("main") == whole.count("h1") == 1
    links = [value for name, value in whole.attributes if name in ("href", "src")]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", text)
    targets = {value for name, value in whole.attributes if name == "id"}
    assert {link[1:] for link in links} <= targets
    assert len(text) < 1_000_000


def test_the_page_answers_its_questions(run):
    text = write_report(run).read_text()
    titles = re.findall(r"<h2[^>]*>(.*?)</h2>", text)
    assert titles == [
        "What could an attacker do?",
        "Who is protected how well?",
        "Did it learn?",
        "What did audits find?",
        "What is assumed, and what is not promised?",
        "What ran?",
        "Was it verified?",
    ]


def test_every_drawing_has_a_text_for_those_who_cannot_see_it(run):
    text = write_report(run).read_text()
    drawings = re.findall(r"<svg[^>]*>", text)
    assert len(drawings) >= 8
    for drawing in drawings:
        assert 'role="img"' in drawing
        assert len(re.search(r'aria-label="([^"]+)"', drawing).group(1)) > 40


def test_curves_and_evaluations_stand_under_their_warning(run):
    path = write_report(run)
    text = path.read_text()
    warning = text.index("Sensitive: keep this part to yourself")
    assert text.index("25.1 [20.1, 30.1]") > warning
    assert text.index("mean loss of a tuple") > warning
    assert text.rindex("<details>", 0, text.index("25.1 [20.1, 30.1]")) > warning
    assert "&lt;b&gt;verbs" in text
    assert is_full(text.encode())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_public_page_has_no_such_part(run):
    text = write_report(run, public=True).read_text()
    assert "Sensitive: keep" not in text
    assert "Did it learn?" not in text
    assert "25.1" not in re.sub(r"<(style|script|svg).*?</\1>", "", text, flags=re.DOTALL)
    assert "verbs" not in text
    assert "Proven" in text
    assert not is_full(text.encode())


def test_the_form_is_written_beside_the_report_for_everybody(run):
    write_report(run)
    form = RunFolder(run).certificate_form
    assert "Privacy certificate" in form.read_text()
    assert stat.S_IMODE(form.stat().st_mode) == 0o644


def test_curves_are_about_the_steps_that_epsilon_counts():
    certificate = certificate_of("public")
    assert curves_of(certificate).num_steps == 100
    plan = sized_plan("public")
    steps = {**certificate.values["steps"], "counted": 60}
    changed = Certificate({**certificate.values, "steps": steps})
    early = changed.with_epsilon(pld=plan.epsilon("pld", 60), rdp=9.0)
    assert curves_of(early).num_steps == 60
    by_result = {**certificate.values, "steps": {**steps, "stop_decided_by": "result"}}
    assert curves_of(Certificate(by_result)).num_steps == 100


@pytest.mark.parametrize("factor", [0.9, 1.01, 3.0])
def test_an_epsilon_that_is_not_that_of_the_steps_has_no_curves(factor, tmp_path):
    """The best run of a search has the epsilon of the search, which curves of one run would understate."""
    certificate = certificate_of("public")
    searched = certificate.with_epsilon(pld=factor * certificate.epsilon, rdp=9.0)
    assert curves_of(searched) is None
    text = report_page(RunFolder(tmp_path), searched, [], public=True)
    assert "not for a search" in text
    assert "<svg" not in text


def test_without_a_proof_there_are_no_curves(tmp_path):
    certificate = certificate_of("public")
    guarantee = {**certificate.values["guarantee"], "status": "claimed"}
    claimed = Certificate({**certificate.values, "guarantee": guarantee})
    text = report_page(RunFolder(tmp_path), claimed, [], public=True)
    parsed(text)
    assert "guarantee warning" in text
    assert "<svg" not in text
    assert "no curves of attacks" in text


def test_tables_have_the_epsilon_of_the_certificate(run):
    text = write_report(run).read_text()
    stated = json.loads((run / "certificate.json").read_text())["guarantee"]["epsilon"]["pld"]
    for name in ("epsilon-by-degree", "epsilon-by-steps", "epsilon-by-delta"):
        assert shown(stated) in [row[1] for row in table(text, name)[1:]]
