"""Ranking by type: against a loop over all candidates, and with trained scores."""

import numpy as np
import pytest
import torch

from reldp._validate import TYPED_LOSSES
from reldp.errors import ConfigError, InputError
from reldp.evaluation import evaluate
from reldp.evaluation.typed import TypedNeighbors
from reldp.graph import EntityGraph
from reldp.losses import DistMultLoss, HingeLoss, MatryoshkaLoss, make_loss
from tests.losses.typed_oracle import score

NAMES = ("broader", "narrower", "same")


def typed_graph(seed, entities=25, relations=60, names=NAMES):
    """Random typed relations, some of them in both directions or of several types."""
    generator = np.random.default_rng(seed)
    triples = set()
    while len(triples) < relations:
        source, target = generator.choice(entities, 2, replace=False).tolist()
        triples.add((source, int(generator.integers(len(names))), target))
    triples = sorted(triples)
    graph = EntityGraph.from_lists(
        range(entities),
        [(source, target) for source, _, target in triples],
        types=[names[kind] for _, kind, _ in triples],
        text=["x"] * entities,
    )
    return graph, generator.normal(size=(entities, 6)).astype(np.float32)


def typed_loss(name, seed=1, **settings):
    loss = make_loss(name, type_names=NAMES, dim=6, **settings)
    with torch.no_grad():
        loss.relations.weight.copy_(
            torch.randn(3, 6, generator=torch.Generator().manual_seed(seed))
        )
    return loss


def slow_ranks(graph, vectors, loss, distance, filtered):
    """Reciprocal ranks of both queries of every relation, in plain Python, without ties."""
    if loss.normalize:
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    rows, found = vectors.tolist(), []
    triples = [
        (int(s), int(k), int(t))
        for (s, t), k in zip(graph.relations, graph.relation_types, strict=True)
    ]
    for source, kind, target in triples:
        vector = loss.relations.weight[kind].tolist()

        def scored(s, t, vector=vector):
            return score(loss.name, rows[s], vector, rows[t], distance)

        right = scored(source, target)
        ranks = []
        for given in (0, 1):
            rivals = [e for e in range(len(rows)) if e not in (source, target)]
            if filtered:
                known = [(source, kind, e) if given == 0 else (e, kind, target) for e in rivals]
                rivals = [
                    e for e, triple in zip(rivals, known, strict=True) if triple not in triples
                ]
            pairs = [(source, e) if given == 0 else (e, target) for e in rivals]
            ranks.append(1 + sum(scored(*pair) > right for pair in pairs))
        found.append(np.mean([1 / rank for rank in ranks]))
    return np.array(found)


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize(
    ("name", "distance"),
    [("distmult", None), ("complex", None), ("transe", "l2"), ("transe", "l1")],
)
def test_ranks_by_trained_scores_equal_a_loop_over_all_entities(
    name, distance, similarity, filtered
):
    graph, vectors = typed_graph(2)
    settings = {"distance": distance} if distance else {}
    loss = typed_loss(name, score=similarity, **settings)
    found = evaluate(vectors, graph, "all", loss=loss, filtered=filtered, resamples=10)
    expected = slow_ranks(graph, vectors, loss, distance, filtered)
    assert found["mrr"] == pytest.approx(expected.mean(), abs=1e-9)
    for kind, word in enumerate(NAMES):
        part = expected[graph.relation_types == kind]
        assert found.by_type[word]["mrr"].value == pytest.approx(part.mean(), abs=1e-9)
        assert found.counts[word] == len(part)
    other = evaluate(vectors, graph, "all", loss=typed_loss(name, seed=2), resamples=10)
    assert other["mrr"] != pytest.approx(found["mrr"], abs=1e-6)  # the control: other vectors


def test_micro_and_macro_averages_differ_as_they_should():
    graph, vectors = typed_graph(3)
    result = evaluate(vectors, graph, "all", loss=typed_loss("distmult"), resamples=10)
    kinds = [result.by_type[word]["mrr"].value for word in result.by_type]
    counts = [result.counts[word] for word in result.by_type]
    assert result["mrr"] == pytest.approx(np.average(kinds, weights=counts))
    assert result.macro["mrr"] == pytest.approx(np.mean(kinds))
    assert sum(counts) == result.num_relations
    assert len(set(counts)) > 1
    values = result.to_json()
    assert values["score"] == "distmult"
    assert values["macro"]["mrr"] == result.macro["mrr"]
    assert values["by_type"]["same"]["num_relations"] == result.counts["same"]
    assert len(values["by_type"]["same"]["intervals"]["mrr"]) == 2


