import json

import pyarrow as pa
import pytest

from reldp.cli.prepare_output import check_output, write_prepared
from reldp.errors import GraphError
from reldp.graph.recipes.prepared import PreparedGraph
from reldp.graph.record import GraphRecord

PREPARED = PreparedGraph.from_pairs(
    pa.table({"id": ["a", "b"], "text": ["one", "two"]}),
    [("a", "b")],
    GraphRecord(source="by hand", version="2", license="CC0-1.0", drops={"self_relations": 1_234}, notes=("a note",)),
)  # fmt: skip


def test_the_result_is_a_table_or_one_object(tmp_path, capsys):
    write_prepared(PREPARED, tmp_path / "a graph", show_ids=False, as_json=False)
    printed = capsys.readouterr().out
    for words in (
        "2 entities, 1 relations",
        "by hand, 2",
        "CC0-1.0",
        "1,234 self relations",
        "a note",
    ):
        assert words in printed
    assert printed.endswith(f"Next: reldp inspect '{tmp_path / 'a graph'}'\n")
    write_prepared(PREPARED, tmp_path / "b", show_ids=False, as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert (printed["num_entities"], printed["record"]["drops"]) == (2, {"self_relations": 1234})


def test_a_folder_in_use_is_refused_and_a_new_or_empty_one_is_not(tmp_path):
    check_output(tmp_path / "new")
    check_output(tmp_path)
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(GraphError, match="`output` must be a new or empty folder"):
            check_output(place)
