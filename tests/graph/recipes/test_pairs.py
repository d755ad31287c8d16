import bz2
import gzip
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from reldp.errors import GraphError, InputError
from reldp.graph.formats import BLOCK_BYTES
from reldp.graph.recipes.pairs import pairs


def _write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _row(q: str, k: str, **more: Any) -> dict[str, Any]:
    return {"q_text": q, "k_text": k, "q_n_text": ["ignored"], **more}


def _pairs(made: Any) -> list[tuple[str, str]]:
    columns = made.relations.to_pydict()
    return list(zip(columns["source"], columns["target"], strict=True))


def test_without_ids_identical_text_is_one_entity_and_the_record_says_so(tmp_path: Path) -> None:
    path = _write(tmp_path / "train.jsonl", _row("tent", "bag"), _row("tent", "stove"))
    made = pairs([path])
    assert made.entities.to_pydict() == {"id": ["0", "1", "2"], "text": ["tent", "bag", "stove"]}
    assert len(_pairs(made)) == 2
    assert "the source has no ids: identical text is one entity, each spelling another" in (
        made.record.notes
    )


def test_with_ids_equal_texts_stay_two_entities(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "train.jsonl",
        _row("tent", "tent", q_id=7, k_id="b"),
        _row("tent", "stove", q_id="b", k_id=9),
    )
    made = pairs([path])
    assert made.entities["id"].to_pylist() == ["7", "b", "9"]
    assert _pairs(made) == [("7", "b"), ("9", "b")]
    assert "an entity is what q_id and k_id name" in made.record.notes
    assert made.entities["text"].to_pylist() == ["tent", "tent", "stove"]


def test_id_fields_can_be_named_and_ids_can_be_ignored(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.jsonl", _row("x", "y", q_id=1, k_id=2, from_=5, to=6))
    assert pairs([path], id_fields=("from_", "to")).entities["id"].to_pylist() == ["5", "6"]
    assert pairs([path], by_text=True).entities["id"].to_pylist() == ["0", "1"]
    with pytest.raises(InputError, match="exclude"):
        pairs([path], by_text=True, id_fields=("from_", "to"))


def test_directions_are_merged_and_repeats_and_self_pairs_counted(tmp_path: Path) -> None:
    one = _write(tmp_path / "1.jsonl", _row("a", "b"), _row("b", "a"), _row("c", "c"))
    two = tmp_path / "2.jsonl.gz"
    two.write_bytes(gzip.compress((json.dumps(_row("a", "b")) + "\n\n").encode()))
    made = pairs([one, two], license="CC0-1.0")
    assert made.entities["text"].to_pylist() == ["a", "b"]
    assert made.record.drops == {"self_relations": 1, "duplicate_relations": 2}
    assert sorted(made.record.hashes) == ["1.jsonl", "2.jsonl.gz"]
    assert made.record.license == "CC0-1.0"
    assert str(tmp_path) not in made.record.to_json()


def test_an_id_with_two_texts_is_refused_unless_the_first_is_asked_for(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "a.jsonl", _row("x", "y", q_id=1, k_id=2), _row("X!", "z", q_id=1, k_id=3)
    )
    with pytest.raises(
        GraphError, match=r"1 lines with another, first in a\.jsonl, line 2"
    ) as caught:
        pairs([path])
    assert "X!" not in str(caught.value)
    made = pairs([path], keep_first_text=True)
    assert made.entities["text"].to_pylist() == ["x", "y", "z"]
    assert made.record.drops == {"texts_after_the_first_of_an_id": 1}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"q_text": "a"', "broken JSON"),
        ("[1, 2]", "got list"),
        ("[" * 100_000, "broken JSON"),
        ('{"q_text": "\\ud800", "k_text": "b"}', "lone surrogate"),
        ('{"q_text": "a"}', "k_text must be text"),
        ('{"q_text": "a", "k_text": ""}', "got nothing"),
        ('{"q_text": "a", "k_text": 5}', "got int"),
    ],
)
def test_a_damaged_line_is_named_by_file_and_number(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"q_text": "a", "k_text": "b"}\n' + line + "\n")
    with pytest.raises(GraphError, match=words) as caught:
        pairs([path])
    assert "a.jsonl, line 2" in str(caught.value)


