"""Without the extra text, everything that needs torch says how to install it, in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from reldp._optional import missing_text_package

ROOT = Path(__file__).resolve().parents[1]
BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "peft", "safetensors"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""
CODE = """
import reldp
from reldp.cli.main import main
for name in ("Trainer", "TextEncoder", "FeatureEncoder", "PrivateStep"):
    try:
        getattr(reldp, name)
    except ImportError as error:
        print(error)
for statement in ("from reldp.encoders import Column", "from reldp.gradients import PerUnitGradients",
                  "from reldp.losses import LossBatch", "from reldp.training import Trainer",
                  "from reldp.encoders.embedding_file import write_embeddings"):
    try:
        exec(statement)
    except ImportError as error:
        print(error)
assert reldp.EntityGraph and reldp.PrivacyPlan and reldp.verify and reldp.Certificate
for words in (["train", "wordnet-verbs", "--target-epsilon", "4", "-o", "run"],
              ["evaluate", "model", "--graph", "wordnet-verbs"],
              ["encode", "model", "--graph", "wordnet-verbs", "-o", "x.parquet"], ["demo"],
              ["train", "wordnet-verbs", "--target-epsilon", "4", "--dry-run"],
              ["audit", "--num-entities", "12", "--num-relations", "4", "--max-degree", "1",
               "--num-negatives", "2", "--sample-rate", "0.4", "--noise-multiplier", "1",
               "--num-steps", "1", "--delta", "0.01"],
              ["budget", "search", "wordnet-verbs", "--mean", "3", "-o", "search"]):
    assert main(words) == 2
assert main(["train", "--print-config"]) == 2
assert main(["abandon", "run"]) == 2
assert main(["budget", "init", "nowhere"]) == 2
assert main(["verify", "run"]) == 2
assert main(["inspect", "wordnet-verbs", "--no-plan", "--json"]) == 0
"""


NAMES = """
sys.path.insert(0, sys.argv[1])
from importlib import import_module
from reference_pages import FURTHER, PACKAGES, public_names
from reldp.errors import MissingDependency
modules = ["", *(m for package in PACKAGES for m in (package, *FURTHER.get(package, ())))]
for module in modules:
    for name in public_names(module):
        try:
            getattr(import_module(f"reldp.{module}".rstrip(".")), name)
        except MissingDependency as error:
            print(f"{module}.{name}: {error}")
        except Exception as error:
            sys.exit(f"{module}.{name}: {error!r}")
        else:
            print(f"{module}.{name}: there")
"""
CALLS = """
import reldp, reldp.auditing, reldp.training
from reldp.errors import MissingDependency
plan = reldp.PrivacyPlan(num_entities=12, num_relations=4, max_degree=1, num_negatives=2, sample_rate=0.4,
                         num_steps=1, noise_multiplier=1.0, delta=0.01)
calls = {
    "audit": lambda: reldp.audit(plan),
    "audit_mechanism": lambda: reldp.auditing.audit_mechanism(plan),
    "audit_step": lambda: reldp.auditing.audit_step(plan),
    "audit_step of processes": lambda: reldp.auditing.audit_step(plan, workers=2),
    "TrainingConfig": lambda: reldp.training.TrainingConfig(),
}
for name, call in calls.items():
    try:
        call()
    except MissingDependency as error:
        print(error)
# What needs no torch does without.
assert reldp.auditing.default_workers() > 0
assert reldp.auditing.worst_pair(plan).entity == 11
found = reldp.auditing.search_neighbors(plan.clipping, max_degree=1, num_negatives=2, evaluations=9)
assert not found.refuted
assert plan.epsilon() > 0
"""
RUNS = """
from reldp.cli.main import main
run, unfinished, graph = sys.argv[1:]
for words in (["audit", run], ["audit", run, "--canaries", "9", "--graph", graph],
              ["finish", unfinished, "--decided-by", "time"]):
    assert main(words) == 2
assert main(["verify", run]) == 0
"""
LINE = str(missing_text_package(ModuleNotFoundError("x", name="torch")))


def without_torch(code, folder, *arguments):
    """Run code in a process without the packages of the extra text, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCK + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_every_public_name_is_there_or_says_how_to_install(tmp_path):
    names = dict(
        text.split(": ", 1)
        for text in without_torch(NAMES, tmp_path, ROOT / "scripts").stdout.splitlines()
    )
    assert len(names) > 90
    assert set(names.values()) == {"there", LINE}
    assert names[".Trainer"] == names["losses.InfoNCELoss"] == LINE
    for name in (".PrivacyPlan", ".audit", "auditing.audit_step", "accounting.PLDAccountant"):
        assert names[name] == "there"


def test_what_needs_torch_when_it_is_called_says_how_to_install_it(tmp_path):
    assert without_torch(CALLS, tmp_path).stdout.splitlines() == [LINE] * 5


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A complete run, one that was stopped, and their graph."""
    import numpy as np

    from reldp import EntityGraph, FeatureEncoder, PrivacyPlan, Trainer

    ring = [(i, (i + 1) % 60) for i in range(60)]
    features = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    EntityGraph.from_lists(range(60), ring, features=features).write(tmp_path / "graph")
    capped = EntityGraph.read(tmp_path / "graph").promise_degrees(2)
    steps = {"num_negatives": 2, "expected_batch_size": 8, "num_steps": 2, "noise_multiplier": 1.0}
    plan = PrivacyPlan.for_graph(capped, sizes="public", **steps)
    Trainer(FeatureEncoder(4), capped, plan, progress=False).fit(tmp_path / "run")
    stopped = Trainer(FeatureEncoder(4), capped, plan, progress=False)
    monkeypatch.setattr("reldp.training.loop.TrainingLoop.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(tmp_path / "unfinished")
    return tmp_path / "run", tmp_path / "unfinished", tmp_path / "graph"


def interrupted(loop):
    raise KeyboardInterrupt


def test_commands_on_runs_say_how_to_install(tmp_path, runs):
    assert without_torch(RUNS, tmp_path, *runs).stderr.splitlines() == [f"reldp: {LINE}"] * 3


def test_names_and_commands_say_how_to_install(tmp_path):
    done, line = without_torch(CODE, tmp_path), LINE
    assert line.endswith('Use pip install "reldp[text]", in a clone pip install ".[text]".')
    assert done.stdout.splitlines()[:9] == [line] * 9
    said = done.stderr.splitlines()
    demo = line.replace("[text]", "[demo]")
    expected = (line, line, line, demo, line, line, line, line)
    assert said[:8] == [f"reldp: {text}" for text in expected]
    assert len(said) == 11  # the others do without torch, and have other things to say
    assert not any("torch" in text for text in said[8:])
    assert list(tmp_path.iterdir()) == []


def test_other_missing_modules_are_no_matter_of_this_extra():
    assert missing_text_package(ModuleNotFoundError("x", name="reldp.nothing")) is None
    assert missing_text_package(ImportError("x")) is None
    assert missing_text_package(ValueError()) is None
