"""certificate.md: the certificate as a page that a privacy officer can read.

A pure function of the certificate's values, so that `reldp.verify` can recompute and compare it.

Private to the package: `analysis_words`, `certificate_text`, `epsilon_rows`, `given_rows`, `size_rows`, `status_words`,
`table`.

>>> table([("epsilon", "4"), ("delta", "1e-06")])
['| | |', '|---|---|', '| epsilon | 4 |', '| delta | 1e-06 |']
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from reldp.graph.record import PROVENANCE
from reldp.runs.inert_text import inert_text
from reldp.runs.wording import SEARCH_EPSILON, SEARCH_STATUS, shown, summary

__all__ = [
    "analysis_words",
    "certificate_text",
    "epsilon_rows",
    "given_rows",
    "size_rows",
    "status_words",
    "table",
]

_Values = Mapping[str, Any]

_ANALYSES = {
    "anchored": "anchored (the proof of theory.md 3.2)",
    "replacement": "replacement (the proof of theory.md 3.1)",
    "claimed": "claimed (no proof; theory.md 2.1)",
    "best": "the smaller of anchored and replacement at each Renyi order (theory.md 3.5)",
}
# What the values of an audit mean, where their names do not say it.
_AUDIT_ROWS = {
    "bound.delta": "bound.delta (of the comparison, not of the certificate)",
    "bound.audited": "bound.audited (lower bound on epsilon of the steps composed)",
    "bound.claimed": "bound.claimed (epsilon of the accountant for the same steps)",
    "steps composed": "steps composed (in one trial)",
    "plan": "plan (hash)",
}
_AUDIT_KINDS = {
    "mechanism": "mechanism (sampling, clipping and noise, without the gradients of a model)",
    "training step": "training step (all of it, with the settings of the run)",
}


def table(rows: Iterable[tuple[str, object]]) -> list[str]:
    """Return a table of two columns without a header."""
    return ["| | |", "|---|---|", *(f"| {_cell(name)} | {_cell(value)} |" for name, value in rows)]


def certificate_text(values: _Values) -> str:
    """Return the content of certificate.md."""
    parts = [
        ["# Privacy certificate", "", f"**{inert_text(summary(values))}**"],
        ["## Guarantee", "", *table(_guarantee(values))],
        [
            "## Assumptions",
            "",
            *(_points(values["assumptions"]) or ["None: nothing is guaranteed."]),
        ],
        ["## Not guaranteed", "", *_points(values["not_guaranteed"])],
        ["## Plan", "", *table(values["plan"].items())],
        ["## Steps that ran", "", *table(_steps(values))],
        ["## Data", "", *table(_data(values["plan"], values["data"]))],
        ["## Model", "", *table(_flat(values["encoder"])), "", *table(_model(values["model"]))],
        *([["## Loss", "", *table(_flat(values["loss"]))]] if "loss" in values else []),
        ["## Training", "", *table(_flat(values["training"]))],
        ["## Audits", "", *_audits(values["audits"])],
        ["## Versions and hashes", "", *table(_proof(values))],
        [
            "Check this page with `reldp verify RUN`: it recomputes everything from plan.json and "
            "ledger.jsonl and compares it with certificate.json, this page and the model."
        ],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def epsilon_rows(guarantee: _Values, renyi: str = "epsilon (Renyi)") -> list[tuple[str, object]]:
    """Return the epsilons of a guarantee by the names of their methods: a search has one, by its own theorem.

    Args:
        guarantee: The guarantee of a certificate.
        renyi: Name of the epsilon by Renyi divergences.
    """
    epsilon = guarantee["epsilon"]
    if guarantee["status"] == "computed":
        rows = [(SEARCH_EPSILON, shown(epsilon["pld"])), ("method", guarantee["method"])]
    else:
        rows = [
            ("epsilon (privacy-loss distributions)", shown(epsilon["pld"])),
            (renyi, shown(epsilon["rdp"])),
        ]
    return [*rows, *given_rows(guarantee)]


def given_rows(guarantee: _Values) -> list[tuple[str, object]]:
    """Return what epsilon holds given, and the epsilon that holds without this; empty if it holds as it is."""
    if "given" not in guarantee:
        return []
    rows: list[tuple[str, object]] = [("epsilon holds given", guarantee["given"])]
    if "planned_steps" in guarantee["epsilon"]:
        words = "epsilon of all planned steps (not given these bounds, if the target was fixed before their release)"
        rows.append((words, shown(guarantee["epsilon"]["planned_steps"])))
    return rows


def status_words(guarantee: _Values) -> str:
    """Return the status of a guarantee, with what it means for a search."""
    status = str(guarantee["status"])
    return SEARCH_STATUS if status == "computed" else status


def analysis_words(guarantee: _Values) -> str:
    """Return the analysis of a guarantee, and where its proof is."""
    proof = str(guarantee["analysis"])
    return _ANALYSES.get(proof, proof)


def _guarantee(values: _Values) -> list[tuple[str, object]]:
    guarantee = values["guarantee"]
    analysis = [] if guarantee["status"] == "none" else [("analysis", analysis_words(guarantee))]
    return [
        *epsilon_rows(guarantee),
        ("delta", shown(guarantee["delta"])),
        ("status", status_words(guarantee)),
        *analysis,
        ("unit of privacy", guarantee["unit"]),
        ("neighboring graphs", guarantee["adjacency"]),
        ("sizes", guarantee["sizes"]),
        ("clipping", guarantee["clipping"]),
        ("noise", values["noise"]["description"]),
        ("key", f"{values['key']} (secret key of all random draws)"),
    ]


def _steps(values: _Values) -> list[tuple[str, object]]:
    steps = values["steps"]
    return [
        ("date", values["date"]),
        ("steps planned", steps["planned"]),
        ("steps counted", steps["counted"]),
        ("counted steps that were abandoned (run again from an earlier state)", steps["abandoned"]),
        ("times resumed", steps["resumes"]),
        *_early(steps),
        ("empty batches for lack of negatives (theory.md 1)", steps["overflowed_batches"]),
    ]


def _early(steps: _Values) -> list[tuple[str, object]]:
    """Return the rows of a run whose weights are not those after its last planned step."""
    if "chosen_step" in steps:
        chosen = (
            "released weights, chosen on a public graph",
            f"after step {steps['chosen_step']}",
        )
        return [chosen, *_early({n: v for n, v in steps.items() if n != "chosen_step"})]
    if "stopped_at" not in steps:
        return []
    how = steps["stop_decided_by"]
    return [
        ("ended early", f"the model is that before step {steps['stopped_at']}; decided by {how}")
    ]


def _data(plan: _Values, data: _Values) -> list[tuple[str, object]]:
    rows = [
        *size_rows(plan, data),
        ("degree bound", f"{data['max_degree']}, {data['degree_bound']}"),
        ("commitment to the data", data["commitment"]),
    ]
    record = data["record"]
    return rows + [(name, record[name]) for name in PROVENANCE if record.get(name)]


def size_rows(plan: _Values, data: _Values) -> list[tuple[str, object]]:
    """Return the public facts about the graph's sizes: exact numbers only if they are public."""
    entities, relations = f"{plan['num_entities']:,}", f"{plan['num_relations']:,}"
    if plan["sizes"] != "public":
        kind = "noisy bound" if plan["sizes"] == "private" else "declared bound"
        entities, relations = f"at least {entities} ({kind})", f"at most {relations} ({kind})"
        if plan.get("negatives") == "relations":  # their number is the size of the pool too
            relations = f"{plan['pool_size']:,} to {plan['num_relations']:,} ({kind}s)"
    one, several = ("owner", "owners") if plan["unit"] == "owner" else ("entity", "entities")
    split = data.get("holdout")
    share = f"about {100 * split['share']:.3g} % of all {several}" if split else ""
    return [
        (several, entities),
        ("relations used", relations),
        *([("held out of training", f"{share}, seed {split['seed']}")] if split else []),
        ("protected", _protected(plan["unit"], one, several, is_whole=data["all_protected"])),
    ]


