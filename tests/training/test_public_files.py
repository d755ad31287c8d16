"""No public file of a run tells two neighboring graphs apart, beyond its noisy weights.

Two graphs that differ in one entity are trained on with one key and equal bounds. Every file of the
run folder is classified, and what is public must be byte-identical apart from weights, hashes and
dates (`public_files` says what is masked). Controls put leaks of 0.3.0 back and must be caught.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reldp.cli.main import main
from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.graph import EntityGraph, sizes
from reldp.graph.record import GraphRecord
from reldp.graph.size_release import Release
from reldp.noise.streams import KEY_BYTES
from reldp.plan import PrivacyPlan
from reldp.reporting import verify
from reldp.reporting.publishing import write_report
from reldp.runs import key, sensitive_file, session
from reldp.training import Trainer, facts
from tests.encoders.tiny import TEXTS, write_model
from tests.training.public_files import Shown, differences, shown

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")

SIZE = 60
PLAN = {
    "sizes": "declared",
    "min_entities": 50,
    "max_relations": 140,
    "num_negatives": 2,
    "expected_batch_size": 5.0,
    "num_steps": 4,
    "noise_multiplier": 1.5,
    "delta": 1e-3,
}


def make_graph(
    larger: bool,
    *,
    text: bool,
    subset: bool,
    relation: bool,
    owners: bool = False,
    typed: bool = False,
) -> EntityGraph:
    """A ring with a hub; the larger neighbor has one entity more, or only one relation more.

    With owners it has an owner with three entities more; with types, the only relation of its type.
    """
    more = larger and not relation
    count = SIZE + more * (3 if owners else 1)
    relations = [(i, (i + 1) % SIZE) for i in range(SIZE)]
    relations += [(0, i) for i in range(10, 40, 5)]  # six relations more than the others have
    relations += [(SIZE, 4), (SIZE, 8)] * more + [(4, 8)] * (larger and relation)
    # The further entity's features and text are unlike all others: much larger, much longer.
    features = np.random.default_rng(0).normal(size=(SIZE + 3, 6)).astype(np.float32)
    features[SIZE:] = 40.0
    texts = [*(TEXTS[i % 6] for i in range(SIZE)), *[" ".join(TEXTS)] * 3]
    relations += [(SIZE + 1, SIZE + 2), (SIZE + 2, 12)] * (more and owners)
    kinds = ["knows" if max(pair) < SIZE else "rare" for pair in relations]
    ids = [f"id{i}" for i in range(count)]
    graph = EntityGraph.from_lists(
        ids,
        [(ids[a], ids[b]) for a, b in relations],
        owner=[f"o{min(i, SIZE) // 2}" for i in range(count)] if owners else None,
        types=kinds if typed else None,
        features=None if text else features[:count],
        text=texts[:count] if text else None,
        protected=[i % 2 == 0 for i in range(count)] if subset else None,
        record=GraphRecord(
            source="a shop",
            version="3",
            hashes={"till.csv": f"{count:064x}"},
            drops={"self_relations": len(relations)},
            notes=(f"{count} entities and {len(relations)} relations were read.",),
        ),
    )
    return graph.with_types(["knows", "likes", "rare"]) if typed else graph


@dataclass(frozen=True, kw_only=True)
class Case:
    """How two neighbors are trained on."""

    encoder: str = "features"
    cap: int | None = None
    subset: bool = False
    plan: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    stopped: bool = False
    owners: bool = False
    typed: bool = False

    def graph(self, larger: bool) -> EntityGraph:
        return make_graph(
            larger,
            text=self.encoder != "features",
            subset=self.subset,
            relation=self.plan.get("unit") == "relation",
            owners=self.owners,
            typed=self.typed,
        )

    def train(self, folder: Path, model: Path, larger: bool) -> Shown:
        """Trains on one of the neighbors and returns what the folder shows."""
        graph = self.graph(larger)
        capped = (
            graph.promise_degrees(9) if self.cap is None else graph.cap_degrees(self.cap, seed=0)
        )
        plan = PrivacyPlan.for_graph(capped, **PLAN | dict(self.plan))
        settings = {"checkpoint_every": 2, **self.training}
        if self.stopped:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(session.Session, "save", _stop)
                with pytest.raises(KeyboardInterrupt):
                    Trainer(self._encoder(model), capped, plan, **settings).fit(folder)
        Trainer(self._encoder(model), capped, plan, **settings).fit(folder)
        verify(folder)
        write_report(folder, public=True)
        return shown(folder)

    def _encoder(self, model: Path) -> Any:
        if self.encoder == "features":
            return FeatureEncoder(6, hidden=(5,), dim=4)
        if self.encoder == "head":
            return TextEncoder.load(model, train="head", head_dim=4, max_length=16)
        return TextEncoder.load(model, lora_rank=2, max_length=16)


def _stop(self: Any, step: int, data: bytes, **facts: Any) -> None:
    """A checkpoint that is not reached."""
    raise KeyboardInterrupt


OWNED = {"min_entities": 25, "expected_batch_size": 2.0}
CASES = {
    "features": Case(),
    "capped": Case(cap=4),
    "relation": Case(plan={"unit": "relation"}),
    "subset": Case(subset=True),
    "unprotected": Case(
        subset=True, plan={"negatives": "unprotected", "pool_size": 25, "expected_batch_size": 2.0}
    ),
    "pair": Case(plan={"clipping": "pair"}, training={"loss": "logistic"}),
    "average": Case(training={"average": 0.9}),
    "logged": Case(training={"log_sensitive": True}),
    "resumed": Case(stopped=True),
    "owners": Case(owners=True, plan=OWNED),
    "capped owners": Case(owners=True, cap=4, plan=OWNED),
    "types": Case(typed=True),
    "typed loss": Case(typed=True, training={"loss": "distmult"}),
    "owners and types": Case(owners=True, typed=True, plan=OWNED),
    "texts": Case(encoder="lora"),
    "head": Case(encoder="head"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model("bert", tmp_path_factory.mktemp("models") / "bert")


def use_secrets(patch: pytest.MonkeyPatch, number: int) -> None:
    """Makes one key and one salt those of every run from now on."""
    patch.setattr(key, "new_key", lambda: bytes([number]) * KEY_BYTES)
    patch.setattr(sensitive_file.secrets, "token_hex", lambda count: f"{number:02x}" * count)


def compared(case: Case, home: Path, model: Path, patch: pytest.MonkeyPatch) -> list[str]:
    """What tells the two neighbors apart; the third run has other secrets."""
    runs = []
    for name, larger, number in (("a", False, 1), ("b", True, 1), ("c", False, 2)):
        use_secrets(patch, number)
        (home / name).mkdir(parents=True)
        runs.append(case.train(home / name / "run", model, larger))
    return differences(*runs)


@pytest.mark.parametrize("name", CASES)
def test_neighbors_leave_the_same_public_files(name, tmp_path, model, monkeypatch):
    assert compared(CASES[name], tmp_path, model, monkeypatch) == []


def test_neighbors_with_the_same_noisy_sizes_leave_the_same_public_files(
    tmp_path, model, monkeypatch
):
    """Private sizes, drawn alike for both: what follows from the release is all that is shown."""
    drawn = Release(
        entities=60,
        relations=70,
        unprotected=0,
        coarse_rate=1,
        entity_rate=5 * 10**9,
        relation_rate=5 * 10**9,
        failure=1e-4,
        max_degree=9,
    )
    monkeypatch.setattr(sizes, "draw_release", lambda *given: drawn)
    private = {"sizes": "private", "min_entities": None, "max_relations": None}
    case = Case(plan={**private, "expected_batch_size": 3.0})
    assert compared(case, tmp_path, model, monkeypatch) == []
    plan = json.loads((tmp_path / "a" / "run" / "plan.json").read_text())
    assert plan["sizes_epsilon"] > 10
    assert plan["num_entities"] < SIZE


def test_the_weights_do_differ_and_are_all_that_does(tmp_path, model, monkeypatch):
    """Otherwise equal files would mean that the further entity was never looked at."""
    monkeypatch.setattr(key, "new_key", lambda: bytes(KEY_BYTES))
    case = replace(CASES["features"], plan={"num_steps": 12})
    one = case.train(tmp_path / "a" / "run", model, False)
    other = case.train(tmp_path / "b" / "run", model, True)
    place = ("model/model.safetensors", 0)
    assert one.masked[place] != other.masked[place]


def _with(extra: Callable[[Any], dict[str, Any]]) -> Callable[[pytest.MonkeyPatch], None]:
    """A leak: something of the graph in the ledger's start, where the schema lets it pass."""

    def put(patch: pytest.MonkeyPatch) -> None:
        was = facts.TrainingFacts.start

        def start(self: Any, secret: Any) -> dict[str, Any]:
            facts = was(self, secret)
            return {**facts, "encoder": {**facts["encoder"], "more": extra(self.capped)}}

        patch.setattr(facts.TrainingFacts, "start", start)

    return put


