import os
import stat
import tracemalloc

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.recipes import gathering as module
from reldp.graph.recipes.gathering import Gathering, shortened


def gathered(rows, **settings):
    with Gathering(**settings) as gathering:
        for name, related in rows:
            gathering.add(name, f"text of {name}", related, "d")
        tables = gathering.tables()
    return *tables, gathering.drops


def test_batches_change_nothing_and_everything_left_out_is_counted(monkeypatch):
    generator = np.random.default_rng(0)
    names = [f"n{i:03}" for i in range(100)]
    rows = [(n, [f"n{j:03}" for j in generator.integers(0, 130, 6)]) for n in names]
    rows += [("alone", []), ("n005", ["n006"])]
    entities, relations, drops = gathered(rows)
    for limit, value in (("_ROWS", 7), ("_WAITING_BYTES", 2000)):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, value)
            entities_too, relations_too, drops_too = gathered(rows)
        assert entities.equals(entities_too)
        assert relations.equals(relations_too)
        assert drops == drops_too
    # One by one, in plain Python.
    pairs, expected, seen = set(), dict.fromkeys(drops, 0), set()
    for name, related in rows[:-1]:
        for i, other in enumerate(related):
            pair = (min(name, other), max(name, other))
            if other in related[:i]:
                expected["duplicate_relations"] += 1
            elif other not in names:
                expected["relations_to_absent_ids"] += 1
            elif other == name:
                expected["self_relations"] += 1
            elif pair in pairs:
                expected["duplicate_relations"] += 1
            else:
                pairs.add(pair)
    seen = {end for pair in pairs for end in pair}
    expected["entities_without_relations"] = 101 - len(seen)
    expected["repeated_ids"] = 1
    assert dict(drops) == expected
    assert min(expected.values()) >= 1
    assert [tuple(row.values()) for row in relations.to_pylist()] == sorted(pairs)
    assert entities["id"].to_pylist() == sorted(seen)
    assert entities["text"].to_pylist() == [f"text of {name}" for name in sorted(seen)]
    graph = EntityGraph.from_arrow(entities, relations)
    assert graph.num_relations == len(pairs)


@pytest.mark.parametrize(
    ("text", "num_ids"), [("x", 1000), ("x" * 60_000, 0)], ids=["ids", "texts"]
)
def test_what_waits_is_bounded_in_bytes_whatever_records_hold(monkeypatch, text, num_ids):
    monkeypatch.setattr(module, "_WAITING_BYTES", 2**20)
    tracemalloc.start()
    try:
        with Gathering() as gathering:
            for i in range(200):
                related = [f"{i:03}-{j:05}" for j in range(num_ids)]
                gathering.add(str(i), f"{text}{i}", related)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_repeats_in_a_record_are_counted_and_do_not_wait():
    with Gathering() as gathering:
        gathering.add("a", "text", ["b", "z", "b"] * 1000)
        assert gathering._waiting[2] == [("b", "z")]
        gathering.add("b", "text", [])
        assert gathering.tables()[1].num_rows == 1
    assert gathering.drops == {"duplicate_relations": 2998, "relations_to_absent_ids": 1}


def test_joining_is_reported():
    seen = []
    rows = [("a", ["b"]), ("b", [])]
    gathered(rows, report=seen.append)
    assert [(tick.phase, tick.done, tick.total) for tick in seen][-1] == ("joining records", 2, 2)


def test_the_order_of_records_does_not_matter():
    rows = [("b", ["a", "ü"]), ("a", ["ü"]), ("ü", ["B"]), ("B", [])]
    first, second = gathered(rows), gathered(rows[::-1])
    assert first[0].equals(second[0])
    assert first[1].equals(second[1])
    assert first[0]["id"].to_pylist() == ["B", "a", "b", "ü"]


def test_temporary_files_are_private_and_removed_whatever_happens(tmp_path):
    seen = []

    def interrupted():
        with Gathering(tmp_path) as gathering:
            gathering.add("a", "text", ["b"])
            (folder,) = tmp_path.iterdir()
            seen.append(stat.S_IMODE(os.stat(folder).st_mode))
            seen.append(sorted(path.name for path in folder.iterdir()))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen == [0o700, ["related", "texts"]]
    assert not list(tmp_path.iterdir())


def test_a_source_without_relations_is_refused():
    with pytest.raises(
        GraphError, match="at least one relation between two of its records, got none among 2"
    ):
        gathered([("a", ["x"]), ("b", ["b"])])
    with pytest.raises(GraphError, match="got none among 0"):
        gathered([])


def test_only_the_first_words_are_taken():
    assert shortened("one two  three", 2) == "one two"
    assert shortened("one", 5) == "one"
    assert shortened("one two", 0) == ""
