"""One hash per content, whatever the memory looks like."""

import numpy as np
import pyarrow as pa
import pytest

from reldp.graph import fingerprint as module
from reldp.graph.fingerprint import fingerprint

IDS = [f"e{i}" for i in range(50)]
RELATIONS = np.array([[0, 1], [1, 2]])
PINNED = "91e549a3b6b8a46f3253e50d7bc73b8c38c8f86e918f1204fc237ec7e19476e4"


def table(**changes: object) -> pa.Table:
    columns = {
        "id": pa.array(IDS),
        "text": pa.array([f"text {i} é" for i in range(50)]),
        "features": pa.FixedSizeListArray.from_arrays(
            pa.array(np.arange(100, dtype=np.float32)), 2
        ),
        "protected": pa.array([i % 2 == 0 for i in range(50)]),
        "size": pa.array(list(range(50))),
        "weight": pa.array([i / 7 for i in range(50)]),
        "domain": pa.array(["x", None] * 25),
    }
    return pa.table(columns | changes)


def test_chunks_slices_and_column_order_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fingerprint(table(), RELATIONS)
    chunked = pa.concat_tables([table().slice(0, 7), table().slice(7)])
    assert fingerprint(chunked, RELATIONS) == whole
    doubled = pa.concat_tables([table(), table()]).combine_chunks()
    assert fingerprint(doubled.slice(50), RELATIONS) == whole
    assert fingerprint(table().select(sorted(table().column_names)), RELATIONS) == whole
    monkeypatch.setattr(module, "_SLICE", 8)
    assert fingerprint(table(), RELATIONS) == whole


def test_long_strings_count_like_strings() -> None:
    long = table(id=pa.array(IDS, pa.large_string()))
    assert fingerprint(long, RELATIONS) == fingerprint(table(), RELATIONS)


def test_it_is_pinned() -> None:
    """Certificates quote fingerprints: they must not drift between versions."""
    assert fingerprint(table(), RELATIONS) == PINNED


def changed() -> dict[str, pa.Table]:
    odd = np.arange(100, dtype=np.float32)
    odd[7] = 99
    return {
        "an id": table(id=pa.array(["E0", *IDS[1:]])),
        "ids cut elsewhere": table(id=pa.array(["e0e", "1", *IDS[2:]])),
        "a text": table(text=pa.array([""] * 50)),
        "a feature": table(features=pa.FixedSizeListArray.from_arrays(pa.array(odd), 2)),
        "the shape of features": table()
        .slice(0, 25)
        .set_column(
            2,
            "features",
            pa.FixedSizeListArray.from_arrays(pa.array(np.arange(100, dtype=np.float32)), 4),
        ),
        "whom to protect": table(protected=pa.array([True] * 50)),
        "a null": table(domain=pa.array(["x", ""] * 25)),
        "a name": table().rename_columns(
            ["id", "text", "features", "protected", "size", "weight", "d"]
        ),
        "a column less": table().drop_columns(["domain"]),
        "an entity less": table().slice(0, 49),
        "a type": table(size=pa.array([str(i) for i in range(50)])),
    }


@pytest.mark.parametrize("what", changed())
def test_every_change_of_an_entity_changes_it(what: str) -> None:
    assert fingerprint(changed()[what], RELATIONS) != fingerprint(table(), RELATIONS)


@pytest.mark.parametrize(
    "relations", [[[1, 0], [1, 2]], [[1, 2], [0, 1]], [[0, 1]], [[0, 1], [1, 3]]]
)
def test_every_change_of_a_relation_changes_it(relations: list[list[int]]) -> None:
    assert fingerprint(table(), np.array(relations)) != fingerprint(table(), RELATIONS)