LEAKS = {
    "size": _with(lambda capped: {"num_entities": capped.num_entities}),
    "relations": _with(lambda capped: {"num_relations": capped.num_relations}),
    "notes": _with(lambda capped: {"notes": list(capped.graph.record.notes)}),
    "counts": _with(lambda capped: {"capping": capped.report.to_dict()}),
    "plain hash": _with(lambda capped: {"fingerprint": capped.fingerprint}),
    "hash of sizes": _with(
        lambda capped: {"hash": hashlib.sha256(str(capped.num_entities).encode()).hexdigest()}
    ),
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_that_is_put_back_is_caught(name, tmp_path, model, monkeypatch):
    LEAKS[name](monkeypatch)
    found = compared(CASES["features"], tmp_path, model, monkeypatch)
    assert any(line.startswith("ledger.jsonl") for line in found)
    assert any(line.startswith("certificate.json") for line in found)


def test_settings_that_follow_from_exact_sizes_are_caught(tmp_path, model, monkeypatch):
    """0.3.0's default of delta, a tenth of 1/n, tells n by its digits."""

    def plan_of(capped, **settings):
        return made(capped, **settings | {"delta": 0.06 / capped.num_entities})

    made = PrivacyPlan.for_graph
    monkeypatch.setattr(PrivacyPlan, "for_graph", plan_of)
    found = compared(CASES["features"], tmp_path, model, monkeypatch)
    assert any(line.startswith("plan.json") for line in found)


@pytest.mark.parametrize(
    ("name", "text", "mode"),
    [
        ("metrics.jsonl", b"{}", 0o644),
        ("sensitive.json", b"{}", 0o640),
        ("notes.txt", b"took 00:00:17", 0o644),
    ],
)
def test_files_of_the_wrong_mode_and_times_of_day_are_caught(tmp_path, name, text, mode):
    (tmp_path / name).write_bytes(text)
    (tmp_path / name).chmod(mode)
    with pytest.raises(AssertionError, match=name):
        shown(tmp_path)


def test_counts_are_kept_for_the_owner_alone(tmp_path, model):
    CASES["capped"].train(tmp_path / "run", model, True)
    kept = json.loads((tmp_path / "run" / "sensitive.json").read_text())["statistics"]
    assert kept["num_entities"] == SIZE + 1
    assert kept["capping"]["num_over"] == 1
    assert kept["drops"] == {"self_relations": 68}
    assert kept["notes"] == ["61 entities and 68 relations were read."]


def test_the_command_line_decides_what_is_left_out_by_the_bounds(tmp_path, monkeypatch):
    runs = []
    for name, larger, number in (("a", False, 1), ("b", True, 1), ("c", False, 2)):
        use_secrets(monkeypatch, number)
        place = tmp_path / name
        Case().graph(larger).write(place / "graph")
        command = ["train", str(place / "graph"), "-o", str(place / "run")]
        command += ["--max-degree", "4", "--sizes", "declared", "--min-entities", "50"]
        command += ["--max-relations", "140", "--noise-multiplier", "2", "--num-steps", "3"]
        assert main(command) == 0
        assert main(["report", str(place / "run"), "--public"]) == 0
        runs.append(shown(place / "run"))
    assert differences(*runs) == []
    plan = json.loads((tmp_path / "a" / "run" / "plan.json").read_text())
    assert plan["delta"] == 0.1 / 50