def test_an_id_that_is_missing_later_is_named_by_its_line(tmp_path: Path) -> None:
    rows = [_row(f"x{i}", f"y{i}", q_id=2 * i, k_id=2 * i + 1) for i in range(150)]
    path = _write(tmp_path / "a.jsonl", *rows, _row("x", "y", q_id=1.5, k_id=True))
    with pytest.raises(
        GraphError, match=r"a\.jsonl, line 151: q_id must be text or an integer, got float"
    ):
        pairs([path])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_ids_of_some_lines_only_are_refused_and_not_ignored(tmp_path: Path, place: int) -> None:
    """Person 1 with two texts would be two entities, each protected by itself."""
    rows = [_row("a", "b", q_id=1, k_id=2), _row("c", "d", q_id=1, k_id=3)]
    mixed = _write(tmp_path / "mixed.jsonl", *rows[:place], _row("e", "f"), *rows[place:])
    with pytest.raises(
        GraphError, match=r"line \d must have no q_id, .* --id-fields, .* --by-text"
    ):
        pairs([mixed])
    with pytest.raises(GraphError, match="q_id"):
        pairs([mixed], id_fields=("q_id", "k_id"))
    assert pairs([mixed], by_text=True).entities.num_rows == 6
    half = _write(tmp_path / "half.jsonl", _row("a", "b", k_idx=2))
    with pytest.raises(GraphError, match="line 1 must have no k_idx"):
        pairs([half])


def test_files_without_a_pair_or_damaged_are_refused(tmp_path: Path) -> None:
    empty = _write(tmp_path / "empty.jsonl")
    with pytest.raises(GraphError, match="must not be empty, got 0 bytes"):
        pairs([empty])
    with pytest.raises(InputError, match="at least one file"):
        pairs([])
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(json.dumps(_row("a", "b")).encode())[:-9])
    with pytest.raises(GraphError, match=r"cut\.jsonl\.gz must be a whole gzip file, but it ends"):
        pairs([cut])
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes(b'{"q_text": "\xe9", "k_text": "b"}\n')
    with pytest.raises(GraphError, match="UTF-8"):
        pairs([latin])


def test_a_pipe_is_refused_because_it_can_be_read_once_only(tmp_path):
    pipe = tmp_path / "pairs.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(GraphError, match=r"pairs\.jsonl must be a file, got something else"):
        pairs([pipe])
    with pytest.raises(GraphError, match="must be a file, got a folder"):
        pairs([tmp_path])


def test_a_line_that_is_too_long_is_refused_before_memory_is_used(tmp_path: Path) -> None:
    first = json.dumps(_row("a", "b")).encode() + b"\n"
    sparse = tmp_path / "sparse.jsonl"
    with sparse.open("wb") as file:
        file.write(first)
        file.truncate(20 << 30)
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(first + b"x" * (100 << 20)))
    refusals = {
        sparse: r"sparse\.jsonl must be a file with content, got 21,474,836,480 bytes",
        packed: r"packed\.jsonl\.gz, line 2 must have at most 16,777,216 bytes",
    }
    for path, words in refusals.items():
        tracemalloc.start()
        try:
            with pytest.raises(GraphError, match=words):
                pairs([path])
            assert tracemalloc.get_traced_memory()[1] < 4 * BLOCK_BYTES
        finally:
            tracemalloc.stop()


def test_a_line_as_long_as_it_may_be_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    empty = len(json.dumps(_row("", "b"))) + 1
    _write(path, _row("x" * (BLOCK_BYTES - empty), "b"))
    assert path.stat().st_size == BLOCK_BYTES
    assert pairs([path]).entities.num_rows == 2
    _write(path, _row("x" * (BLOCK_BYTES - empty + 1), "b"))
    with pytest.raises(GraphError, match="line 1 must have at most"):
        pairs([path])


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(_row("a", "b")).encode() + b"\n" * (24 << 20)))
    with pytest.raises(GraphError, match=r"a\.jsonl\.gz must unpack to at most 100 times its size"):
        pairs([path])


def test_lines_may_end_in_any_way_and_bzip2_is_read(tmp_path: Path) -> None:
    rows = [json.dumps(row).encode() for row in (_row("a", "b"), _row("b", "c"), {})]
    for end in (b"\n", b"\r\n", b"\r"):
        (tmp_path / "a.jsonl").write_bytes(end.join([*rows[:2], b"", b""]))
        assert pairs([tmp_path / "a.jsonl"]).entities["text"].to_pylist() == ["a", "b", "c"]
        (tmp_path / "a.jsonl.bz2").write_bytes(bz2.compress(end.join(rows)))
        with pytest.raises(GraphError, match=r"a\.jsonl\.bz2, line 3: q_text must be text"):
            pairs([tmp_path / "a.jsonl.bz2"])
