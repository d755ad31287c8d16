import numpy as np
import pytest

from reldp.auditing.canaries import insert_canaries
from reldp.errors import InputError
from reldp.graph import EntityGraph

RING = [(i, (i + 1) % 30) for i in range(30)]


def text_graph(**columns):
    return EntityGraph.from_lists(
        list(range(30)), RING, text=[f"entity {i}" for i in range(30)], **columns
    )


def test_the_graph_keeps_its_own_entities_and_relations():
    made = insert_canaries(text_graph(), num_canaries=10, degree=3, seed=0).graph
    assert made.text(np.arange(30)) == text_graph().text()
    np.testing.assert_array_equal(made.relations[:30], text_graph().relations)


def test_a_canary_is_in_with_all_its_relations_or_not_at_all():
    canaries = insert_canaries(text_graph(), num_canaries=40, degree=3, seed=4)
    chosen = int(canaries.included.sum())
    assert 8 < chosen < 32
    assert canaries.graph.num_entities == 30 + 40 * 3 + chosen
    assert canaries.graph.num_relations == 30 + 3 * chosen
    degrees = canaries.graph.degrees[30:]
    assert np.sort(degrees)[::-1].tolist() == [3] * chosen + [1] * 3 * chosen + [0] * 3 * (
        40 - chosen
    )


def test_no_positive_holds_two_canaries_and_partners_are_not_shared():
    canaries = insert_canaries(text_graph(), num_canaries=12, degree=2, seed=1)
    names = {text: i for i, text in enumerate(canaries.scoring.text())}
    texts = canaries.graph.text()
    pairs = [[names.get(texts[end]) for end in pair] for pair in canaries.graph.relations[30:]]
    assert len(pairs) == 2 * canaries.included.sum()
    for canary, partner in pairs:
        assert canaries.included[canary]
        assert (partner - 12) // 2 == canary


def test_features_and_names_work_alike():
    features = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    graph = EntityGraph.from_lists(
        [f"n{i}" for i in range(30)], [(f"n{a}", f"n{b}") for a, b in RING], features=features
    )
    canaries = insert_canaries(graph, num_canaries=6, degree=2, seed=2)
    assert canaries.scoring.features.shape == (18, 5)
    norms = np.linalg.norm(canaries.scoring.features, axis=1)
    np.testing.assert_allclose(norms, np.median(np.linalg.norm(features, axis=1)), rtol=1e-5)


def test_who_is_promised_something_stays_so():
    flags = [i % 2 == 0 for i in range(30)]
    made = insert_canaries(text_graph(protected=flags), num_canaries=5, degree=1, seed=0).graph
    assert made.protected[:30].tolist() == flags
    assert made.protected[30:].all()


def test_no_canaries_are_refused():
    with pytest.raises(
        InputError, match="`num_canaries` must be an integer from 1 to 10000, got 0"
    ):
        insert_canaries(text_graph(), num_canaries=0, degree=1, seed=0)


def test_canaries_of_a_graph_with_owners_and_types_own_themselves():
    owner = [f"o{i // 3}" for i in range(30)]
    kinds = ["likes" if i % 2 else "knows" for i in range(30)]
    graph = text_graph(owner=owner, types=kinds).with_types(["knows", "likes", "pays"])
    made = insert_canaries(graph, num_canaries=8, degree=3, seed=0)
    assert made.graph.owners[:30].tolist() == graph.owners.tolist()
    assert made.graph.num_owners == 10 + made.graph.num_entities - 30
    assert made.graph.type_names == graph.type_names
    assert made.graph.relation_types[:30].tolist() == graph.relation_types.tolist()
    assert set(made.graph.relation_types[30:].tolist()) == {0, 1, 2}
