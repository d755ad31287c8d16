"""Token tables of stores: the tokens of the graph in memory, from files or when they are asked for."""

import json
import shutil

import numpy as np
import pytest

from reldp.encoders import TextEncoder
from reldp.encoders import stored_tokens as module
from reldp.encoders.folders import state_hash
from reldp.encoders.lazy_tokens import LazyTokens
from reldp.encoders.stored_tokens import StoredTokens
from reldp.errors import EncoderError
from reldp.graph import EntityGraph
from reldp.graph.store import build_store
from reldp.reporting import verify
from reldp.training.identity import table_sha256
from tests.encoders.tiny import TEXTS, write_model
from tests.graph.store.rewriting import write_array
from tests.training.interrupted import copied, resumed, stopped
from tests.training.small import small_plan


@pytest.fixture(scope="module")
def graph():
    ring = [(f"e{i}", f"e{(i + 1) % 100}") for i in range(100)]
    texts = [f"{TEXTS[i % 8]} {TEXTS[i % 7]}" for i in range(100)]
    return EntityGraph.from_lists([f"e{i}" for i in range(100)], ring, text=texts)


@pytest.fixture
def store(graph, tmp_path):
    graph.write(tmp_path / "graph")
    return build_store(tmp_path / "graph", tmp_path / "store")


@pytest.fixture
def encoder(tmp_path):
    return TextEncoder.load(write_model("bert", tmp_path / "model"), max_length=12)


@pytest.mark.parametrize("pool", [None, ["a blue cat", "the dog"]])
@pytest.mark.parametrize("how", ["ahead", "on the fly"])
@pytest.mark.parametrize("few", [1 << 20, 0])
def test_rows_are_those_of_the_graph_in_memory(graph, store, encoder, monkeypatch, how, pool, few):
    monkeypatch.setattr(module, "_FEW", few)
    table, expected = encoder.table(store, tokenize=how, pool=pool), encoder.table(graph, pool=pool)
    assert len(table) == len(expected)
    rng = np.random.default_rng(0)
    for _ in range(5):
        rows = rng.integers(0, len(table), 30)
        got, wanted = encoder.rows(table, rows), encoder.rows(expected, rows)
        assert all(bool((got[name] == wanted[name]).all()) for name in wanted)
        units = rows.reshape(6, 5)
        lengths = encoder.token_rows(table).lengths[units]
        assert np.array_equal(lengths, encoder.token_rows(expected).lengths[units])
    with pytest.raises(EncoderError, match="`indices` must lie in"):
        encoder.rows(table, [len(table)])


def test_the_table_is_built_once_and_by_several_processes_alike(store, encoder, monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", 10)
    ticks = []
    one = module.store_tokens(encoder.tokenizer, store, 12, processes=2, report=ticks.append)
    assert isinstance(one, StoredTokens)
    assert ticks[-1].done == 100
    again = []
    module.store_tokens(encoder.tokenizer, store, 12, report=again.append)
    assert again == []
    other = module.store_tokens(encoder.tokenizer, store, 9, processes=1)
    assert other.ids.shape < one.ids.shape
    expected = encoder.table(EntityGraph.from_arrow(*store.to_arrow()))
    assert np.array_equal(one.ids, expected.ids)
    assert np.array_equal(one.offsets, expected.offsets)
    assert len(list((store.folder / "tokens").iterdir())) == 2


def test_the_size_decides_unless_asked(store, encoder, monkeypatch):
    monkeypatch.setattr(module, "_FEW", 50)
    assert isinstance(encoder.table(store), LazyTokens)
    encoder.table(store, tokenize="ahead")
    assert isinstance(encoder.table(store), StoredTokens)
    with pytest.raises(EncoderError, match="`tokenize` must be"):
        encoder.table(store, tokenize="later")


def test_both_ways_are_one_table_to_a_run_and_other_rules_are_another(store, encoder):
    capped = store.cap_degrees(2, 0)
    hashes = {
        table_sha256(encoder.table(capped, tokenize=how), capped) for how in ("ahead", "on the fly")
    }
    assert len(hashes) == 1
    longer = encoder
    longer.max_length = 13
    assert table_sha256(longer.table(capped), capped) not in hashes


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_a_run_on_a_store_resumes_to_the_same_weights(graph, tmp_path, monkeypatch):
    graph.write(tmp_path / "graph")
    store = build_store(tmp_path / "graph", tmp_path / "store")
    folder = write_model("bert", tmp_path / "model")

    def parts():
        capped = EntityGraph.read(tmp_path / "store").cap_degrees(2, 0)
        plan = small_plan(capped, num_steps=8, expected_batch_size=4.0)
        return TextEncoder.load(folder, max_length=12), capped, plan

    run = stopped(monkeypatch, tmp_path / "run", *parts())
    copy = copied(run)
    straight = resumed(run, *parts())
    shutil.rmtree(store.folder / "tokens")
    monkeypatch.setattr(module, "_FEW", 0)  # on the fly from here
    lazy = resumed(copy, *parts())
    assert not (store.folder / "tokens").exists()
    assert state_hash(lazy.encoder.trainable()) == state_hash(straight.encoder.trainable())
    assert lazy.certificate.epsilon == straight.certificate.epsilon > 0
    verify(run)


def changed(place, value):
    def change(array):
        array[place] = value
        return array

    return change


def without_files(folder):
    content = json.loads((folder / "derived.json").read_text())
    (folder / "derived.json").write_text(json.dumps(content | {"files": {}}))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("derived.json", None),
        ("tokens.npy", changed(500, 10**6)),
        ("tokens.npy", changed(500, -7)),
        ("tokens.npy", lambda ids: ids.astype(np.float32)),
        ("tokens.npy", lambda ids: ids.astype(np.int64)),
        ("tokens.npy", lambda ids: ids[:100].reshape(10, 10)),
        ("tokens.npy", lambda ids: np.append(ids, ids[:1])),
        ("tokens.npy", lambda ids: ids[:-1]),
        ("offsets.npy", changed(50, 10**12)),
        ("offsets.npy", changed(50, -(10**12))),
        ("offsets.npy", changed(50, -(2**63))),
        ("offsets.npy", changed(0, 1)),
        ("offsets.npy", lambda offsets: changed(50, offsets[49])(offsets)),
        ("offsets.npy", lambda offsets: changed(slice(50, 52), offsets[49] + 13)(offsets)),
        ("offsets.npy", lambda offsets: offsets[:50]),
        ("offsets.npy", lambda offsets: offsets.astype(np.float64)),
    ],
)
@pytest.mark.parametrize("at_once", [7, 1 << 20])
def test_a_table_that_the_tokenizer_cannot_have_made_is_refused(
    store, encoder, monkeypatch, name, change, at_once
):
    """Its hashes are right: somebody made them."""
    monkeypatch.setattr(module, "_CHECKED", at_once)
    monkeypatch.setattr(module, "_compare", lambda *_: None)
    encoder.table(store)
    encoder.table(EntityGraph.read(store.folder))
    [folder] = (store.folder / "tokens").glob("*")
    if change is None:
        without_files(folder)
    else:
        write_array(folder / name, change(np.load(folder / name)))
    with pytest.raises(
        EncoderError, match=r"^The token table beside the store must hold the tokens"
    ):
        encoder.table(EntityGraph.read(store.folder))


@pytest.mark.parametrize("max_length", [1, 2, 3])
def test_a_maximum_below_the_number_of_special_tokens_is_met(store, encoder, max_length):
    for _ in range(2):
        table = module.store_tokens(encoder.tokenizer, store, max_length, "ahead")
    assert len(table) == store.num_entities
