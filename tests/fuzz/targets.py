"""Damaged input and what reads it, as functions of a random generator and an empty folder.

What is not refused by a `ReldpError` of one line, and is no result either, is a failure. `tests.fuzz.commands` has
the targets that go by way of the command line.
"""

import json
import shutil
from pathlib import Path

import numpy as np

from reldp.graph import EntityGraph
from reldp.graph.sources import DROPPABLE
from reldp.plan import PrivacyPlan
from reldp.runs.budget import NAME, Budget
from reldp.runs.budget_entry import run_token
from reldp.runs.budget_place import find_budget
from reldp.runs.run_folder import RunFolder
from reldp.runs.sensitive_file import SensitiveRecord
from reldp.training.recipe import Recipe
from tests.fuzz import templates
from tests.fuzz.damage import (
    COMPRESSIONS,
    NUMBERS,
    WORDS,
    damage_file,
    damaged,
    damaged_value,
    gentler,
    is_undamaged,
)

PLAN = PrivacyPlan(
    num_entities=5000, num_relations=8000, max_degree=5, num_negatives=4, expected_batch_size=32.0,
    num_steps=10, noise_multiplier=1.0, delta=1e-6,
)  # fmt: skip


def write_graph(random, home: Path) -> None:
    """A graph folder in any format of text, damaged."""
    kind, end = random.choice(("csv", "tsv", "jsonl")), random.choice(("", *COMPRESSIONS))
    entities, relations = _rows(gentler(random, 0.5))
    for name, rows in (("entities", entities), ("relations", relations)):
        random = gentler(random, 0.2)
        if kind == "jsonl":
            rows = [damaged_value(random, row) if random.random() < 0.1 else row for row in rows]
            data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        else:
            mark = "," if kind == "csv" else "\t"
            lines = [mark.join(rows[0]), *(mark.join(row.values()) for row in rows)]
            data = ("\n".join(lines) + "\n").encode(errors="replace")
        data = damaged(random, data) if random.random() < 0.7 else data
        data = COMPRESSIONS[end](data)
        if random.random() < 0.2:
            data = damaged(random, data)
        (home / f"{name}.{kind}{end}").write_bytes(data)
    if random.random() < 0.2:
        (home / "record.json").write_bytes(damaged(random, b'{"source": "x", "version": "1"}'))


def _rows(random):
    """Entities and relations with odd words, or a ring."""
    count = random.randint(3, 6)
    if is_undamaged(random):
        entities = [{"id": f"e{i}", "text": f"text {i}"} for i in range(count)]
        return entities, [
            {"source": f"e{i}", "target": f"e{(i + 1) % count}"} for i in range(count)
        ]
    ids = [random.choice((str(i), random.choice(WORDS))) for i in range(count)]
    entities = [{"id": i, "text": random.choice(WORDS)} for i in ids]
    return entities, [{"source": random.choice(ids), "target": random.choice(ids)} for _ in ids]


def _drop(random) -> list[str]:
    return random.sample(sorted(DROPPABLE), random.randint(0, len(DROPPABLE)))


def graph(random, home: Path) -> None:
    """A graph folder of text files, read with any kinds to drop."""
    write_graph(random, home)
    EntityGraph.read(home, drop=_drop(random)).cap_degrees(2, seed=0)


def columns(random, home: Path) -> None:
    """A graph folder of Parquet or Arrow files."""
    place = home / "graph"
    shutil.copytree(templates.PLACE / random.choice(("parquet", "arrow")), place)
    damage_file(random, random.choice([p for p in place.iterdir() if p.is_file()]))
    capped = EntityGraph.read(place, drop=_drop(random)).cap_degrees(2, seed=0)
    _ = capped.fingerprint


def store(random, home: Path) -> None:
    """A graph store: its manifest, its arrays and its columns."""
    place = home / "store"
    shutil.copytree(templates.PLACE / "store", place)
    damage_file(random, random.choice([p for p in place.rglob("*") if p.is_file()]))
    capped = EntityGraph.read(place).cap_degrees(2, seed=0)
    _ = capped.fingerprint


