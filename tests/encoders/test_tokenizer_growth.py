"""Tokenizers that would lengthen texts without end are refused; those of known models are not."""

import base64
import json
import shutil

import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from reldp.encoders.loading import load_pretrained
from reldp.encoders.tokenizer_growth import (
    check_tokenizer_file,
    refuse_growing_tokenizer,
    refuse_growth,
)
from reldp.errors import EncoderError

DOUBLING = normalizers.Replace("a", "aa")
BEGIN, END = ("<s>", 1), ("</s>", 2)


def backend(normalizer=None, pre_tokenizer=None, post_processor=None):
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 3}, unk_token="[UNK]"))
    for name, part in (
        ("normalizer", normalizer),
        ("pre_tokenizer", pre_tokenizer),
        ("post_processor", post_processor),
    ):
        if part is not None:
            setattr(tokenizer, name, part)
    return tokenizer


def template(single, tokens=(BEGIN, END)):
    return processors.TemplateProcessing(single=single, special_tokens=list(tokens))


def charsmap(text):
    """A table of SentencePiece without a single entry in its trie."""
    return (4).to_bytes(4, "little") + bytes(4) + text + b"\0"


GOOD = {
    "BERT": backend(
        normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), template("<s> $A </s>")
    ),
    "Llama 2": backend(
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        None,
        template("<s> $A"),
    ),
    "Llama 3": backend(
        None,
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
                pre_tokenizers.ByteLevel(use_regex=False),
            ]
        ),
        processors.Sequence([processors.ByteLevel(), template("<s> $A")]),
    ),
    "SmolLM2": backend(
        None, pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel()])
    ),
    "RoBERTa": backend(None, pre_tokenizers.ByteLevel(), processors.RobertaProcessing(END, BEGIN)),
    "ALBERT": backend(
        normalizers.Sequence(
            [
                normalizers.Replace("``", '"'),
                normalizers.Replace("''", '"'),
                normalizers.NFKD(),
                normalizers.StripAccents(),
                normalizers.Lowercase(),
                normalizers.Replace(Regex(" {2,}"), " "),
            ]
        ),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
        template("<s> $A </s>"),
    ),
}
BAD = {
    "doublings": (normalizers.Sequence([DOUBLING] * 5), None, None),
    "nested doublings": (
        normalizers.Sequence([normalizers.Sequence([DOUBLING] * 3), DOUBLING, DOUBLING]),
        None,
        None,
    ),
    "one long replacement": (normalizers.Replace("a", "a" * 17), None, None),
    "a ligature of 18 letters": (normalizers.Replace(" ", "\ufdfa"), None, None),
    "gaps": (normalizers.Replace(Regex("a*"), "a" * 16), None, None),
    "a long beginning": (normalizers.Prepend("a" * 16), None, None),
    "spaces around characters": (
        normalizers.Sequence([normalizers.BertNormalizer()] * 3),
        None,
        None,
    ),
    "bytes of bytes": (None, pre_tokenizers.Sequence([pre_tokenizers.ByteLevel()] * 3), None),
    "marks of pieces": (None, pre_tokenizers.Sequence([pre_tokenizers.Metaspace()] * 5), None),
    "repetitions": (None, None, processors.Sequence([template("$A $A")] * 5)),
    "many tokens": (None, None, template("$A" + " <s>" * 16)),
    "one token of many": (
        None,
        None,
        template("$A <s>", [{"id": "<s>", "ids": [1] * 16, "tokens": ["<s>"] * 16}]),
    ),
}


@pytest.mark.parametrize("kind", GOOD)
def test_tokenizers_of_known_models_are_accepted(kind):
    refuse_growth(json.loads(GOOD[kind].to_str()))
    refuse_growing_tokenizer(PreTrainedTokenizerFast(tokenizer_object=GOOD[kind]))


@pytest.mark.parametrize("kind", BAD)
def test_tokenizers_that_lengthen_texts_are_refused(kind):
    tokenizer = backend(*BAD[kind])
    with pytest.raises(EncoderError, match=r"at most 16 times, got a \w+ with up to \d+ times"):
        refuse_growth(json.loads(tokenizer.to_str()))
    with pytest.raises(EncoderError, match="at most 16 times"):
        refuse_growing_tokenizer(PreTrainedTokenizerFast(tokenizer_object=tokenizer))


def table(text):
    return {
        "type": "Precompiled",
        "precompiled_charsmap": base64.b64encode(charsmap(text)).decode(),
    }


def test_tables_of_sentencepiece_are_bounded():
    refuse_growth({"normalizer": table(b"a" * 33)})
    with pytest.raises(EncoderError, match="with up to 65 times"):
        refuse_growth({"normalizer": table(b"b\0" + b"a" * 65)})
    two = {"type": "Sequence", "normalizers": [table(b"aa")] * 2}
    with pytest.raises(
        EncoderError, match="with one precompiled table, got a normalizer with 2 st"
    ):
        refuse_growth({"normalizer": two})


def test_many_steps_are_refused():
    steps = [{"type": "Lowercase"}] * 33
    refuse_growth({"normalizer": {"type": "Sequence", "normalizers": steps[:32]}})
    with pytest.raises(EncoderError, match=r"at most 32 steps .* got a normalizer with 33 steps"):
        refuse_growth({"normalizer": {"type": "Sequence", "normalizers": steps}})


@pytest.mark.parametrize(
    "part",
    [
        [],
        "Lowercase",
        {"normalizers": []},
        {"type": "Sequence", "normalizers": "ab"},
        {"type": "Replace", "pattern": {"String": "a"}, "content": 5},
        {"type": ["Replace"]},
    ],
)
def test_settings_of_another_shape_are_refused(part):
    with pytest.raises(EncoderError, match="got a damaged normalizer"):
        refuse_growth({"normalizer": part})


def test_a_model_with_such_a_tokenizer_is_refused_before_it_is_loaded(folders, tmp_path):
    folder = shutil.copytree(folders["bert"], tmp_path / "copy")
    check_tokenizer_file(folder)
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    # Tokens of the file are normalized while it is loaded: 30 doublings take gigabytes.
    token = {"single_word": False, "lstrip": False, "rstrip": False, "special": False}
    settings["added_tokens"] += [{"id": 39, "content": "a", "normalized": True, **token}]
    settings["normalizer"] = {"type": "Sequence", "normalizers": [step] * 30}
    path.write_text(json.dumps(settings))
    with pytest.raises(EncoderError, match=r"got a normalizer with up to 1\.074e"):
        load_pretrained(folder)


@pytest.mark.parametrize("limit", [1001, 10**9, -1, "x", 1e9, True])
def test_words_without_a_limit_are_refused(limit):
    refuse_growth({"model": {"type": "WordPiece", "max_input_chars_per_word": 100}})
    with pytest.raises(EncoderError, match="max_input_chars_per_word of at most 1,000"):
        refuse_growth({"model": {"type": "WordPiece", "max_input_chars_per_word": limit}})
