"""Without torchrun the encoder computes alone; `tests/training/test_distributed.py` tries it with three processes."""

import numpy as np
import pytest

from reldp.encoders import FeatureEncoder, shared_encoding
from reldp.encoders.shared_encoding import encode_together
from reldp.errors import InputError
from reldp.graph import EntityGraph
from reldp.processes import Processes

FEATURES = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)


@pytest.fixture
def graph():
    return EntityGraph.from_lists(range(7), [(0, 1)], features=FEATURES)


def test_one_process_gives_what_the_encoder_gives(graph):
    encoder, rows = FeatureEncoder(3), np.array([6, 0, 2])
    assert np.array_equal(
        encode_together(encoder, graph, rows, batch_size=2), encoder.encode_graph(graph, rows)
    )


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_the_parts_of_two_processes_are_put_in_place(monkeypatch, graph, count):
    encoder, rows = FeatureEncoder(3), np.arange(7)[::-1][:count]

    class Second(Processes):
        """The second of two processes; the first one sends what it must."""

        def gather(self, data, about=""):
            if len(data) == 32 and not hasattr(self, "asked"):
                self.asked = True
                return [data, data]
            return [encoder.encode_graph(graph, rows[::2]).tobytes(), data]

    monkeypatch.setattr(shared_encoding, "join_processes", lambda: Second(1, 2))
    joined = encode_together(encoder, graph, rows)
    assert np.array_equal(joined, encoder.encode_graph(graph, rows))


def test_processes_that_ask_for_different_entities_are_refused(monkeypatch, graph):
    class Other(Processes):
        def gather(self, data, about=""):
            return [data, b"other"]

    monkeypatch.setattr(shared_encoding, "join_processes", lambda: Other(0, 2))
    with pytest.raises(InputError, match="must be the same in all processes"):
        encode_together(FeatureEncoder(3), graph, np.arange(2))
