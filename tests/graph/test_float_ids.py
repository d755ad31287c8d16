"""Ids that became floats in one of two files are told apart from ids that are missing."""

import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.float_ids import are_float_ids
from reldp.graph.store import build_store

NAMES = pa.array(["1", "2", "x"])


@pytest.mark.parametrize(
    ("unknown", "names", "said"),
    [
        (["1.0", "9.0"], NAMES, True),
        (["1.00"], NAMES, True),
        (["9.0"], NAMES, False),
        (["1.0", "y"], NAMES, False),
        (["1"], pa.array(["1.0", "2.0"]), True),
        ([1, 2], pa.array(["1.0", "2.0"]), True),
        (["1.5"], NAMES, False),
        ([], NAMES, False),
        ([None], NAMES, False),
        (["1.0"], None, True),
        (["1"], None, False),
    ],
)
def test_the_other_form_of_an_id_decides(unknown, names, said):
    assert are_float_ids(pa.array(unknown), names) is said


def write(folder, ids, pairs):
    folder.mkdir()
    lines = ["id,text", *(f"{i},text {i}" for i in ids)]
    (folder / "entities.csv").write_text("\n".join(lines) + "\n")
    lines = ["source,target", *(f"{a},{b}" for a, b in pairs)]
    (folder / "relations.csv").write_text("\n".join(lines) + "\n")


def test_the_message_says_what_happened_to_the_ids(tmp_path):
    write(tmp_path / "relations", [1, 2, 3], [("1.0", "2.0"), ("2.0", "3.0")])
    write(tmp_path / "entities", ["1.0", "2.0", "3.0"], [(1, 2), (2, 3)])
    write(tmp_path / "missing", [1, 2, 3], [(1, 2), (2, 4)])
    for name in ("relations", "entities"):
        with pytest.raises(
            GraphError, match=r"one has them as 1\.0 and the other as 1.*unknown_ids"
        ):
            EntityGraph.read(tmp_path / name)
    with pytest.raises(GraphError, match=r"one has them as 1\.0 and the other as 1"):
        build_store(tmp_path / "relations", tmp_path / "store")
    with pytest.raises(GraphError, match="Add these entities, or drop"):
        EntityGraph.read(tmp_path / "missing")
    with pytest.raises(GraphError, match="turned integers into floats, as pandas does"):
        EntityGraph.from_arrow(
            {"id": [1.0, 2.0], "text": ["a", "b"]}, {"source": [1], "target": [2]}
        )
