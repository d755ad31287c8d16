"""No id, text, feature value or raw line reaches an error, a terminal or a repr unasked."""

import importlib
import json
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reldp.cli.main import main
from reldp.encoders.features import FeatureEncoder, FeatureTable
from reldp.encoders.tokens import TokenTable
from reldp.errors import InputError
from reldp.graph import EntityGraph
from reldp.graph.disclosure import column_words, columns_words, guarded, reason_words, type_words
from reldp.graph.recipes.pairs import pairs
from reldp.graph.splits import split_by_column
from reldp.graph.validation import checked_entities
from reldp.integrations.networkx import from_networkx
from reldp.integrations.pandas import from_pandas
from reldp.integrations.pyg import from_pyg
from reldp.integrations.scipy import from_scipy
from tests.graph.folders import ENTITIES, RELATIONS, arrow, folder_of, parquet

CANARY = "bob@example.com"
NUMBER = "77310442"  # an id, a feature value or a row that is a number

# Each: the files of a folder in which something is wrong, the canary near it.
FILES: dict[str, dict[str, str | bytes]] = {
    "a repeated id": {"entities_csv": ENTITIES + f"{CANARY},x\n{CANARY},y\n"},
    "an unknown source": {"relations_csv": RELATIONS + f"{CANARY},a\n"},
    "an unknown target": {"relations_csv": RELATIONS + f"a,{CANARY}\n"},
    "an unknown integer": {
        "entities_parquet": parquet(id=[1, 2], text=["x", "y"]),
        "relations_parquet": parquet(source=[1], target=[int(NUMBER)]),
    },
    "a self-relation": {
        "entities_csv": ENTITIES + f"{CANARY},x\n",
        "relations_csv": RELATIONS + f"{CANARY},{CANARY}\n",
    },
    "a repeated relation": {
        "entities_csv": ENTITIES + f"{CANARY},x\n",
        "relations_csv": RELATIONS + f"{CANARY},a\na,{CANARY}\n",
    },
    "an empty text": {"entities_csv": ENTITIES + f"{CANARY},\n"},
    "a header that is missing": {"entities_csv": f"{CANARY},hello {NUMBER}\nb,x\n"},
    "relations without a header": {"relations_csv": f"{CANARY},b\n"},
    "a header that is missing, twice the same": {"entities_csv": f"{CANARY},{CANARY}\n"},
    "a wrong number of columns": {"entities_csv": ENTITIES + f"{CANARY},x,y\n"},
    "a wrong number of columns, tabs": {"entities_tsv": f"id\ttext\n{CANARY}\tx\ty\n"},
    "a quote that stays open": {"entities_csv": ENTITIES + f'd,"{CANARY}\n'},
    "text that is not UTF-8": {"entities_csv": (ENTITIES + f"{CANARY},").encode() + b"\xff\n"},
    "a NUL": {"entities_csv": ENTITIES + f"{CANARY}\0,x\n"},
    "features that are no numbers": {"entities_csv": f"id,features\na,1 2\nb,{CANARY} 2\n"},
    "features of two lengths": {"entities_csv": f"id,features\na,1 2\n{CANARY},{NUMBER}\n"},
    "features beyond 32 bits": {"entities_csv": f"id,features\na,1 2\n{CANARY},1e999 {NUMBER}\n"},
    "protected with other words": {
        "entities_csv": f"id,text,protected\na,x,true\n{CANARY},y,{NUMBER}?\n"
    },
    "relations with a column more": {"relations_csv": f"source,target,{CANARY}\na,b,1\n"},
    "a column of lists": {
        "entities_parquet": parquet(**{"id": ["a"], "text": ["x"], CANARY: [[1]]})
    },
    "a column of objects": {"entities_parquet": parquet(id=["a"], text=["x"], more=[{CANARY: 1}])},
    "ids that are objects": {"entities_parquet": parquet(id=[{CANARY: 1}], text=["x"])},
    "texts that are objects": {"entities_parquet": parquet(id=["a"], text=[{CANARY: "x"}])},
    "features that are objects": {"entities_parquet": parquet(id=["a"], features=[{CANARY: 1}])},
    "broken JSON": {"entities_jsonl": f'{{"id": "a", "text": "x"}}\n{{"id": "{CANARY}\n'},
    "JSON of several types": {
        "entities_jsonl": f'{{"id": "a", "text": "x"}}\n{{"id": {NUMBER}, "text": "{CANARY}"}}\n'
    },
    "JSON of several types in another column": {
        "entities_jsonl": f'{{"id": "a", "text": "x", "{CANARY}": 1}}\n'
        f'{{"id": "b", "text": "x", "{CANARY}": "{NUMBER}"}}\n'
    },
    "JSON without ids": {"entities_jsonl": f'{{"{CANARY}": "a", "text": "x"}}\n'},
    "JSON that is a list": {"entities_jsonl": f'["{CANARY}", "{NUMBER}"]\n'},
    "a Parquet file that is text": {"entities_parquet": f"{CANARY},{NUMBER}\n" * 9},
    "an Arrow file that is text": {"entities_arrow": f"{CANARY},{NUMBER}\n" * 9},
    "an Arrow file cut short": {"entities_arrow": arrow(id=[CANARY], text=["x"])[:-30]},
    "a gzip file that is text": {"entities_csv_gz": f"id,text\n{CANARY},x\n"},
    "a record of something else": {"record_json": json.dumps({CANARY: NUMBER})},
    "a record that is a list": {"record_json": json.dumps([CANARY])},
    "a record with a wrong value": {"record_json": json.dumps({"capped_at": CANARY})},
    "a record that is cut": {"record_json": f'{{"source": "{CANARY}'},
}
# What asking for ids must show: where an id or a column of the file is what is wrong.
SHOWN = [
    "a repeated id",
    "an unknown source",
    "an unknown target",
    "an unknown integer",
    "a self-relation",
    "a repeated relation",
    "an empty text",
    "a header that is missing",
    "features of two lengths",
    "protected with other words",
    "relations with a column more",
    "JSON of several types in another column",
]


