"""Loops report how far they are to whoever asked, and to nobody else."""

import sys

import numpy as np

from reldp._progress import followed, is_on_terminal, reporting, show_line, tick
from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.graph import EntityGraph
from tests.encoders.tiny import write_model


def test_embedding_and_tokenizing_report_every_item(tmp_path):
    ids = list(range(5))
    texts = [f"text number {i} of this test" for i in ids]
    graph = EntityGraph.from_lists(ids, [(0, 1)], text=texts)
    encoder = TextEncoder.load(write_model("bert", tmp_path / "model"))
    seen = []
    with reporting(lambda *given: seen.append(given)):
        encoder.encode_graph(graph, batch_size=2)
    assert ("tokenizing", 5, 5) in seen
    assert [done for phase, done, _ in seen if phase == "embedding"] == [2, 4, 5]
    count = len(seen)
    encoder.encode_graph(graph, batch_size=2)
    assert len(seen) == count


def test_nobody_is_told_without_being_asked():
    tick("x", 1, 2)
    assert [list(b) for b in followed("x", [[1], [2, 3]], 3)] == [[1], [2, 3]]
    seen = []
    with reporting(lambda *given: seen.append(given)), reporting(None):
        FeatureEncoder(2).encode(np.zeros((3, 2), np.float32))
        tick("x", 1, 2)
    assert seen == []


def test_lines_go_nowhere_if_the_error_stream_is_closed(monkeypatch, capsys):
    show_line("one")
    monkeypatch.setattr(sys, "stderr", None)  # as Python does for a closed descriptor
    assert not is_on_terminal()
    show_line("two")
    monkeypatch.undo()
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "one\n")
