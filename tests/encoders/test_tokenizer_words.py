"""Words and added tokens that take memory or time without bound are refused before a tokenizer is loaded."""

import json
import shutil
import time

import pytest

from reldp.encoders import loading
from reldp.encoders.loading import load_pretrained
from reldp.encoders.tokenizer_words import check_words, refuse_words
from reldp.errors import EncoderError


@pytest.fixture
def copy(folders, tmp_path):
    return shutil.copytree(folders["bert"], tmp_path / "copy")


def edit(path, **values):
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | values))


def test_real_tokenizers_are_within_the_bounds(folders):
    places = [folder for folder in folders.values() if folder.is_dir()]
    assert len(places) >= 3
    for folder in places:
        check_words(folder)


@pytest.mark.parametrize("kind", ["Unigram", "WordLevel"])
def test_a_word_of_any_length_is_refused(copy, kind):
    """A tree that deep ends the process when it is freed."""
    words = {"dog": 0, "a" * 200_000: 1}
    vocab = [[word, -1.0] for word in words] if kind == "Unigram" else words
    edit(copy / "tokenizer.json", model={"type": kind, "vocab": vocab})
    with pytest.raises(EncoderError, match=r"words of at most 4,096 characters, got 200,000 in"):
        load_pretrained(copy)


def test_words_are_bounded_together():
    refuse_words("vocab", ["a" * 4096] * 2048)
    with pytest.raises(EncoderError, match=r"at most 8,388,608 characters, got 8,392,704 in vocab"):
        refuse_words("vocab", ["a" * 4096] * 2049)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("tokenizer_config.json", {"extra_special_tokens": [f"<{i}>" for i in range(20_001)]}),
        ("tokenizer_config.json", {"extra_special_tokens": {f"t{i}": f"<{i}>" for i in range(20_001)}}),
        ("special_tokens_map.json", {"additional_special_tokens": ["<x>" * 1000] * 400}),
        ("added_tokens.json", {f"<{i}>": i for i in range(20_001)}),
        ("tokenizer.json", {"added_tokens": [{"id": i, "content": f"<{i}>"} for i in range(20_001)]}),
        ("tokenizer_config.json", {"added_tokens_decoder": {str(i): {"content": f"<{i}>"} for i in range(20_001)}}),
    ],
    ids=["list", "object", "long", "added", "file", "decoder"],
)  # fmt: skip
def test_added_tokens_are_bounded(copy, name, values):
    edit(copy / name, **values)
    began = time.process_time()
    with pytest.raises(
        EncoderError, match=r"at most 20,000 added tokens of 1,048,576 characters"
    ) as e:
        load_pretrained(copy)
    assert name in str(e.value)
    assert time.process_time() - began < 10


def test_a_chat_template_is_no_token(copy):
    edit(copy / "tokenizer_config.json", chat_template="{{ x }}" * 1000)
    check_words(copy)


def test_pieces_of_sentencepiece_are_bounded(copy):
    def piece(length):
        size = bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14])
        return b"\x0a" + size + b"a" * length

    (copy / "spiece.model").write_bytes(piece(20) * 1000 + b"\x12\x01x")
    check_words(copy)
    (copy / "spiece.model").write_bytes(piece(20) * 1000 + piece(100_000))
    with pytest.raises(EncoderError, match=r"got 100,000 in spiece\.model"):
        check_words(copy)


def test_loading_that_takes_long_is_given_up(copy, monkeypatch):
    def busy(*_, **__):
        while True:
            sum(range(1000))

    monkeypatch.setattr(loading, "_SECONDS", 0.3)
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", busy)
    with pytest.raises(EncoderError, match=r"takes more than 0\.3 seconds"):
        load_pretrained(copy)