def said(error: BaseException) -> str:
    """Everything that an error shows where nobody catches it."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.args)


@pytest.mark.parametrize("kind", FILES)
def test_damaged_files_never_show_what_they_hold(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder_of(tmp_path, **FILES[kind])
    with pytest.raises(InputError) as caught:
        EntityGraph.read(tmp_path)
    heard = said(caught.value)
    for arguments in (
        ["inspect", str(tmp_path)],
        ["train", str(tmp_path), "--target-epsilon", "4", "-o", str(tmp_path / "run")],
        ["evaluate", "no-model", "--graph", str(tmp_path)],
    ):
        assert main(arguments) == 2
        output = capsys.readouterr()
        heard += output.out + output.err
    assert CANARY not in heard
    assert NUMBER not in heard
    assert re.match(r"(entities|relations|record)\.[a-z.]+ |`capped_at` of a", str(caught.value))


@pytest.mark.parametrize("kind", SHOWN)
def test_ids_are_shown_where_they_are_asked_for(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder_of(tmp_path, **FILES[kind])
    with pytest.raises(InputError) as caught:
        EntityGraph.read(tmp_path, show_ids=True)
    assert CANARY in str(caught.value) or NUMBER in str(caught.value)
    assert main(["inspect", "--show-ids", str(tmp_path)]) == 2
    assert main(["evaluate", "no-model", "--show-ids", "--graph", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert all(CANARY in line or NUMBER in line for line in lines)
    assert len(lines) == 2


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "arrow"])
def test_files_damaged_at_random_never_show_what_they_hold(kind: str, tmp_path: Path) -> None:
    """A hundred files with bytes changed, cut out, doubled or put in, whatever that breaks."""
    names = [f"{CANARY}{i}" for i in range(9)]
    tables = {
        "entities": {"id": names, "text": [f"text of {name}" for name in names]},
        "relations": {"source": names[:-1], "target": names[1:]},
    }
    whole = {name: _written(kind, columns) for name, columns in tables.items()}
    generator = np.random.default_rng(0)
    heard = []
    for _ in range(100):
        for name, content in whole.items():
            data = _damaged(content, generator) if generator.random() < 0.6 else content
            (tmp_path / f"{name}.{kind}").write_bytes(data)
        try:
            EntityGraph.read(tmp_path)
        except InputError as error:
            heard.append(said(error))
    assert len(heard) > 50
    assert CANARY[:6] not in "".join(heard)


def _written(kind: str, columns: dict[str, list[str]]) -> bytes:
    if kind in ("parquet", "arrow"):
        return {"parquet": parquet, "arrow": arrow}[kind](**columns)
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    if kind == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    separator = "," if kind == "csv" else "\t"
    lines = [separator.join(columns), *(separator.join(row.values()) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def _damaged(content: bytes, generator: np.random.Generator) -> bytes:
    at = int(generator.integers(len(content)))
    more = [b'"', b",", b"\n", b"\t", b"\xff", b"\0", content[max(0, at - 60) : at]]
    return [
        content[:at],
        content[:at] + bytes([int(generator.integers(256))]) + content[at + 1 :],
        content[:at] + content[at + int(generator.integers(1, 30)) :],
        content[:at] + more[int(generator.integers(len(more)))] + content[at:],
    ][int(generator.integers(4))]


def test_an_error_without_ids_still_says_file_lines_count_and_what_to_do(tmp_path: Path) -> None:
    folder_of(tmp_path, relations_csv=RELATIONS + f"{CANARY},a\n" * 9)
    with pytest.raises(InputError) as caught:
        EntityGraph.read(tmp_path)
    assert str(caught.value) == (
        "relations.csv must name entities that are there, got 9 unknown source ids (line 4, line 5, "
        "line 6, line 7, line 8, ...). Add these entities, or drop them with drop={'unknown_ids'}. "
        "Set `show_ids` to see the ids here."
    )


class Unprintable:
    """A value that no Arrow column can hold, and that says the canary wherever it is shown."""

    def __repr__(self) -> str:
        return CANARY


def _frame(**columns: Any) -> Any:
    pandas = importlib.import_module("pandas")
    return pandas.DataFrame(columns)


def _network(edges: list[tuple[Any, Any]], **attributes: Any) -> Any:
    networkx = importlib.import_module("networkx")
    network = networkx.Graph()
    for edge in edges:
        for end in edge:
            network.add_node(end, **attributes)
    network.add_edges_from(edges)
    return network


def _matrix(size: int) -> Any:
    sparse = importlib.import_module("scipy.sparse")
    return sparse.csr_array(np.eye(size))


def _pyg(**values: Any) -> Any:
    torch = importlib.import_module("torch")
    with warnings.catch_warnings():  # torch_geometric itself uses what torch calls deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        data = importlib.import_module("torch_geometric.data")
    index = torch.tensor([[0, int(NUMBER)], [1, 1]])
    return data.Data(edge_index=index, num_nodes=3, **values)


PAIR = {"source": ["a"], "target": ["b"]}
IN_MEMORY: dict[str, Callable[[], Any]] = {
    "lists of several types": lambda: EntityGraph.from_lists([1, CANARY], [], text=["x", "y"]),
    "lists of another kind": lambda: EntityGraph.from_lists([Unprintable()], [], text=["x"]),
    "texts that are numbers": lambda: EntityGraph.from_lists(["a"], [], text=[int(NUMBER)]),
    "relations of another type": lambda: EntityGraph.from_lists([1], [(1, CANARY)], text=["x"]),
    "features of words": lambda: EntityGraph.from_lists(["a"], [], features=[[CANARY]]),
    "features of two lengths": lambda: EntityGraph.from_lists(
        ["a", "b"], [], features=[[1.0], [float(NUMBER), 2.0]]
    ),
    "an unknown id": lambda: EntityGraph.from_lists(["a"], [("a", CANARY)], text=["x"]),
    "a lone surrogate": lambda: EntityGraph.from_lists([CANARY + "\ud800"], [], text=["x"]),
    "a frame of several types": lambda: from_pandas(
        _frame(id=[1, CANARY], text=["x", "y"]), _frame(**PAIR)
    ),
    "a frame of objects": lambda: from_pandas(
        _frame(id=["a", "b"], text=["x", Unprintable()]), _frame(**PAIR)
    ),
    "a frame with an unknown id": lambda: from_pandas(
        _frame(id=["a", "b"], text=["x", "y"]), _frame(source=["a"], target=[CANARY])
    ),
    "a frame with a column of objects": lambda: from_pandas(
        _frame(**{"id": ["a", "b"], "text": ["x", "y"], CANARY: [1, "z"]}), _frame(**PAIR)
    ),
    "a network of several types": lambda: from_networkx(_network([(1, CANARY)], text="x")),
    "a network with an attribute": lambda: from_networkx(
        _network([("a", "b")], **{"text": "x", CANARY: Unprintable()})
    ),
    "a network that relates a node to itself": lambda: from_networkx(
        _network([(CANARY, CANARY)], text="x")
    ),
    "a matrix with ids": lambda: from_scipy(_matrix(2), ids=["a", CANARY], text=["x", "y"]),
    "a matrix with features of words": lambda: from_scipy(_matrix(1), features=[[CANARY]]),
    "an edge_index beyond the nodes": lambda: from_pyg(_pyg(text=["x", "y", "z"])),
    "a promise that is untrue": lambda: EntityGraph.from_lists(
        [CANARY, "b", "c"], [(CANARY, "b"), (CANARY, "c")], text=["x"] * 3
    ).promise_degrees(1),
    "an unknown value of a column": lambda: split_by_column(
        EntityGraph.from_lists(["a"], [], text=["x"]), "id", {"train": [CANARY]}
    ),
    "a table of words": lambda: FeatureEncoder(1).encode([[CANARY]]),
    "a table that is not finite": lambda: FeatureEncoder(2).encode([[np.nan, float(NUMBER)]]),
}


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_values_in_memory_are_never_quoted(kind: str) -> None:
    with pytest.raises(InputError) as caught:
        IN_MEMORY[kind]()
    heard = said(caught.value)
    # The last frames of a traceback quote this file, which names the canaries by variable only.
    assert CANARY not in heard
    assert NUMBER not in heard


def test_a_library_that_quotes_a_value_is_heard_only_where_ids_are_asked_for() -> None:
    """The control: Arrow's own message holds the canary, so hiding it is what the guard does."""
    with pytest.raises(pa.ArrowInvalid, match=CANARY):
        pa.array([1, CANARY])
    with pytest.raises(InputError, match=CANARY), guarded("entities", show_ids=True):
        pa.array([1, CANARY])
    with (
        pytest.raises(InputError, match="ArrowInvalid") as caught,
        guarded("entities", show_ids=False),
    ):
        pa.array([1, CANARY])
    assert CANARY not in said(caught.value)


