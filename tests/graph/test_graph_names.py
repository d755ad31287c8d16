"""The name of a graph's relations is the same in every form that the graph may take, and of no other graph."""

import numpy as np
import pytest

from reldp.graph import EntityGraph
from reldp.graph import graph_names as module
from reldp.graph.graph_names import graph_names, relations_name
from reldp.graph.holdout import Holdout
from reldp.graph.store import build_store

IDS = range(200)
PAIRS = [(i, (i + step) % 200) for i in IDS for step in (1, 5)]
TEXTS = [f"text {i}" for i in IDS]


def graph(ids=IDS, pairs=PAIRS, text=TEXTS, **columns):
    return EntityGraph.from_lists(ids, pairs, text=text, **columns)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    monkeypatch.setattr(module, "_KNOWN", {})


def csv(folder):
    folder.mkdir()
    for name, header, rows in (
        ("entities", "id,text", zip(IDS, TEXTS, strict=True)),
        ("relations", "source,target", PAIRS),
    ):
        lines = [header, *(f"{one},{other}" for one, other in rows)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return EntityGraph.read(folder)


def test_every_form_of_the_same_relations_has_one_name(tmp_path):
    first = graph()
    order = np.random.default_rng(0).permutation(200).tolist()
    forms = [
        graph([str(i) for i in IDS], [(str(a), str(b)) for a, b in PAIRS]),
        graph(pairs=[(b, a) for a, b in PAIRS]),
        graph(pairs=PAIRS[::-1]),
        graph(order, text=[TEXTS[i] for i in order]),
        graph(types=["likes"] * len(PAIRS)),
        graph(protected=[True, False] * 100),
        graph([*IDS, 999], text=[*TEXTS, "alone"]),
        csv(tmp_path / "csv"),
    ]
    assert first not in forms
    assert {relations_name(form) for form in forms} == {relations_name(first)}
    assert relations_name(EntityGraph.from_networkx(first.to_networkx())) == relations_name(first)


def test_a_pair_of_several_types_counts_once(monkeypatch):
    pairs = [*PAIRS, *PAIRS[:7], *((b, a) for a, b in PAIRS[:9])]
    types = [*["likes"] * len(PAIRS), *["knows"] * 7, *["likes"] * 9]
    assert relations_name(graph(pairs=pairs, types=types)) == relations_name(graph())
    module._KNOWN.clear()
    monkeypatch.setattr(module, "_COMPARED", 100)
    assert relations_name(graph(pairs=pairs, types=types)) == relations_name(graph())
    fewer = graph(pairs=pairs[1:-9], types=types[1:-9])  # the first pair is still there
    assert relations_name(fewer) == relations_name(graph())
    assert relations_name(graph(pairs=pairs[8:-9], types=types[8:-9])) != relations_name(graph())


def test_other_relations_and_other_entities_have_other_names():
    features = np.arange(400, dtype=np.float32).reshape(200, 2)
    others = [
        graph(pairs=PAIRS[1:]),
        graph(pairs=[(0, 7), *PAIRS[1:]]),
        graph(text=["x", *TEXTS[1:]]),
        graph([1000, *IDS[1:]], [(1000 * (a == 0) + a, 1000 * (b == 0) + b) for a, b in PAIRS]),
        graph(pairs=[]),
        graph(pairs=[], text=TEXTS[::-1]),
        graph(text=None, features=features),
        graph(text=None, features=features + 1),
    ]
    assert len({relations_name(one) for one in [graph(), *others]}) == len(others) + 1


def test_a_store_has_the_name_of_its_graph_and_keeps_it(tmp_path, monkeypatch):
    first = graph()
    name = relations_name(first)
    first.write(tmp_path / "graph")
    build_store(tmp_path / "graph", tmp_path / "store")
    module._KNOWN.clear()
    assert relations_name(EntityGraph.read(tmp_path / "store")) == name
    module._KNOWN.clear()
    monkeypatch.setattr(module, "_computed", lambda *_: "computed again")
    assert relations_name(EntityGraph.read(tmp_path / "store")) == name


def test_a_part_for_training_has_the_names_of_the_whole_graph():
    whole = graph()
    names = graph_names(Holdout.split(whole, 0.5).train)
    assert (names.exact, names.relations) == (whole.fingerprint, relations_name(whole))
    module._KNOWN.clear()
    assert names.relations is None
    assert graph_names(whole).relations == relations_name(whole)


def test_the_sign_of_a_zero_makes_no_other_graph():
    features = np.arange(400, dtype=np.float32).reshape(200, 2)
    features[3, 1] = 0.0
    signed = features.copy()
    signed[3, 1] = -0.0
    one, other = (relations_name(graph(text=None, features=x)) for x in (features, signed))
    assert one == other
