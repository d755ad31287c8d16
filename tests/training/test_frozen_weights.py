"""What is released and not trained is what was loaded: a layer that keeps what it sees gets no certificate."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.ao.quantization import MovingAverageMinMaxObserver

from reldp import EntityGraph, PrivacyPlan, Trainer
from reldp.encoders import Encoder
from reldp.errors import InputError, RunError
from reldp.graph import CappedGraph
from reldp.runs.run_folder import RunFolder
from reldp.training.loop import TrainingLoop
from reldp.training.step import PrivateStep

torch.set_num_threads(1)
WORDS = 600
PUBLIC = 300  # synthetic rows have words below; the graph has others
VECTORS = torch.randn(WORDS, 8, generator=torch.Generator().manual_seed(0)) * 3


class Net(nn.Module):
    def __init__(self, *, max_norm=None, observes=False):
        super().__init__()
        self.words = nn.Embedding.from_pretrained(VECTORS.clone(), freeze=True, max_norm=max_norm)
        self.out = nn.Linear(8, 4)
        self.watch = MovingAverageMinMaxObserver() if observes else nn.Identity()

    def forward(self, word):
        return self.out(self.watch(self.words(word)))


class WordEncoder(Encoder):
    """An encoder class of a user's own, as docs/extending.md has it."""

    def __init__(self, **options):
        torch.manual_seed(0)
        self.module = Net(**options)

    @property
    def dim(self):
        return 4

    def table(self, graph, *, pool=None):
        whole = graph.graph if isinstance(graph, CappedGraph) else graph
        return np.asarray(whole.column("word"), dtype=np.int64)

    def rows(self, table, indices):
        return {"word": torch.from_numpy(table[np.asarray(indices)])}

    def synthetic_rows(self, table, count, *, length, generator):
        return {"word": torch.randint(PUBLIC, (count,), generator=generator)}

    def save(self, folder, *, overwrite=False):
        Path(folder).mkdir(parents=True, exist_ok=overwrite)
        save_file(self.module.state_dict(), Path(folder) / "model.safetensors")

    def describe(self):
        return {"kind": "word", "dim": 4}


def parts(**options):
    n = 200
    words = [PUBLIC + i % 10 for i in range(n)]
    entities = {"id": list(range(n)), "text": ["x"] * n, "word": words}
    ring = {"source": list(range(n)), "target": [(i + 1) % n for i in range(n)]}
    capped = EntityGraph.from_arrow(entities, ring).promise_degrees(2)
    settings = {"num_negatives": 2, "expected_batch_size": 20, "num_steps": 3}
    plan = PrivacyPlan.for_graph(capped, sizes="public", noise_multiplier=4.0, **settings)
    return WordEncoder(**options), capped, plan


