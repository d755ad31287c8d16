"""The name of a release depends on budget, graph and bounds."""

from reldp.runs.release_name import release_id


def test_names_differ_by_all_that_they_name():
    given = [("0" * 32, "a", 1, 2), ("1" * 32, "a", 1, 2), ("0" * 32, "b", 1, 2)]
    given += [("0" * 32, "a", 2, 2), ("0" * 32, "a", 1, 3)]
    assert len({release_id(*values) for values in given}) == len(given)
    assert release_id(*given[0]) == release_id(*given[0])
