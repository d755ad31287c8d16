"""Pages to look at in a browser, made without any training: a full report, a public one, and forms to sign."""

import math
import random
from dataclasses import replace

from reldp._plan_suggestion import Suggestion, suggest_settings
from reldp.evaluation.lines import BEFORE
from reldp.graph import EntityGraph
from reldp.graph.inspection import inspect_graph
from reldp.graph.sizes import SizeBounds
from reldp.reporting.certificate_form import certificate_form
from reldp.reporting.graph_page import graph_page
from reldp.reporting.report import report_page
from reldp.runs.certificate import Certificate
from reldp.runs.run_folder import RunFolder
from tests.reporting.example import START, certificate_of, ledger, sized_plan

CHECKS = tuple(f"check {number} of the files of a run passed" for number in range(9))
AUDITS = [
    {
        "kind": "mechanism",
        "verdict": "Consistent: for one step at delta 0.01 the audit shows epsilon >= 1.31.",
        "refuted": False,
        "steps composed": 1,
        "trials": 100_000,
        "confidence": 0.99,
        "bound": {"delta": 0.01, "audited": 1.31, "claimed": 1.4512},
        "plan": "ab" * 32,
    },
    {"kind": "training step", "verdict": "Consistent.", "refuted": False, "confidence": 0.99},
]
SECRETS = ("secret-graph", "58.37", "61.13", "+2.76", "mean loss of a tuple", "realized batch size")
"""What only the full report may show."""


def write_pages(folder):
    """Write the pages, and return the certificate that they are about."""
    run = RunFolder(folder / "run")
    run.path.mkdir()
    draws = random.Random(0)
    for step in range(100):
        values = {
            "loss": 1.6 * math.exp(-step / 60) + draws.gauss(0, 0.05),
            "median_norm": 2 + draws.gauss(0, 0.1),
            "clipped_share": 0.9 + draws.gauss(0, 0.01),
            "num_tuples": 32 + draws.randint(-9, 9),
        }
        run.append_line(run.metrics, {"step": step, "sensitive": values})
    setting = {"graph": "secret-graph", "candidates": 256, "num_relations": 2048}
    for line in (
        {"encoder": BEFORE, "mrr": 0.5837, "intervals": {"mrr": [0.57, 0.6]}},
        {"mrr": 0.6113, "intervals": {"mrr": [0.6, 0.63]}, "gain": {"mrr": [0.0276, 0.01, 0.04]}},
    ):
        run.append_line(run.evaluations, {**setting, **line})
    values = {**certificate_of("private").values, "audits": AUDITS}
    certificate = Certificate(values)
    for name, public in (("report", False), ("public", True)):
        text = report_page(run, certificate, CHECKS, public=public)
        (folder / f"{name}.html").write_text(text)
    (folder / "form.html").write_text(certificate_form(certificate, CHECKS))
    (folder / "long-form.html").write_text(certificate_form(long_certificate(), CHECKS))
    (folder / "graph.html").write_text(page_of_graph())
    return certificate


def page_of_graph():
    """A page about a graph with a hub, which would be trained on with the plan of the example."""
    pairs = [(i, (i + 1) % 4000) for i in range(4000)] + [(0, i) for i in range(100, 180)]
    texts = [f"text {i // 2}" for i in range(4000)]
    graph = EntityGraph.from_lists(range(4000), pairs, text=texts)
    settings = suggest_settings(5, 8000)
    row = {"target_epsilon": 4.0, "delta": 1e-6, "noise_multiplier": 1.0, "noise_per_batch": 1 / 32}
    row |= {"num_negatives": 4, "expected_batch_size": 32.0, "num_steps": 500, "advice": "Fine."}
    bounds = SizeBounds(
        source="public", min_entities=5000, max_relations=8000, epsilon=0.0, delta=0.0
    )
    plan = replace(sized_plan("public"), num_steps=20)
    suggestion = Suggestion(bounds=bounds, settings=settings, plans=[row], made=[plan])
    return graph_page("a shop", inspect_graph(graph), suggestion)


def long_certificate():
    """A certificate with nearly every assumption that there is."""
    plan = replace(
        sized_plan("private"),
        unit="owner",
        num_relation_types=7,
        negatives="public",
        pool_size=4000,
    )
    record = ledger(
        plan, noise="fast", graph={"relation_types": "from the data", "all_protected": False}
    )
    outside = {
        "encoder": {"kind": "module", "module": "shop.models.WideAndDeepEncoder"},
        "loss": {**START.get("loss", {}), "name": "shop.losses.margin", "included": False},
        "training": {"loop": "own"},
    }
    made = Certificate.from_ledger(plan, record)
    from reldp.runs import wording

    sentences = wording.assumptions(plan, {**record.start, **outside})
    encoder = outside["encoder"]
    return Certificate({**made.values, "assumptions": sentences, "encoder": encoder})
