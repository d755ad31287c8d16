"""Inputs that are nearly right, and what reads them. A case is a function of its random generator alone."""

import bz2
import gzip
import json
from pathlib import Path

from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan
from reldp.runs.budget import NAME, Budget
from reldp.runs.budget_entry import run_token
from reldp.runs.budget_place import find_budget
from reldp.runs.run_folder import RunFolder
from reldp.runs.sensitive_file import SensitiveRecord
from reldp.training.recipe import Recipe

PLAN = PrivacyPlan(
    num_entities=5000, num_relations=8000, max_degree=5, num_negatives=4, expected_batch_size=32.0,
    num_steps=10, noise_multiplier=1.0, delta=1e-6,
)  # fmt: skip
NUMBERS = (
    *(
        "0",
        "-0",
        "-1",
        "1",
        "2",
        "1.5",
        "1e6",
        "1e-6",
        "1e308",
        "1e309",
        "-1e309",
        "1e-308",
        "1e-400",
        "nan",
        "inf",
    ),
    *(
        "-inf",
        "0x10",
        "1_000",
        "1__0",
        "٣",
        "１",
        "1e",
        ".",
        "",
        " 1",
        "1 ",
        "9" * 25,
        "9" * 400,
        "9" * 5000,
        "1e23",
    ),
    *(
        "true",
        "None",
        "1,5",
        "½",
        "\x00",
        "1\n2",
        "--1",
        "1j",
        "0b1",
        "1e-15",
        "0.9999999999999999",
    ),
)
WORDS = (
    "",
    "a",
    "é",
    "\ufeff",
    "\u202e",
    "a" * 300,
    "\x1b[31m",
    "'",
    '"',
    "\\",
    "..",
    "/",
    "~",
    "%s",
    "{0}",
    "NaN",
)
BYTES = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\n",
    b"\r\n",
    b"\t",
    b",",
    b'"',
    b"[" * 40,
    b"{",
    b"9" * 400,
    b"\xc3",
)


def damaged(random, data: bytes) -> bytes:
    """Some bytes with up to four edits: cuts, doublings, bits, and bytes that mean something."""
    for _ in range(random.randint(0, 4)):
        place = random.randrange(len(data) + 1)
        end = min(len(data), place + random.choice((1, 2, 8, 64, 1024)))
        edit = random.randrange(5)
        if edit == 0:
            data = data[:place] + data[end:]
        elif edit == 1:
            data = data[:end] + data[place:]
        elif edit == 2:
            data = data[:place] + random.choice(BYTES) + data[end:]
        elif edit == 3:
            data = data[:place] + random.choice(NUMBERS).encode() + data[place:]
        elif place < len(data):
            data = (
                data[:place] + bytes([data[place] ^ (1 << random.randrange(8))]) + data[place + 1 :]
            )
    return data


def graph(random, home: Path) -> None:
    """A graph folder in any format, damaged, then read with any kinds to drop."""
    kind, end = random.choice(("csv", "tsv", "jsonl")), random.choice(("", ".gz", ".bz2"))
    ids = [random.choice((str(i), random.choice(WORDS))) for i in range(random.randint(1, 5))]
    entities = [{"id": i, "text": random.choice(WORDS)} for i in ids]
    relations = [{"source": random.choice(ids), "target": random.choice(ids)} for _ in ids]
    for name, rows in (("entities", entities), ("relations", relations)):
        if kind == "jsonl":
            data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        else:
            mark = "," if kind == "csv" else "\t"
            lines = [mark.join(rows[0]), *(mark.join(row.values()) for row in rows)]
            data = ("\n".join(lines) + "\n").encode(errors="replace")
        data = damaged(random, data)
        data = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[end](data)
        if random.random() < 0.2:
            data = damaged(random, data)
        (home / f"{name}.{kind}{end}").write_bytes(data)
    if random.random() < 0.2:
        (home / "record.json").write_bytes(damaged(random, b'{"source": "x", "version": "1"}'))
    drop = random.sample(
        ("self_relations", "duplicate_ids", "missing_ids", "malformed_lines"), random.randint(0, 4)
    )
    EntityGraph.read(home, drop=drop).cap_degrees(2, seed=0)


def plan(random, home: Path) -> None:
    """A plan's JSON."""
    PrivacyPlan.from_json(damaged(random, PLAN.to_json().encode()))


def recipe(random, home: Path) -> None:
    """A recipe's TOML, from a file."""
    lines = [line for line in Recipe.template().splitlines() if random.random() < 0.5]
    text = "\n".join(lines).replace("= 5", f"= {random.choice(NUMBERS)}", random.randint(0, 1))
    (home / "recipe.toml").write_bytes(damaged(random, text.encode(errors="replace")))
    Recipe.read(home / "recipe.toml", {})


TOKEN = b'{"token": "' + b"0" * 32 + b'", "budget": "' + b"0" * 32 + b'"}'


def budget(random, home: Path) -> None:
    """A budget, its link, and a run's token."""
    with Budget.create(home) as made:
        made.set_limit(9.0, 1e-6)
        made._file.append(
            {
                "kind": "run",
                "token": "0" * 32,
                "purpose": "train",
                "plan": PLAN.to_dict(),
                "date": "2026-01-01",
            }
        )
    (home / NAME).write_bytes(damaged(random, (home / NAME).read_bytes()))
    if random.random() < 0.3:
        (home / "budget-folder.json").write_bytes(
            damaged(random, b'{"folder": ".", "id": "' + b"0" * 32 + b'"}')
        )
        (home / NAME).rename(home / "elsewhere")
        find_budget(home)
    else:
        Budget.open(home).close()
    (home / "run").mkdir()
    (home / "run" / "budget.json").write_bytes(damaged(random, TOKEN))
    run_token(RunFolder(home / "run"), "0" * 32)


def run_files(random, home: Path) -> None:
    """Metrics and the sensitive record of a run."""
    run = RunFolder(home)
    record = SensitiveRecord(salt="0" * 64, fingerprint="0" * 64, statistics={"num_entities": 3})
    record.write(run.sensitive)
    run.sensitive.write_bytes(damaged(random, run.sensitive.read_bytes()))
    lines = b'{"step": 0, "branch": 0, "learning_rate": 0.1, "weights": ""}\n' * 3
    run.metrics.write_bytes(damaged(random, lines))
    run.read_lines(run.metrics)
    SensitiveRecord.read(run.sensitive)


def numbers(random, home: Path) -> None:
    """Numbers on the command line; returns the exit code, which is never 70."""
    from reldp.cli.main import main

    options = {
        "--num-entities": "1e4", "--num-relations": "2e4", "--max-degree": "5", "--num-negatives": "4",
        "--sample-rate": "1e-3", "--noise-multiplier": "1", "--num-steps": "2", "--delta": "1e-6",
    }  # fmt: skip
    for name in random.sample(list(options), random.randint(1, 3)):
        options[name] = random.choice(NUMBERS)
    words = ["account", *(word for pair in options.items() for word in pair), "--accountant", "rdp"]
    code = main(words)
    if code not in (0, 2):
        raise AssertionError(f"exit code {code} of {words}")


TARGETS = {graph: 6, plan: 6, recipe: 4, budget: 4, run_files: 4, numbers: 1}
"""What is fuzzed, and how often compared with the others."""