@pytest.mark.parametrize("candidates", [8, "all"])
def test_without_a_loss_types_split_the_numbers_and_decide_nothing(candidates):
    graph, vectors = typed_graph(4)
    result = evaluate(vectors, graph, candidates, resamples=10)
    assert set(result.by_type) == set(NAMES)
    assert result.to_json()["score"] == "cosine"
    again = evaluate(vectors, graph.with_types([*NAMES, "zzz"]), candidates, resamples=10)
    assert again.metrics == result.metrics
    assert set(again.by_type) == set(NAMES)  # a type without relations has no numbers


def test_graphs_without_types_have_no_numbers_by_type():
    graph = EntityGraph.from_lists(range(4), [(0, 1), (2, 3)], text=["x"] * 4)
    result = evaluate(np.eye(4), graph, "all", resamples=10)
    assert result.by_type == result.counts == result.macro == {}
    assert "by_type" not in result.to_json()


@pytest.mark.parametrize("filtered", [True, False])
def test_batches_are_ranked_by_trained_scores_too(filtered):
    """A batch of all relations whose targets are all different is a full ranking of the targets."""
    graph, vectors = typed_graph(5)
    loss = typed_loss("complex")
    few = evaluate(vectors, graph, graph.num_relations, loss=loss, filtered=filtered, resamples=10)
    plain = evaluate(vectors, graph, graph.num_relations, filtered=filtered, resamples=10)
    assert few["mrr"] != plain["mrr"]
    assert few.num_relations == graph.num_relations


def test_types_are_found_by_name():
    graph, vectors = typed_graph(6)
    loss = typed_loss("transe")
    expected = evaluate(vectors, graph, "all", loss=loss, resamples=10)
    part = graph.keep_relations(graph.relation_types != 0, record=graph.record)
    fewer = EntityGraph.from_arrow(*part.to_arrow())  # its list of types is shorter
    assert fewer.type_names == NAMES[1:]
    found = evaluate(vectors, fewer, "all", loss=loss, resamples=10)
    for word in NAMES[1:]:
        one, other = found.by_type[word]["mrr"].value, expected.by_type[word]["mrr"].value
        assert one == pytest.approx(other, abs=1e-9)


def test_what_a_loss_does_not_know_is_one_clear_line():
    graph, vectors = typed_graph(7, names=(*NAMES, "unheard"))
    with pytest.raises(
        InputError, match=r"types that the loss was trained with, got 1 unknown type of"
    ) as e:
        evaluate(vectors, graph, "all", loss=typed_loss("distmult"))
    assert "unheard" not in str(e.value)
    assert "\n" not in str(e.value)
    plain = EntityGraph.from_lists(range(4), [(0, 1), (2, 3)], text=["x"] * 4)
    with pytest.raises(
        InputError, match=r"`graph` must have types of relations for the distmult loss"
    ):
        evaluate(np.ones((4, 6)), plain, "all", loss=typed_loss("distmult"))
    with pytest.raises(InputError, match=r"`loss` must be a typed loss, .* got HingeLoss"):
        evaluate(vectors, graph, "all", loss=HingeLoss())
    known, vectors = typed_graph(7)
    with pytest.raises(ConfigError, match="must be the length of the embeddings, 6, got 4"):
        evaluate(vectors, known, "all", loss=DistMultLoss(NAMES, 4))


@pytest.mark.parametrize("name", TYPED_LOSSES)
def test_the_loss_inside_a_matryoshka_loss_ranks(name):
    graph, vectors = typed_graph(8)
    loss = typed_loss(name)
    one = evaluate(vectors, graph, "all", loss=MatryoshkaLoss(loss, [6]), resamples=10)
    assert one.metrics == evaluate(vectors, graph, "all", loss=loss, resamples=10).metrics


def test_known_partners_are_of_one_type_and_direction():
    relations = np.array([[0, 1], [0, 2], [0, 3], [1, 0], [4, 0]])
    known = TypedNeighbors(relations, np.array([0, 0, 1, 0, 1]), 3)
    asked = [(0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (0, 2, 0), (4, 1, 0), (3, 1, 1)]
    rows, partners = known.of(*np.array(asked).T)
    found = {i: sorted(partners[rows == i].tolist()) for i in range(len(asked))}
    assert found == {0: [1, 2], 1: [3], 2: [1], 3: [4], 4: [], 5: [0], 6: [0]}
