"""Held-out entities: each id decides for itself, and the training part knows nothing of the others."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from reldp.errors import ConfigError, GraphError
from reldp.graph import EntityGraph
from reldp.graph import holdout as module
from reldp.graph.holdout import Holdout
from reldp.graph.splits import split_entities
from reldp.graph.store import build_store
from reldp.runs.budget import Budget
from reldp.runs.budget_place import find_budget

NUM = 120


def graph(num=NUM, pairs=None, *, without=None, owners=False):
    """A ring with chords, or given relations; optionally without one entity and its relations."""
    ring = [(i, (i + step) % num) for i in range(num) for step in (1, 2, 5)]
    kept = [i for i in range(num) if i != without]
    relations = [pair for pair in (ring if pairs is None else pairs) if without not in pair]
    owner = [f"owner {i // 3}" for i in kept] if owners else None
    ids = [f"e{i}" for i in kept]
    named = [(f"e{a}", f"e{b}") for a, b in relations]
    return EntityGraph.from_lists(ids, named, text=[f"text {i}" for i in kept], owner=owner)


def ids_of(part):
    return set(part.ids.to_pylist())


def relations_of(part):
    names = np.array(part.ids.to_pylist(), dtype=object)
    return {tuple(pair) for pair in names[part.relations].tolist()}


def by_place(whole, share, *, seed=0):
    """A random split of rows: what a split must not be."""
    chosen = np.random.default_rng(seed).permutation(whole.num_entities)
    mask = chosen < share * whole.num_entities
    return whole.select_entities(~mask), whole.select_entities(mask)


def by_id(whole, share, *, seed=0):
    made = Holdout.split(whole, share, seed=seed)
    return made.train, made.test


def leaks(split, pairs, entity, share):
    """Whether the entity changes the side of another one, or what the other ones are trained on."""
    (train, test), (less, rest) = (
        split(graph(pairs=pairs, without=left_out), share) for left_out in (None, entity)
    )
    name = f"e{entity}"
    others = {pair for pair in relations_of(train) if name not in pair}
    moved = ids_of(train) - {name} != ids_of(less) or ids_of(test) - {name} != ids_of(rest)
    if moved or others != relations_of(less):
        return True
    # Without a held-out entity the capped training part is the same to the bit: every draw is.
    is_held_out = name in ids_of(test)
    same = train.cap_degrees(2, 0).fingerprint == less.cap_degrees(2, 0).fingerprint
    return is_held_out and not same


pairs_of_entities = st.lists(
    st.tuples(st.integers(0, NUM - 1), st.integers(0, NUM - 1)).filter(lambda p: p[0] < p[1]),
    min_size=40,
    max_size=200,
    unique=True,
)


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(pairs_of_entities, st.integers(0, NUM - 1), st.sampled_from([0.2, 0.5, 0.8]))
def test_an_entity_changes_its_own_side_and_its_own_relations_only(pairs, entity, share):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MIN_RELATIONS", 0)
        assert not leaks(by_id, pairs, entity, share)


def test_a_split_by_the_place_of_an_entity_would_be_caught():
    """The control: nearly every entity moves others."""
    caught = [leaks(by_place, None, entity, 0.5) for entity in range(0, NUM, 10)]
    assert sum(caught) >= 10, caught
    assert not any(leaks(by_id, None, entity, 0.5) for entity in range(0, NUM, 10))


def test_both_parts_hold_relations_inside_them_and_the_shares_are_about_right():
    whole = graph(2000)
    made = Holdout.split(whole, 0.2)
    assert ids_of(made.train) | ids_of(made.test) == ids_of(whole)
    assert not ids_of(made.train) & ids_of(made.test)
    assert made.test.num_entities == pytest.approx(400, abs=90)  # five standard deviations
    for part in (made.train, made.test):
        inside = {pair for pair in relations_of(whole) if set(pair) <= ids_of(part)}
        assert relations_of(part) == inside
    assert made.facts == {"share": 0.2, "seed": 0}


def test_a_larger_share_holds_out_the_same_entities_and_another_seed_others():
    whole = graph(1000)
    small, large = (ids_of(Holdout.split(whole, share).test) for share in (0.3, 0.5))
    assert small < large
    other = ids_of(Holdout.split(whole, 0.3, seed=1).test)
    assert other - small
    assert small - other


def test_a_part_of_an_earlier_split_with_the_same_seed_is_split_again():
    part = split_entities(graph(2000), {"train": 0.7, "test": 0.3}, 0)["train"]
    assert Holdout.split(part, 0.3).test.num_entities == pytest.approx(420, abs=90)


def test_entities_of_one_owner_are_never_parted():
    made = Holdout.split(graph(600, owners=True), 0.4)
    owners = [set(part.column("owner")) for part in (made.train, made.test)]
    assert not owners[0] & owners[1]


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, True, "0.2", float("nan")])
def test_a_share_is_a_number_between_0_and_1(share):
    with pytest.raises(ConfigError, match="`holdout` must be a number above 0 and below 1, got"):
        Holdout.split(graph(), share)


def test_seeds_and_graphs_that_cannot_be_used_are_refused():
    with pytest.raises(ConfigError, match="`holdout_seed` must be an integer"):
        Holdout.split(graph(), 0.5, seed=-1)
    with pytest.raises(ConfigError, match="at least 20 relations between held-out entities"):
        Holdout.split(graph(), 0.1)
    with pytest.raises(GraphError, match="at least one entity"):
        Holdout.split(graph(3, [(0, 1)]), 1e-9)


def test_a_store_is_split_like_the_graph_and_its_parts_share_its_budget(tmp_path):
    whole = graph()
    whole.write(tmp_path / "graph")
    store = tmp_path / "store"
    build_store(tmp_path / "graph", store)
    Budget.create(store).close()
    made, expected = Holdout.split(EntityGraph.read(store), 0.4), Holdout.split(whole, 0.4)
    for one, other in ((made.train, expected.train), (made.test, expected.test)):
        assert ids_of(one) == ids_of(other)
        assert relations_of(one) == relations_of(other)
        assert find_budget(one.folder).resolve() == store.resolve()
    assert made.folder == store.resolve()


def test_parts_that_a_split_did_not_make_are_refused():
    whole, made = graph(), Holdout.split(graph(), 0.4)
    made.check()
    Holdout(share=0.4, seed=0, train=made.train, test=made.test).check()
    train, test = by_place(whole, 0.4)
    for wrong in (
        Holdout(share=0.4, seed=0, train=train, test=test),
        Holdout(share=0.4, seed=0, train=whole, test=made.test),
        replace(made, test=whole, share=0.1),
        replace(made, seed=1),
    ):
        with pytest.raises(ConfigError, match=r"must be made by Holdout\.split"):
            wrong.check()


def test_a_graph_that_was_capped_is_not_split():
    capped = graph().cap_degrees(3, seed=0).to_graph()
    with pytest.raises(
        ConfigError, match="before its degrees are capped, got one that was capped at 3"
    ):
        Holdout.split(capped, 0.4)


def test_types_must_be_declared():
    pairs = [(i, (i + 1) % NUM) for i in range(NUM)]
    types = ["likes" if i % 2 else "knows" for i in range(NUM)]
    typed = EntityGraph.from_lists(range(NUM), pairs, text=["x"] * NUM, types=types)
    with pytest.raises(ConfigError, match="a declared list of relation types"):
        Holdout.split(typed, 0.5)
    declared = Holdout.split(typed.with_types(["knows", "likes", "owns"]), 0.5)
    assert declared.train.type_names == ("knows", "likes", "owns")


def test_the_training_part_names_the_whole_graph_however_it_is_changed():
    whole = graph()
    train = Holdout.split(whole, 0.4).train
    assert train.whole == whole.fingerprint != train.fingerprint
    assert train.cap_degrees(3, seed=0).graph.whole == whole.fingerprint
    all_entities = np.ones(train.num_entities, dtype=bool)
    assert train.select_entities(all_entities).whole == whole.fingerprint
    assert whole.whole is None
