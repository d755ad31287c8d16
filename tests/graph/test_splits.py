"""Parts without leakage, the same for a seed whatever the order of rows."""

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.holdout import Holdout
from reldp.graph.splits import split_by_column, split_entities, split_relations

SHARES = {"train": 0.7, "valid": 0.1, "test": 0.2}


def graph(num: int = 600, seed: int = 0, shuffle: int | None = None) -> EntityGraph:
    """A random graph with repeated texts and two domains; shuffled, the same in another order."""
    rng = np.random.default_rng(seed)
    pairs = np.unique(np.sort(rng.integers(0, num, (3 * num, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    place = np.arange(num)
    if shuffle is not None:
        order = np.random.default_rng(shuffle)
        place = order.permutation(num)
        pairs = order.permutation(pairs)[:, ::-1]
    entities = pa.table(
        {
            "id": [f"e{i}" for i in place],
            "text": [f"text {i // 2}" for i in place],
            "domain": ["sports" if i % 3 else "cloth" for i in place],
            "protected": [bool(i % 5) for i in place],
        }
    )
    endpoints = {
        name: [f"e{i}" for i in pairs[:, end]] for end, name in enumerate(("source", "target"))
    }
    return EntityGraph.from_arrow(entities, pa.table(endpoints))


def pairs_of(part: EntityGraph) -> set[frozenset[str]]:
    _, endpoints = part.to_arrow()
    columns = (endpoints.column(name).to_pylist() for name in ("source", "target"))
    return {frozenset(pair) for pair in zip(*columns, strict=True)}


def ids_of(part: EntityGraph) -> set[str]:
    return set(part.ids.to_pylist())


def test_relations_are_in_one_part_each_and_entities_in_all() -> None:
    whole = graph()
    parts = split_relations(whole, SHARES, seed=1)
    assert list(parts) == ["train", "valid", "test"]
    assert sum(part.num_relations for part in parts.values()) == whole.num_relations
    assert set.union(*map(pairs_of, parts.values())) == pairs_of(whole)
    for part in parts.values():
        assert part.ids.equals(whole.ids)
    assert parts["test"].record.notes == (
        "Part 'test' of a split by relation (train 0.7, valid 0.1, test 0.2).",
    )


def test_shares_of_relations_are_about_those_asked_for() -> None:
    """Binomial counts within 6 standard deviations: false alarm below 1e-8."""
    whole = graph()
    for name, part in split_relations(whole, SHARES, seed=1).items():
        expected = SHARES[name] * whole.num_relations
        assert abs(part.num_relations - expected) < 6 * np.sqrt(expected * (1 - SHARES[name]))


def test_no_entity_is_in_two_parts_and_cut_relations_are_counted() -> None:
    whole = graph()
    parts = split_entities(whole, SHARES, seed=1)
    assert sum(part.num_entities for part in parts.values()) == whole.num_entities
    assert set.union(*map(ids_of, parts.values())) == ids_of(whole)
    for part in parts.values():
        inside = {pair for pair in pairs_of(whole) if pair <= ids_of(part)}
        cut = {pair for pair in pairs_of(whole) if len(pair & ids_of(part)) == 1}
        assert pairs_of(part) == inside
        assert part.record.drops == {"relations_across_parts": len(cut)}
        kept = [whole.ids.to_pylist().index(name) for name in part.ids.to_pylist()]
        assert part.text() == whole.text(kept)
        assert np.array_equal(part.protected, whole.protected[kept])


def test_shares_of_entities_are_about_those_asked_for() -> None:
    """Binomial counts within 6 standard deviations: false alarm below 1e-8."""
    for name, part in split_entities(graph(), SHARES, seed=1).items():
        expected = SHARES[name] * 600
        assert abs(part.num_entities - expected) < 6 * np.sqrt(expected * (1 - SHARES[name]))


def test_identical_texts_stay_together_on_request() -> None:
    apart = split_entities(graph(), SHARES, seed=1)
    together = split_entities(graph(), SHARES, seed=1, together="text")
    assert set(apart["train"].text()) & set(apart["test"].text())
    assert not set(together["train"].text()) & set(together["test"].text())


def test_splits_do_not_depend_on_the_order_of_rows() -> None:
    for one, other in [
        (
            split_relations(graph(), SHARES, seed=1),
            split_relations(graph(shuffle=3), SHARES, seed=1),
        ),
        (split_entities(graph(), SHARES, seed=1), split_entities(graph(shuffle=3), SHARES, seed=1)),
        (split_by_column(graph(), "domain"), split_by_column(graph(shuffle=3), "domain")),
    ]:
        assert set(one) == set(other)
        for name in one:
            assert pairs_of(one[name]) == pairs_of(other[name])
            assert ids_of(one[name]) == ids_of(other[name])


def test_an_entity_keeps_its_part_when_others_leave() -> None:
    whole = graph()
    rest = whole.select_entities(np.arange(600) % 4 > 0)
    before, after = (split_entities(g, SHARES, seed=1)["test"] for g in (whole, rest))
    assert ids_of(after) == ids_of(before) & ids_of(rest)


def test_seeds_give_different_parts() -> None:
    one, other = (split_relations(graph(), SHARES, seed=s)["test"] for s in (1, b"1"))
    assert pairs_of(one) != pairs_of(other)


def test_each_value_of_a_column_is_a_part() -> None:
    parts = split_by_column(graph(), "domain")
    assert {name: set(part.column("domain")) for name, part in parts.items()} == {
        "cloth": {"cloth"},
        "sports": {"sports"},
    }
    assert parts["cloth"].record.drops["relations_across_parts"] > 0


def test_values_can_be_grouped_and_others_left_out() -> None:
    table = pa.table({"id": [1, 2, 3, 4], "text": list("wxyz"), "year": [1999, 2000, 2001, 2002]})
    whole = EntityGraph.from_arrow(table, pa.table({"source": [1, 1], "target": [2, 3]}))
    parts = split_by_column(whole, "year", {"old": [1999, 2000], "new": [2002]})
    assert {name: part.ids.to_pylist() for name, part in parts.items()} == {
        "old": [1, 2],
        "new": [4],
    }
    assert parts["old"].record.drops == {"relations_across_parts": 1, "entities_of_no_part": 1}
    assert parts["old"].relations.tolist() == [[0, 1]]


@pytest.mark.parametrize("shares", [{}, {"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": 1.0, "b": 0.0}])
def test_shares_are_positive_and_sum_to_one(shares: dict[str, float]) -> None:
    for split in (split_relations, split_entities):
        with pytest.raises(GraphError, match="`shares` must be positive and sum to 1"):
            split(graph(20), shares, seed=1)


def test_a_part_without_entities_is_refused() -> None:
    with pytest.raises(GraphError, match="Part 'few' must get at least one entity"):
        split_entities(graph(20), {"many": 1 - 1e-6, "few": 1e-6}, seed=1)


@pytest.mark.parametrize("together", ["features", "protected", "size"])
def test_what_stays_together_is_a_column(together: str) -> None:
    with pytest.raises(GraphError, match="`together` must be a column"):
        split_entities(graph(20), SHARES, seed=1, together=together)


def test_columns_and_their_values_are_checked() -> None:
    whole = graph(20)
    with pytest.raises(
        GraphError, match=r"`column` must be one of the graph's columns, .*got 'size'"
    ):
        split_by_column(whole, "size")
    with pytest.raises(
        GraphError, match="`parts` must name values of the column, got 1 others in 'train'"
    ):
        split_by_column(whole, "domain", {"train": ["shoes"]})
    with pytest.raises(GraphError, match="`parts` must not share a value, got 1 that occur twice"):
        split_by_column(whole, "domain", {"train": ["cloth"], "test": ["cloth"]})
    table = pa.table({"id": [1, 2], "text": ["x", "y"], "domain": ["a", None]})
    holes = EntityGraph.from_arrow(table, pa.table({"source": [1], "target": [2]}))
    with pytest.raises(
        GraphError, match="`column` must have a value for every entity, got 1 without"
    ):
        split_by_column(holes, "domain")


def test_relations_between_two_entities_never_part_whatever_their_types() -> None:
    """An inverse or parallel relation in the test part would give the other one away."""
    pairs = [(i, (i + 1) % 80) for i in range(80)]
    graph = EntityGraph.from_lists(
        range(80),
        [*pairs, *((b, a) for a, b in pairs), *pairs],
        types=["likes"] * 160 + ["knows"] * 80,
        text=["x"] * 80,
    )
    parts = split_relations(graph, {"train": 0.6, "test": 0.4}, seed=1)
    seen = [{frozenset(pair) for pair in part.relations.tolist()} for part in parts.values()]
    assert all(seen)
    assert not seen[0] & seen[1]
    for part in parts.values():
        assert part.type_names == ("knows", "likes")
        assert part.num_relations == 3 * len({frozenset(p) for p in part.relations.tolist()})
    plain = EntityGraph.from_lists(range(80), pairs, text=["x"] * 80)
    alone = split_relations(plain, {"train": 0.6, "test": 0.4}, seed=1)["train"]
    assert {frozenset(pair) for pair in alone.relations.tolist()} == seen[0]


def test_parts_by_entity_keep_types() -> None:
    graph = EntityGraph.from_lists(
        range(4), [(0, 1), (2, 3), (3, 2)], types=["a", "b", "a"], text=["x"] * 4
    )
    chosen = graph.select_entities(np.array([False, True, True, True]))
    assert chosen.relations.tolist() == [[1, 2], [2, 1]]
    assert chosen.relation_types.tolist() == [1, 0]
    assert chosen.type_names == ("a", "b")


def test_a_capped_graph_and_shares_without_names_are_refused() -> None:
    capped = graph().cap_degrees(3, seed=0)
    for split in (
        lambda: split_entities(capped, SHARES, seed=0),
        lambda: split_relations(capped, SHARES, seed=0),
        lambda: split_by_column(capped, "domain"),
        lambda: Holdout.split(capped, 0.2),
    ):
        with pytest.raises(GraphError, match=r"got a CappedGraph\. Split a graph before"):
            split()
    for split_of in (split_entities, split_relations):
        with pytest.raises(GraphError, match="by the name of each part, got a list"):
            split_of(graph(), [0.8, 0.2], seed=0)  # type: ignore[arg-type]