def test_reprs_show_sizes_and_no_content() -> None:
    graph = EntityGraph.from_lists([CANARY, "b"], [(CANARY, "b")], text=[NUMBER, "y"])
    from reldp.graph.sources import SourceTable

    source = SourceTable(table=graph.entities, name="entities")
    shown = [
        graph,
        graph.cap_degrees(1, seed=0),
        source,
        checked_entities(source, frozenset()),
        FeatureTable(features=np.full((1, 1), float(NUMBER), np.float32)),
        TokenTable(ids=np.array([int(NUMBER)]), offsets=np.array([0, 1]), pad_id=0),
    ]
    for value in shown:
        assert CANARY not in f"{value!r}{value}"
        assert NUMBER not in f"{value!r}{value}"


def test_pairs_name_lines_and_ids_only_where_asked_to(tmp_path: Path) -> None:
    rows = [{"q_id": CANARY, "k_id": "b", "q_text": text, "k_text": "y"} for text in ("x", NUMBER)]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"pairs\.jsonl, line 2\..*`show_ids`") as caught:
        pairs([path])
    assert CANARY not in said(caught.value)
    with pytest.raises(InputError, match=f"line 2: '{CANARY}'"):
        pairs([path], show_ids=True)
    path.with_suffix(".jsonl.gz").write_text(CANARY)
    with pytest.raises(InputError, match="but it is damaged or not gzip at all") as caught:
        pairs([path.with_suffix(".jsonl.gz")])
    assert CANARY[:2] not in str(caught.value)  # not even the first bytes