def test_a_frozen_table_that_rescales_what_it_is_asked_for_is_refused(tmp_path):
    trainer = Trainer(*parts(max_norm=1.0))
    with pytest.raises(RunError, match=r"got one that changes some, such as 'words\.weight'"):
        trainer.fit(tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    assert run.has_run, "private rows were seen, so that steps are counted"
    assert not run.certificate.exists()
    assert not run.model.exists()


def test_an_observer_is_refused_on_public_rows(tmp_path):
    with pytest.raises(RunError, match=r"must leave frozen weights and buffers as they are"):
        Trainer(*parts(observes=True)).fit(tmp_path / "run")
    assert not RunFolder(tmp_path / "run").has_run


def test_the_same_encoder_without_them_is_trained(tmp_path):
    encoder, *others = parts()
    Trainer(encoder, *others).fit(tmp_path / "run")
    torch.testing.assert_close(encoder.module.words.weight, VECTORS, rtol=0, atol=0)


def test_a_record_refuses_it_too(tmp_path):
    step = PrivateStep(*parts(max_norm=1.0))

    def loop():
        with step.record(tmp_path / "run") as record:
            for _ in record:
                record.backward()

    with pytest.raises(RunError, match=r"words\.weight"):
        loop()
    assert not RunFolder(tmp_path / "run").certificate.exists()


@pytest.mark.parametrize("at", [1, 2])
def test_a_change_in_a_later_step_is_noticed(tmp_path, monkeypatch, at):
    encoder, *others = parts()
    take = TrainingLoop._take

    def later(self, step):
        if step == at:
            encoder.module.words.weight.data[0, 0] += 1.0
        return take(self, step)

    monkeypatch.setattr(TrainingLoop, "_take", later)
    with pytest.raises(RunError, match="got one that changes some"):
        Trainer(encoder, *others).fit(tmp_path / "run")
    assert not RunFolder(tmp_path / "run").certificate.exists()


class Augmenting(WordEncoder):
    """Changes words by a state of some kind."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.calls, self.seen = kind, 0, []
        self.numbers, self.torch_numbers = (
            np.random.default_rng(0),
            torch.Generator().manual_seed(0),
        )

    def rows(self, table, indices):
        words = table[np.asarray(indices)]
        match self.kind:
            case "numpy":
                words = (words + self.numbers.integers(99, size=words.shape)) % WORDS
            case "global":
                words = (words + np.random.randint(99, size=words.shape)) % WORDS
            case "python":
                words = (words + random.randrange(99)) % WORDS
            case "torch":
                drawn = torch.randint(99, words.shape, generator=self.torch_numbers)
                words = (words + drawn.numpy()) % WORDS
            case "count":
                self.calls += 1
                words = (words + self.calls) % WORDS
            case "table":
                table[np.asarray(indices)] = (words + 1) % WORDS
            case "kept":
                self.seen = [*self.seen[-5:], int(words[0]), self.calls]
                self.calls += 1
            case "once":
                self.seen = [int(table[0])]
        return {"word": torch.from_numpy(words)}


KINDS = ["numpy", "global", "python", "torch", "count", "table", "kept"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_with_a_state_is_refused_before_a_step(tmp_path, kind):
    _, *others = parts()
    reason = "must keep nothing of what" if kind == "kept" else "must give an entity the same rows"
    with pytest.raises((InputError, RunError), match=reason):
        Trainer(Augmenting(kind), *others).fit(tmp_path / "run")
    assert not RunFolder(tmp_path / "run").has_run


@pytest.mark.parametrize("kind", ["none", "once"])
def test_an_encoder_that_keeps_the_same_whatever_it_is_asked_for_is_trained(tmp_path, kind):
    _, *others = parts()
    Trainer(Augmenting(kind), *others).fit(tmp_path / "run")
    assert RunFolder(tmp_path / "run").certificate.exists()


class Vocabulary(nn.Module):
    """Beside the trained module: nothing of it is a parameter or a buffer."""

    def __init__(self):
        super().__init__()
        self.seen = {}


class Remembering(WordEncoder):
    def __init__(self):
        super().__init__()
        self.vocabulary = Vocabulary()

    def rows(self, table, indices):
        rows = super().rows(table, indices)
        self.vocabulary.seen |= {int(word): len(self.vocabulary.seen) for word in rows["word"]}
        return rows


def test_a_module_beside_the_trained_one_keeps_nothing_either(tmp_path):
    _, *others = parts()
    with pytest.raises(
        RunError, match="must keep nothing of what it is asked for, got Remembering"
    ):
        Trainer(Remembering(), *others).fit(tmp_path / "run")
    assert not RunFolder(tmp_path / "run").certificate.exists()


class OnALayer(WordEncoder):
    """Keeps words where no class of a user's own is: on a layer of torch."""

    def rows(self, table, indices):
        self.module.out.seen = int(table[np.asarray(indices)].sum())
        return super().rows(table, indices)


def test_a_layer_of_torch_keeps_nothing_either(tmp_path):
    _, *others = parts()
    with pytest.raises(RunError, match="must keep nothing of what it is asked for"):
        Trainer(OnALayer(), *others).fit(tmp_path / "run")
    assert not RunFolder(tmp_path / "run").certificate.exists()


def test_a_class_that_was_made_by_type_is_one_of_a_user_s_own(tmp_path):
    _, *others = parts()
    kind = type("Made", (OnALayer,), {})
    kind.__module__ = "abc"  # as `type` says where a library calls it
    with pytest.raises(RunError, match="must keep nothing of what it is asked for"):
        Trainer(kind(), *others).fit(tmp_path / "run")