def _protected(unit: str, one: str, several: str, *, is_whole: bool) -> str:
    if unit == "relation":
        return "single relations, and not entities"
    return f"every {one}" if is_whole else f"some of the {several}"


def _model(model: _Values) -> list[tuple[str, object]]:
    return [(f"sha256 of {name}", digest) for name, digest in model["files"].items()]


def _audits(audits: list[_Values]) -> list[str]:
    if not audits:
        return ["None yet."]
    lines: list[str] = []
    for audit in audits:
        lines += [*table(map(_audit_row, _flat(audit))), ""]
    return lines[:-1]


def _audit_row(row: tuple[str, object]) -> tuple[str, object]:
    """Return a row of an audit with its meaning."""
    name, value = row
    if name == "kind":
        value = _AUDIT_KINDS.get(str(value), value)
    return _AUDIT_ROWS.get(name, name), value


def _proof(values: _Values) -> list[tuple[str, object]]:
    ledger = values["ledger"]
    return [
        *values["versions"].items(),
        ("plan", values["plan_hash"]),
        ("ledger", f"{ledger['entries']} entries, head {ledger['head']}"),
    ]


def _points(sentences: Iterable[str]) -> list[str]:
    return [f"- {inert_text(sentence)}" for sentence in sentences]


def _flat(values: _Values, before: str = "") -> list[tuple[str, object]]:
    """Return nested values as rows, names joined by dots."""
    rows: list[tuple[str, object]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{before}{name}.")
        else:
            rows.append((before + name, value))
    return rows


def _cell(value: object) -> str:
    """Return a name or a value for a cell of a table: one line, bars escaped."""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    text = "" if value is None else str(value)
    return re.sub(r"\\*\|", r"\\|", inert_text(text))
