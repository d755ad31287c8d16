import os
import stat

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
    monkeypatch.setattr(module, "_ROWS", 7)
    entities_too, relations_too, drops_too = gathered(rows)
    assert entities.equals(entities_too)
    assert relations.equals(relations_too)
    # One by one, in plain Python.
    pairs, expected, seen = set(), dict.fromkeys(drops, 0), set()
    for name, related in rows[:-1]:
        for other in related:
            pair = (min(name, other), max(name, other))
            if other not in names:
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
    assert dict(drops) == dict(drops_too) == expected
    assert min(expected.values()) >= 1
    assert [tuple(row.values()) for row in relations.to_pylist()] == sorted(pairs)
    assert entities["id"].to_pylist() == sorted(seen)
    assert entities["text"].to_pylist() == [f"text of {name}" for name in sorted(seen)]
    graph = EntityGraph.from_arrow(entities, relations)
    assert graph.num_relations == len(pairs)


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
