"""How often the audit of the training step refutes each mistake of its gallery, and the right step.

Every audit has a key of its own and runs in one process; audits of different seeds are independent. Results are
written after every audit, so that a stopped measurement goes on where it was:

    python benchmarks/audit_power.py -o benchmarks/results/audit_power.json --seeds 20 --page docs/audit.md

Only the parts of the audit that are meant to see a mistake are run, with the share of the confidence that they have in
the whole audit, and at most the default number of trials: the whole audit refutes at least as often.
"""

import argparse
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.auditing.mistakes.step import MISTAKES, StepMistake

from reldp.auditing.cases import KEY_LABELS

FIRST_SEED = 1000  # those of the tests are others
BEGIN, END = "<!-- begin power -->", "<!-- end power -->"
# Results hold the labels of cases, which never change; the page has their names.
CASES = {label: name for name, label in KEY_LABELS.items()}
NAMES = {
    "a gradient depends on its unit's place": "a gradient depends on its unit's position in the microbatch",
}
NOTE_PHRASES = {"the place mistake": "the mistake that depends on positions"}


def labels_of(mistake: StepMistake) -> list[str]:
    """Return the labels of the cases that see a mistake."""
    return [KEY_LABELS.get(case, case) for case in mistake.cases]


def rows() -> list[tuple[str, StepMistake, bool]]:
    """Every mistake, then the right step in every setting that the mistakes are audited with."""
    named = [(mistake.name, mistake, True) for mistake in MISTAKES]
    seen = set()
    for mistake in MISTAKES:
        setting = mistake.cases, mistake.trials, mistake.addresses
        if setting not in seen:
            seen.add(setting)
            name = f"none: {', '.join(labels_of(mistake))}, {mistake.trials} trials"
            named.append((name, mistake, False))
    return named


def measure(result: dict[str, Any], seeds: int, output: Path | None) -> None:
    """Add the audits that are missing, seed after seed."""
    measured: dict[str, Any] = result.setdefault("rows", {})
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        for name, mistake, wrong in rows():
            row = measured.setdefault(
                name,
                {
                    "parts": labels_of(mistake),
                    "trials": mistake.trials,
                    "wrong": wrong,
                    "refuted": {},
                },
            )
            if str(seed) in row["refuted"]:
                continue
            audit = mistake.audit(seed, wrong=wrong)
            row["refuted"][str(seed)] = audit.refuted
            if output is not None:
                output.write_text(json.dumps(result, indent=2) + "\n")


def markdown(result: dict[str, Any]) -> str:
    """Return the table of docs/audit.md."""
    note = result.get("note", "")
    for old, new in NOTE_PHRASES.items():
        note = note.replace(old, new)
    lines = [
        f"From `{result['command']}` ({result['date']}). {note}".rstrip(),
        "",
        "| mistake in the training step | seen by | trials | refuted |",
        "|---|---|---|---|",
    ]
    for name, row in sorted(result["rows"].items(), key=lambda item: not item[1]["wrong"]):
        refuted = row["refuted"].values()
        share = f"{sum(refuted)} of {len(refuted)}"
        parts = ", ".join(CASES.get(part, part) for part in row["parts"])
        title = NAMES.get(name, name) if row["wrong"] else "none: the correct step"
        lines.append(f"| {title} | {parts} | {row['trials']:,} | {share} |")
    return "\n".join(lines)


def write_page(result: dict[str, Any], page: Path) -> None:
    """Put the table between the page's marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{markdown(result)}\n{END}{after}")


def main() -> None:
    """Measures what is missing and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--page", type=Path, help="Write the table into this page.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    old = arguments.output
    result: dict[str, Any] = json.loads(old.read_text()) if old and old.exists() else {}
    result |= {
        "command": "python benchmarks/audit_power.py " + " ".join(sys.argv[1:]),
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "confidence": 0.99,
    }
    measure(result, arguments.seeds, arguments.output)
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=2) + "\n")
    if arguments.page:
        write_page(result, arguments.page)
    print(markdown(result))


if __name__ == "__main__":
    main()