def lists(random, home: Path) -> None:
    """Lists in memory whose ids and lengths need not match."""
    values = (
        0,
        1,
        2,
        "0",
        "1",
        "",
        1.0,
        1.5,
        None,
        True,
        float("nan"),
        10**30,
        -1,
        b"1",
        (1,),
        np.int64(1),
    )
    ids = [random.choice(values) for _ in range(random.randint(0, 4))]
    pairs = [
        tuple(random.choice(values) for _ in range(random.choice((2, 2, 2, 2, 1, 3))))
        for _ in range(random.randint(0, 4))
    ]
    if is_undamaged(gentler(random, 0.4)):
        ids, pairs = ["a", "b", "c"], [("a", "b"), ("b", "c")]
    rows = random.choice((len(ids), len(ids), len(ids) + 1))
    settings = {
        "text": [random.choice((*WORDS, None, 3)) for _ in range(rows)],
        "features": np.ones((rows, 2)) * random.choice((1, float("nan"), 1e300)),
        "protected": [random.choice((True, False, 1, None, "a")) for _ in range(rows)],
        "types": [random.choice(("a", "b", "", None, 3)) for _ in pairs],
        "owner": [random.choice(("a", "b", 0, None)) for _ in range(rows)],
    }
    chosen = random.sample(sorted(settings), random.randint(0, 3))
    if is_undamaged(gentler(random, 0.6)):
        settings |= {"text": ["x"] * len(ids)}
        chosen = ["text", *(name for name in chosen if name != "text" and random.random() < 0.3)]
    if is_undamaged(random):
        chosen = ["text"]
    EntityGraph.from_lists(ids, pairs, **{name: settings[name] for name in chosen})


def plan(random, home: Path) -> None:
    """A plan's JSON."""
    if random.random() < 0.5:
        text = json.dumps(damaged_value(random, json.loads(PLAN.to_json()))).encode()
    else:
        text = damaged(random, PLAN.to_json().encode())
    PrivacyPlan.from_json(text)


def recipe(random, home: Path) -> None:
    """A recipe's TOML, from a file."""
    share = 1.0 if is_undamaged(gentler(random, 0.4)) else 0.5
    lines = [line for line in Recipe.template().splitlines() if random.random() < share]
    if is_undamaged(random):
        (home / "recipe.toml").write_text("\n".join(lines))
        Recipe.read(home / "recipe.toml", {})
        return
    text = "\n".join(lines).replace("= 5", f"= {random.choice(NUMBERS)}", random.randint(0, 1))
    text = text.replace("# ", "", random.randint(0, 9)) if random.random() < 0.5 else text
    (home / "recipe.toml").write_bytes(damaged(random, text.encode(errors="replace")))
    Recipe.read(home / "recipe.toml", {})


def budget(random, home: Path) -> None:
    """A budget, its link, and a run's token."""
    shared, graph, run = home / "shared", home / "graph", RunFolder(home / "run")
    with Budget.create(shared) as made:
        made.set_limit(9.0, 1e-6)
        entry = {"kind": "run", "token": "0" * 32, "purpose": "train", "plan": PLAN.to_dict()}
        entry |= {"date": "2026-01-01"}
        made._file.append(damaged_value(gentler(random, 0.7), entry))
    link = json.dumps({"folder": "../shared", "id": made.id}).encode()
    token = json.dumps({"token": "0" * 32, "budget": made.id}).encode()
    for path, data in (
        (shared / NAME, (shared / NAME).read_bytes()),
        (graph / "budget-folder.json", link),
        (run.path / "budget.json", token),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(damaged(gentler(random, 0.5), data))
    Budget.open(find_budget(graph)).close()
    run_token(run, made.id)


def run_files(random, home: Path) -> None:
    """Metrics and the sensitive record of a run."""
    run = RunFolder(home)
    record = SensitiveRecord(salt="0" * 64, fingerprint="0" * 64, statistics={"num_entities": 3})
    record.write(run.sensitive)
    run.sensitive.write_bytes(damaged(gentler(random, 0.3), run.sensitive.read_bytes()))
    lines = b'{"step": 0, "branch": 0, "learning_rate": 0.1, "weights": ""}\n' * 3
    run.metrics.write_bytes(damaged(random, lines))
    run.read_lines(run.metrics)
    SensitiveRecord.read(run.sensitive)
