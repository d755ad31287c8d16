"""Features made from relations are noticed, and features that are an entity's own are not.

False alarms: derived features, permuted over the entities so that they have nothing to do with the
relations any more, raised no sign in 540 draws (six families, six distributions, 60 and 300 entities),
so a draw raises one with a probability below 0.6 % (95 % confidence). The 48 draws here are fixed.
"""

import networkx as nx
import numpy as np
import pytest

from reldp.graph import EntityGraph
from reldp.graph.derivation import find_derived

SIZE = 400


def network(kind, size=SIZE, seed=1):
    """A network with hubs, a random one, a lattice, a regular one or a tree."""
    made = {
        "hubs": lambda: nx.barabasi_albert_graph(size, 2, seed=seed),
        "random": lambda: nx.gnm_random_graph(size, 2 * size, seed=seed),
        "lattice": lambda: nx.watts_strogatz_graph(size, 4, 0.0, seed=seed),
        "regular": lambda: nx.random_regular_graph(4, size, seed=seed),
        "tree": lambda: nx.from_edgelist([(i, (i - 1) // 3) for i in range(1, size)]),
    }
    return nx.convert_node_labels_to_integers(made[kind]())


def graph(net, features):
    return EntityGraph.from_lists(list(range(len(net))), list(net.edges()), features=features)


def normal(size, columns=8, seed=3):
    return np.random.default_rng(seed).normal(size=(size, columns))


def averaged(net, own, with_itself):
    links = nx.to_numpy_array(net)
    total, count = links @ own, links.sum(axis=1)[:, None]
    return (total + own) / (count + 1) if with_itself else total / np.maximum(count, 1)


NETWORKS = ["hubs", "random", "lattice", "regular", "tree"]


@pytest.mark.parametrize("kind", NETWORKS)
def test_own_features_raise_no_sign(kind):
    net = network(kind)
    assert find_derived(graph(net, normal(SIZE))).signs == ()


@pytest.mark.parametrize("with_itself", [True, False])
@pytest.mark.parametrize("kind", NETWORKS)
def test_averages_over_neighbors_are_noticed(kind, with_itself):
    """The original features are gone: only their averages are in the graph."""
    net = network(kind)
    found = find_derived(graph(net, averaged(net, normal(SIZE), with_itself)))
    assert {"spread", "alike"} & set(found.signs)


@pytest.mark.parametrize("kind", ["hubs", "random", "tree"])
def test_sums_over_neighbors_are_noticed(kind):
    net = network(kind)
    found = find_derived(graph(net, nx.to_numpy_array(net) @ normal(SIZE)))
    assert "spread" in found.signs
    assert found.spread_slope > 0.5


@pytest.mark.parametrize("pool", [np.mean, np.sum, np.max, np.min])
@pytest.mark.parametrize("with_itself", [True, False])
@pytest.mark.parametrize("kind", NETWORKS)
def test_columns_pooled_from_others_are_named(kind, with_itself, pool):
    net, own = network(kind), normal(SIZE, 4)
    rows = [[*net.neighbors(i), *([i] if with_itself else [])] for i in range(SIZE)]
    pooled = np.stack([pool(own[row], axis=0) if row else 0 * own[0] for row in rows])
    found = find_derived(graph(net, np.concatenate([own, 3 * pooled - 1], axis=1)))
    assert found.pooled_columns == (5, 6, 7, 8)


@pytest.mark.parametrize(
    "of_degree",
    [
        lambda d: d,
        np.log1p,
        lambda d: -1.0 / (1 + d),
        lambda d: np.argsort(np.argsort(d, kind="stable"), kind="stable"),
        lambda d: d + 0.1 * normal(len(d), 1)[:, 0],
        lambda d: (d == 4).astype(float),
    ],
)
@pytest.mark.parametrize("kind", ["hubs", "random"])
def test_a_column_that_follows_from_the_degree_is_named(kind, of_degree):
    net, own = network(kind), normal(SIZE, 3)
    degree = np.array([net.degree(i) for i in range(SIZE)], dtype=float)
    found = find_derived(graph(net, np.column_stack([own, of_degree(degree)])))
    assert found.degree_columns == (4,)


def test_the_same_relations_and_the_same_features_are_noticed():
    """Leaves of one parent have the same average over neighbors, whatever else is done to it."""
    net = network("tree")
    scrambled = np.sin(9 * averaged(net, normal(SIZE), with_itself=False))
    found = find_derived(graph(net, scrambled))
    assert "twins" in found.signs
    assert found.twin_share > 0.95
    alike = np.tile([[1.0, 2.0]], (SIZE, 1))
    alike[::50] = normal(8, 2)
    assert "twins" not in find_derived(graph(net, alike)).signs  # everybody is alike


@pytest.mark.parametrize("kind", ["lattice", "regular", "tree"])
def test_one_averaged_column_among_forty_own_ones_is_named(kind):
    net, own = network(kind, 600), normal(600, 40)
    own[:, 7] = averaged(net, normal(600, 1, seed=5), with_itself=True)[:, 0]
    found = find_derived(graph(net, own))
    assert found.alike_columns == (8,)


def test_permuted_features_raise_no_sign():
    generator = np.random.default_rng(11)
    for draw in range(48):
        net = network(["hubs", "random", "tree"][draw % 3], [60, 300][draw % 2], seed=draw)
        own = normal(len(net), [1, 16][draw // 2 % 2], seed=draw)
        own = [own, np.exp(2 * own), (own > 1.2).astype(float)][draw // 4 % 3]
        derived = averaged(net, own, with_itself=True)
        degree = [[net.degree(i)] for i in range(len(net))]
        permuted = generator.permutation(np.concatenate([derived, degree], axis=1))
        assert find_derived(graph(net, permuted)).signs == ()


def test_own_texts_as_features_raise_no_sign():
    """Counts of letters in WordNet's own texts: real features of related entities."""
    verbs = EntityGraph.read("wordnet-verbs")
    letters = np.array([[text.count(c) for c in "etaoinshr"] for text in verbs.text()])
    pairs = [tuple(pair) for pair in verbs.relations.tolist()]
    found = find_derived(
        EntityGraph.from_lists(list(range(verbs.num_entities)), pairs, features=letters)
    )
    assert found.signs == ()
    assert found.num_entities == 5000


@pytest.mark.parametrize("size", [1, 2, 49])
def test_too_few_entities_say_nothing(size):
    net = nx.path_graph(size)
    degree = [[net.degree(i)] for i in range(size)]
    found = find_derived(graph(net, np.array(degree, dtype=float)))
    assert found.signs == ()
    assert (found.num_entities, found.num_columns) == (0, 0)


def test_constant_columns_and_no_relations_say_nothing():
    assert find_derived(graph(nx.empty_graph(100), normal(100))).signs == ()
    net = network("hubs")
    found = find_derived(graph(net, np.ones((SIZE, 3))))
    assert (found.signs, found.num_columns) == ((), 0)


def test_more_columns_than_are_looked_at_are_sampled():
    net = network("random")
    found = find_derived(graph(net, averaged(net, normal(SIZE, 300), with_itself=True)))
    assert found.num_columns == 256
    assert "alike" in found.signs
