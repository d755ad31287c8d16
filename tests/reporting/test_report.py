"""The report is one page that loads nothing, and marks what is sensitive."""

import json
import re
import stat
from html.parser import HTMLParser

import pytest
import torch

from reldp.reporting.publishing import write_report
from reldp.training import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    Trainer(*small_parts(), log_sensitive=True).fit(folder)
    line = {
        "graph": "<b>verbs</b>",
        "candidates": 256,
        "mrr": 0.25,
        "intervals": {"mrr": [0.2, 0.3]},
    }
    (folder / "evaluations.jsonl").write_text(json.dumps(line) + "\n")
    return folder


class Balance(HTMLParser):
    """Counts tags that are opened and not closed."""

    void = ("meta", "line", "polyline")

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        pass


def test_the_page_is_whole_html_that_loads_nothing(run):
    page = write_report(run).read_text()
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert "<script" not in page
    assert not re.search(r"(src|href)\s*=|url\(|@import", page)


def test_curves_and_evaluations_stand_under_their_warning(run):
    path = write_report(run)
    page = path.read_text()
    warning = page.index("Sensitive: keep this part to yourself")
    assert page.index("<svg") > warning
    assert page.index("mrr 25.0 [20.0, 30.0]") > warning
    assert "&lt;b&gt;verbs" in page
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_public_page_has_no_such_part(run):
    page = write_report(run, public=True).read_text()
    assert "Sensitive: keep" not in page
    assert "<svg" not in page
    assert "Proven" in page
