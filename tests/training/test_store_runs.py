"""Runs on graph stores: what they commit to is what they read, and a store that changed is not theirs."""

import json
import shutil
import stat

import numpy as np
import pytest

from reldp.encoders import TextEncoder, stored_tokens
from reldp.encoders.folders import state_hash
from reldp.errors import EncoderError, GraphError, ResumeError
from reldp.evaluation import evaluate
from reldp.graph import EntityGraph
from reldp.graph.store import build_store
from reldp.graph.store.blocks import hash_blocks
from reldp.training import Trainer
from tests.encoders.tiny import TEXTS, write_model
from tests.training.interrupted import copied, resumed, stopped
from tests.training.small import small_plan

pytestmark = pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")


def ring(count=100, words=""):
    ids = [f"e{i}" for i in range(count)]
    texts = [f"{TEXTS[i % 8]} {TEXTS[i % 7]}{words}" for i in range(count)]
    return EntityGraph.from_lists(ids, zip(ids, ids[1:] + ids[:1], strict=True), text=texts)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A store, a model, and a run with a token table that stopped after six of eight steps."""
    place = tmp_path_factory.mktemp("stores")
    ring().write(place / "graph")
    build_store(place / "graph", place / "store")
    write_model("bert", place / "model")
    with pytest.MonkeyPatch.context() as patch:
        stopped(patch, place / "run", *parts(place))
    return place


def parts(place, store="store"):
    capped = EntityGraph.read(place / store).cap_degrees(2, 0)
    plan = small_plan(capped, num_steps=8, expected_batch_size=4.0)
    return TextEncoder.load(place / "model", max_length=12), capped, plan


@pytest.fixture
def place(home, tmp_path):
    for name in ("graph", "store", "model", "run"):
        shutil.copytree(home / name, tmp_path / name)
    return tmp_path


def table_of(place):
    (folder,) = (place / "store" / "tokens").iterdir()
    return folder


def forge(folder, change, name="tokens.npy"):
    """Change an array and the hash that its manifest has of it."""
    array = np.load(folder / name)
    change(array)
    np.save(folder / name, array)
    manifest = folder / "derived.json"
    content = json.loads(manifest.read_text())
    content["files"][name] = hash_blocks(folder / name).to_json()
    manifest.write_text(json.dumps(content, sort_keys=True))


def start_of(run):
    return json.loads((run / "ledger.jsonl").read_text().splitlines()[0])


def test_the_record_names_the_build_and_the_ledger_commits_to_the_tokens(place):
    store = EntityGraph.read(place / "store")
    statistics = json.loads((place / "run" / "sensitive.json").read_text())["statistics"]
    assert statistics["store_build_hash"] == store.build_hash
    start = start_of(place / "run")
    assert len(start["inputs"]["tokens_commitment"]) == 64
    assert store.build_hash not in (place / "run" / "ledger.jsonl").read_text()
    assert "tokenize" not in start["machine"]
    for path in table_of(place).iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_when_texts_are_tokenized_changes_nothing(place):
    other = copied(place / "run")
    ahead = resumed(place / "run", *parts(place))
    lazy = resumed(other, *parts(place), tokenize="on the fly")
    assert state_hash(ahead.encoder.trainable()) == state_hash(lazy.encoder.trainable())
    entries = [json.loads(line) for line in (other / "ledger.jsonl").read_text().splitlines()]
    assert all("reason" not in entry for entry in entries)  # no new branch


def test_a_token_table_that_was_changed_with_its_hashes_is_another(place, monkeypatch):
    def change(tokens):
        tokens[len(tokens) // 2] += 1

    forge(table_of(place), change)
    monkeypatch.setattr(stored_tokens, "_COMPARED", 0)  # the first and the last text only
    with pytest.raises(ResumeError, match="the token table beside the graph store is another"):
        resumed(place / "run", *parts(place))


def test_a_token_table_of_another_tokenizer_is_refused_before_anything_is_written(place):
    def change(tokens):
        tokens[:] = tokens[::-1].copy()

    forge(table_of(place), change)
    with pytest.raises(EncoderError, match="must hold the tokens of the store's texts, got others"):
        Trainer(*parts(place)).fit(place / "new")
    assert not (place / "new" / "ledger.jsonl").exists()


@pytest.mark.parametrize("name", ["tokens.npy", "offsets.npy"])
def test_a_token_table_with_a_changed_byte_is_refused(place, name):
    path = table_of(place) / name
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    with pytest.raises(GraphError, match=rf"{name} must be as it was built"):
        resumed(place / "run", *parts(place))


def test_a_text_that_was_changed_is_found_when_it_is_read(place):
    path = place / "store" / "entities.arrow"
    data = path.read_bytes()
    path.write_bytes(data.replace(TEXTS[0].encode(), TEXTS[0].upper().encode(), 1))
    with pytest.raises(GraphError, match=r"entities\.arrow must be as it was built"):
        resumed(place / "run", *parts(place), tokenize="on the fly")


@pytest.mark.parametrize("graph", [ring(words=" too"), ring(101)])
def test_a_store_that_was_replaced_before_a_run_resumes_is_another(place, graph):
    graph.write(place / "graph", overwrite=True)
    build_store(place / "graph", place / "store", overwrite=True)
    with pytest.raises(ResumeError, match="the graph is another"):
        resumed(place / "run", *parts(place))


def test_a_manifest_that_keeps_the_old_fingerprint_does_not_hide_other_texts(place):
    ring(words=" too").write(place / "other")
    build_store(place / "other", place / "forged")
    old, new = (json.loads((place / n / "store.json").read_text()) for n in ("store", "forged"))
    new["fingerprint"], new["record"] = old["fingerprint"], old["record"]
    (place / "forged" / "store.json").write_text(json.dumps(new))
    with pytest.raises(GraphError, match="must hold the fingerprint of what the store holds"):
        resumed(place / "run", *parts(place, "forged"))


def test_a_store_that_is_replaced_during_a_run_does_not_change_what_it_reads(place):
    now = parts(place)
    expected = resumed(copied(place / "run"), *now, tokenize="on the fly")
    open_store = parts(place)
    ring(words=" too").write(place / "graph", overwrite=True)
    build_store(place / "graph", place / "store", overwrite=True)
    got = resumed(place / "run", *open_store, tokenize="on the fly")
    assert state_hash(got.encoder.trainable()) == state_hash(expected.encoder.trainable())


def test_evaluation_on_a_store_is_that_on_the_graph(place):
    encoder, capped, _ = parts(place)
    graph = EntityGraph.read(place / "graph")
    settings = {"candidates": 20, "seed": 3}
    got, expected = (evaluate(encoder, it, **settings) for it in (capped.graph, graph))
    assert got.metrics == expected.metrics
    assert evaluate(encoder, graph, candidates=20, seed=4).metrics != expected.metrics