def test_a_process_says_nothing_of_a_damaged_graph_either(tmp_path: Path) -> None:
    """The whole process, with what libraries write to the terminal by themselves."""
    folder_of(tmp_path, entities_csv=f"{CANARY},{NUMBER}\n", relations_csv=f"{CANARY},x\n")
    start = "from reldp.cli.main import main; main()"
    for extra, expected in (([], False), (["--show-ids"], True)):
        done = subprocess.run(
            [sys.executable, "-c", start, "inspect", *extra, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert (CANARY in done.stdout + done.stderr) == expected


def test_words_for_columns_types_and_reasons() -> None:
    names = ["ID ", CANARY, "text"]
    assert columns_words(names, show_ids=False) == "'ID ', 'text' and 1 other"
    assert columns_words(names, show_ids=True) == f"'ID ', '{CANARY}' and 'text'"
    assert columns_words([], show_ids=False) == "no column"
    assert column_words(CANARY, names, show_ids=False) == "column number 2"
    assert column_words("text", names, show_ids=False) == "column 'text'"
    assert type_words(pa.list_(pa.struct([(CANARY, pa.int64())]))) == "lists of objects"
    assert type_words(pa.dictionary(pa.int8(), pa.string())) == "string"
    assert type_words(pa.map_(pa.string(), pa.int64())) == "objects"
    path = Path("entities.csv")
    error = pa.ArrowInvalid(f"CSV parse error: Expected 2 columns, got 3: {CANARY},x,y")
    assert reason_words(error, path, show_ids=False) == "its reader raised ArrowInvalid"
    assert CANARY in reason_words(error, path, show_ids=True)
