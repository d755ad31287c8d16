"""docs/certificate.md: the sample certificate is what the code computes from the plan and ledger beside it.

``python -m tests.test_sample_certificate`` writes it to the page anew, after a change of wording.
"""

import re
from pathlib import Path

from reldp.plan import PrivacyPlan
from reldp.runs.certificate import Certificate
from reldp.runs.ledger import read_ledger

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "certificate.md").read_text()
SAMPLE = re.compile(r"(?<=^````markdown\n).*?(?=^````$)", flags=re.MULTILINE | re.DOTALL)


def sample_text():
    """The certificate as markdown, from docs/sample."""
    plan = PrivacyPlan.from_json((DOCS / "sample" / "plan.json").read_text())
    return Certificate.from_ledger(
        plan, read_ledger(DOCS / "sample" / "ledger.jsonl")
    ).to_markdown()


def test_the_sample_is_what_the_code_prints():
    assert SAMPLE.findall(PAGE) == [sample_text()]


def test_every_row_of_the_guarantee_is_explained():
    explained = PAGE.partition("### Line by line")[2].partition("\n## ")[0]
    rows = sample_text().partition("## Guarantee")[2].partition("\n## ")[0]
    names = [
        name for name in re.findall(r"^\| (.*?) \|", rows, flags=re.MULTILINE) if name.strip("-| ")
    ]
    assert len(names) >= 10
    for name in names:
        assert f"| {name} |" in explained, name
    for heading in re.findall(r"^## (.+)$", sample_text(), flags=re.MULTILINE):
        assert f"**{heading}**" in explained or heading == "Guarantee", heading


if __name__ == "__main__":
    (DOCS / "certificate.md").write_text(SAMPLE.sub(lambda match: sample_text(), PAGE))
