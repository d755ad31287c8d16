"""What cannot be trained is refused before anything private is touched."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

from reldp.encoders.features import FeatureEncoder
from reldp.encoders.soundness import (
    DIFFERENT_TEXTS,
    PUBLIC_TEXTS,
    refuse_equal_rows,
    refuse_non_finite,
    refuse_non_finite_rows,
    refuse_other_layers,
    refuse_unknown_words,
)
from reldp.encoders.text import TextEncoder
from reldp.errors import EncoderError
from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan
from reldp.training import Trainer
from tests.encoders.tiny import SENTENCE, _word_tokenizer, write_model

BAD = [float("nan"), float("inf"), float("-inf")]


def vocabulary_of(folder: Path, keep: int) -> None:
    """Leaves the special tokens and so many words in a tokenizer's file."""
    values = json.loads((folder / "tokenizer.json").read_text())
    words = sorted(values["model"]["vocab"].items(), key=lambda item: item[1])
    values["model"]["vocab"] = dict(words[: 4 + keep])
    (folder / "tokenizer.json").write_text(json.dumps(values))


@pytest.mark.parametrize("keep", [0, 1, 5])
def test_a_tokenizer_that_knows_hardly_a_word_is_refused(
    keep: int, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(folders["bert"], tmp_path / "copy")
    vocabulary_of(folder, keep)
    with pytest.raises(
        EncoderError, match=rf"one with {4 + keep} tokens to which \d+% of common.* codes"
    ):
        TextEncoder.load(folder)
    vocabulary_of(shutil.copytree(folders["bert"], tmp_path / "control"), len(SENTENCE.split()))
    TextEncoder.load(tmp_path / "control")


class Letters:
    """A tokenizer of one alphabet: letters outside of it are unknown, or dropped without a word."""

    added_tokens_decoder: ClassVar[dict[int, str]] = {}
    all_special_ids: tuple[int, ...] = (0,)

    def __init__(self, alphabet: str, drop: bool = False) -> None:
        self.vocabulary = {letter: place + 1 for place, letter in enumerate(alphabet)}
        self.drop = drop

    def __len__(self) -> int:
        return 1 + len(self.vocabulary)

    def get_vocab(self) -> dict[str, int]:
        return {"[UNK]": 0, **self.vocabulary}

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        found = [self.vocabulary.get(letter, 0) for letter in text]
        return [place for place in found if place or not self.drop]


@pytest.mark.parametrize(
    "alphabet", ["абвгдежзийклмнопрстуфхцчшщъыьэюя", "的一是不了人我在有水日年大小"]
)
def test_a_tokenizer_of_another_script_is_fine(alphabet: str) -> None:
    refuse_unknown_words(Letters(alphabet), 100)


@pytest.mark.parametrize("drop", [False, True])
def test_a_tokenizer_that_drops_unknown_letters_is_refused_like_one_that_marks_them(
    drop: bool,
) -> None:
    with pytest.raises(EncoderError, match="100% of common words are unknown"):
        refuse_unknown_words(Letters("!?", drop), 100)


def test_a_tokenizer_that_hides_its_unknown_token_is_refused() -> None:
    """All words become one token, and nothing says that it means unknown."""
    letters = Letters("!?")
    letters.all_special_ids = ()
    with pytest.raises(EncoderError, match="common words are unknown"):
        refuse_unknown_words(letters, 100)


def test_a_tokenizer_with_tokens_beyond_the_table_is_refused() -> None:
    letters = Letters("abcdefghijklmnopqrstuvwxyz")
    refuse_unknown_words(letters, 27)
    with pytest.raises(EncoderError, match="tokens up to 26 and a table of 26 rows"):
        refuse_unknown_words(letters, 26)


@pytest.mark.parametrize("value", BAD)
def test_weights_that_are_not_finite_are_refused_by_name(value: float) -> None:
    state = {"good": torch.zeros(2), "count": torch.tensor([1])}
    refuse_non_finite(state)
    with pytest.raises(EncoderError, match="in 'bad'"):
        refuse_non_finite({**state, "bad": torch.tensor([0.0, value]).bfloat16()})


def test_rows_that_are_not_finite_are_counted() -> None:
    refuse_non_finite_rows(np.zeros((3, 2)))
    refuse_non_finite_rows(np.zeros((0, 2)))
    with pytest.raises(EncoderError, match="for 1 of 3 public inputs"):
        refuse_non_finite_rows(np.array([[0.0, 1.0], [np.nan, 0.0], [1.0, 1.0]]))


def test_layers_beyond_the_configuration_are_refused_and_heads_are_not() -> None:
    model = BertModel(
        BertConfig(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8)
    )
    refuse_other_layers(model, ["cls.predictions.bias", "bert.embeddings.position_ids"], "x")
    refuse_other_layers(model, ["classifier.7.weight"], "x")
    for key in ("encoder.layer.2.output.dense.bias", "bert.encoder.layer.11.output.dense.bias"):
        with pytest.raises(EncoderError, match="2 layers in config"):
            refuse_other_layers(model, [key], "x")


def test_public_texts_reach_from_one_token_to_the_longest_row(folder: Path) -> None:
    encoder = TextEncoder.load(folder)
    lengths = encoder.tokenize(PUBLIC_TEXTS).lengths
    assert lengths.max() == encoder.max_length
    assert lengths.min() <= 3
    assert len(set(lengths.tolist())) >= 4
    assert encoder.public_embeddings().shape == (len(PUBLIC_TEXTS), encoder.dim)


def features_graph() -> EntityGraph:
    ring = [(i, (i + 1) % 40) for i in range(40)]
    return EntityGraph.from_lists(list(range(40)), ring, features=np.eye(40, 3))


def plan_for(graph: EntityGraph) -> PrivacyPlan:
    return PrivacyPlan.for_graph(
        graph.cap_degrees(2, seed=0),
        num_negatives=2,
        expected_batch_size=4,
        num_steps=2,
        noise_multiplier=1.0,
        sizes="public",
    )


@pytest.mark.parametrize("value", BAD)
def test_training_never_starts_with_weights_that_are_not_finite(
    value: float, tmp_path: Path
) -> None:
    graph = features_graph()
    encoder = FeatureEncoder(3, dim=2)
    with torch.no_grad():
        encoder.layers[0].weight[1, 1] = value
    capped = graph.cap_degrees(2, seed=0)
    with pytest.raises(EncoderError, match=r"finite weights, got NaN or infinity in 'layers\.0"):
        Trainer(encoder, capped, plan_for(graph)).fit(tmp_path / "run")
    assert not (tmp_path / "run" / "ledger.jsonl").exists()


def test_training_never_starts_with_outputs_that_overflow(tmp_path: Path) -> None:
    graph = features_graph()
    encoder = FeatureEncoder(3, hidden=[4], dim=2)
    with torch.no_grad():
        for layer in encoder.layers:
            layer.weight.fill_(3e38)
    with pytest.raises(EncoderError, match="finite embeddings, got NaN or infinity for"):
        Trainer(encoder, graph.cap_degrees(2, seed=0), plan_for(graph)).fit(tmp_path / "run")
    assert not (tmp_path / "run" / "ledger.jsonl").exists()


def test_a_saved_feature_encoder_with_nan_is_refused(tmp_path: Path) -> None:
    encoder = FeatureEncoder(3)
    encoder.save(tmp_path / "good")
    FeatureEncoder.load(tmp_path / "good")
    with torch.no_grad():
        encoder.layers[0].weight[0, 0] = float("nan")
    encoder.save(tmp_path / "bad")
    with pytest.raises(EncoderError, match="finite weights"):
        FeatureEncoder.load(tmp_path / "bad")


@pytest.mark.parametrize("train", ["lora", "full", "head", "none"])
def test_every_way_of_training_looks_at_the_whole_model(
    train: str, folders: dict[str, Path]
) -> None:
    encoder = TextEncoder.load(folders["bert"], train=train)
    encoder.check_finite()
    frozen = next(p for n, p in encoder._text.named_parameters() if "query" in n)
    with torch.no_grad():
        frozen.view(-1)[0] = float("nan")
    with pytest.raises(EncoderError, match="finite weights"):
        encoder.check_finite()


def test_an_encoder_of_ones_own_is_checked_by_its_weights() -> None:
    class Own(FeatureEncoder):
        def public_embeddings(self) -> np.ndarray:
            return super(FeatureEncoder, self).public_embeddings()

    encoder = Own(2)
    encoder.check_finite()
    encoder.module.register_parameter("scale", nn.Parameter(torch.tensor([float("nan")])))
    with pytest.raises(EncoderError, match="'scale'"):
        encoder.check_finite()


def test_the_word_tokenizer_of_these_tests_knows_enough() -> None:
    refuse_unknown_words(_word_tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]"]), 40)


def no_weights(encoder: TextEncoder) -> None:
    with torch.no_grad():
        for parameter in encoder.module.parameters():
            parameter.zero_()


def one_word_vector(encoder: TextEncoder) -> None:
    with torch.no_grad():
        for name, parameter in encoder.module.named_parameters():
            if "word_embeddings" in name:
                parameter.copy_(parameter[:1].expand_as(parameter))


def a_tokenizer_that_drops_letters(encoder: TextEncoder) -> None:
    from tokenizers import Regex, normalizers

    backend = encoder.tokenizer.backend_tokenizer
    backend.normalizer = normalizers.Replace(Regex(r"\w"), "")


@pytest.mark.parametrize("damage", [no_weights, one_word_vector, a_tokenizer_that_drops_letters])
def test_a_model_to_which_all_texts_are_the_same_is_refused(tmp_path: Path, damage) -> None:
    """Finite, and useless: before, it was trained to a proven epsilon."""
    encoder = TextEncoder.load(write_model("bert", tmp_path / "model"), lora_rank=2)
    encoder.check_finite()
    damage(encoder)
    with pytest.raises(EncoderError, match="must tell texts apart"):
        encoder.check_finite()


def test_a_length_without_room_for_a_word_is_refused(tmp_path: Path) -> None:
    write_model("bert", tmp_path / "model")
    with pytest.raises(EncoderError, match=r"`max_length` must be an integer from 3 to .*, got 2"):
        TextEncoder.load(tmp_path / "model", lora_rank=2, max_length=2)
    assert TextEncoder.load(tmp_path / "model", lora_rank=2, max_length=3).max_length == 3


def test_equal_rows_are_refused_and_one_other_is_enough() -> None:
    rows = np.ones((len(DIFFERENT_TEXTS), 3), np.float32)
    with pytest.raises(EncoderError, match="must tell texts apart"):
        refuse_equal_rows(rows)
    rows[4, 1] += 1e-6
    refuse_equal_rows(rows)
    refuse_equal_rows(rows[:1])


def test_an_added_word_beyond_the_table_is_refused_and_a_special_token_is_not() -> None:
    """The table was not resized; nothing reads a padding token there."""
    letters = Letters("abcdefghijklmnopqrstuvwxyz")
    letters.added_tokens_decoder = {26: SimpleNamespace(special=True)}
    refuse_unknown_words(letters, 26)
    letters.added_tokens_decoder = {26: SimpleNamespace(special=False)}
    with pytest.raises(EncoderError, match=r"up to 26 and a table of 26 rows.* or resize"):
        refuse_unknown_words(letters, 26)


def test_long_names_of_weights_are_cut_and_read_in_little_time():
    layers = nn.Module()
    layers.layer = nn.ModuleList([nn.Linear(1, 1)])
    names = ["layer.7." + "a" * 10**6, "a" * 10**6]
    with pytest.raises(EncoderError, match=r"such as 'layer\.7\.aaa") as refused:
        refuse_other_layers(layers, names, "model")
    assert len(str(refused.value)) < 300
    with pytest.raises(EncoderError, match="NaN or infinity in 'aaa") as refused:
        refuse_non_finite({"a" * 10**6: torch.tensor([torch.nan])})
    assert len(str(refused.value)) < 300
