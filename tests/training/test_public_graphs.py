"""What looks like private data is refused as a public pool of negatives."""

import itertools

import numpy as np
import pytest

from reldp.errors import ConfigError
from reldp.graph import EntityGraph
from reldp.runs.budget import Budget
from reldp.training import PrivateStep, Trainer
from reldp.training.public_graphs import refuse_private_pool, share_entities, share_ids
from tests.training.small import small_encoder, small_graph, small_plan

GRAPH = small_graph()
CAPPED = GRAPH.promise_degrees(4)


def part_of(graph, rows, *, features=None, ids=None, protected=None):
    """A ring of some entities of a graph."""
    ids = list(rows) if ids is None else ids
    return EntityGraph.from_lists(
        ids,
        list(itertools.pairwise(ids)),
        features=graph.features[list(rows)] if features is None else features,
        protected=protected,
    )


def texts(*pairs, protected=None):
    ids = [name for name, _ in pairs]
    return EntityGraph.from_lists(
        ids, [tuple(ids[:2])], text=[text for _, text in pairs], protected=protected
    )


def test_entities_are_shared_if_id_and_content_are_equal():
    few = [5, 9, 200]
    assert share_entities(part_of(GRAPH, few), GRAPH)
    others = part_of(GRAPH, few, features=np.zeros((3, 6), np.float32))
    assert share_ids(others, GRAPH)
    assert not share_entities(others, GRAPH)
    assert not share_entities(part_of(GRAPH, few, ids=[1000, 1001, 1002]), GRAPH)
    one = others.features.copy()
    one[1] = GRAPH.features[9]
    assert share_entities(part_of(GRAPH, few, features=one), GRAPH)


def test_texts_are_compared_where_both_have_them():
    private = texts(("a", "tent"), ("b", "mat"), ("c", "stove"), protected=[True, False, True])
    assert share_entities(texts(("x", "1"), ("c", "stove")), private)
    assert not share_entities(texts(("b", "mat"), ("x", "1")), private)  # it is not protected
    assert not share_entities(texts(("c", "tent"), ("x", "1")), private)
    numbers = texts((1, "tent"), (2, "mat"))
    assert share_entities(texts(("1", "tent"), ("3", "x")), numbers)  # a file holds text


@pytest.mark.parametrize("make", [Trainer, PrivateStep])
def test_the_training_graph_is_no_public_pool(make):
    plan = small_plan(CAPPED, negatives="public", pool_size=300)
    for pool, words in (
        (GRAPH, "got the training graph"),
        (part_of(GRAPH, range(299, -1, -1)), "got protected entities of the training graph"),
    ):
        with pytest.raises(ConfigError, match=words):
            make(small_encoder(), CAPPED, plan, pool=pool)
    declared = part_of(GRAPH, range(299, -1, -1))
    made = make(small_encoder(), CAPPED, plan, pool=declared, pool_shares_entities=True)
    made.close() if make is PrivateStep else None
    with pytest.raises(ConfigError, match="got the training graph"):
        make(small_encoder(), CAPPED, plan, pool=GRAPH, pool_shares_entities=True)


def test_a_graph_with_a_budget_is_private(tmp_path):
    small_graph(seed=3).write(tmp_path / "pool")
    pool = EntityGraph.read(tmp_path / "pool")
    refuse_private_pool(pool, CAPPED)
    Budget.create(tmp_path / "pool").close()
    with pytest.raises(ConfigError, match=r"got one with a budget\. Negatives from private"):
        refuse_private_pool(pool, CAPPED, shares_entities=True)


def test_rows_without_ids_are_private_if_all_of_them_are():
    features = np.asarray(GRAPH.features)
    words = "got protected entities of the training graph in it"
    with pytest.raises(ConfigError, match=words):
        refuse_private_pool(features[::-3], CAPPED)
    refuse_private_pool(features[::-3], CAPPED, shares_entities=True)
    refuse_private_pool(np.vstack([features, features[:1] + 1]), CAPPED)
    refuse_private_pool(features[:, :2], CAPPED)
    private = texts(("a", "tent"), ("b", "mat"), protected=[True, False]).cap_degrees(1, seed=0)
    with pytest.raises(ConfigError, match=words):
        refuse_private_pool(["tent"], private)
    for pool in (["mat"], ["tent", "stove"], [], None, features):
        refuse_private_pool(pool, private)
