"""Token ids have a limit, in each of the files that may state them."""

import json
import shutil

import pytest

from reldp import TextEncoder
from reldp.encoders.tokenizer_ids import check_token_ids
from reldp.errors import EncoderError


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", {"model": {"vocab": {"a": 0, "b": 2**24}}}),
        ("tokenizer.json", {"added_tokens": [{"id": 2**31, "content": "a", "special": True}]}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"2147483648": {"content": "a"}}}),
        ("vocab.json", {"a": 10**30}),
        ("added_tokens.json", {"a": 2**40}),
    ],
)
def test_a_large_token_id_is_refused(tmp_path, name, content):
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(EncoderError, match=f"token ids below 16,777,216, got .* in {name}"):
        check_token_ids(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", {"model": {"vocab": {"a": 0, "b": 2**24 - 1}}, "added_tokens": [{}, 3]}),
        ("tokenizer.json", {"model": {"vocab": [["a", -1.0]]}, "version": "1.0"}),
        ("tokenizer_config.json", {"model_max_length": 10**30, "added_tokens_decoder": {"x": {}}}),
        ("tokenizer_config.json", []),
        ("vocab.json", {"a": True}),
    ],
)
def test_other_files_are_left_to_their_readers(tmp_path, name, content):
    (tmp_path / name).write_text(json.dumps(content))
    check_token_ids(tmp_path)


def test_a_model_with_such_a_tokenizer_is_refused_before_it_is_loaded(
    folders, tmp_path, monkeypatch
):
    folder = shutil.copytree(folders["bert"], tmp_path / "copy")
    settings = json.loads((folder / "tokenizer.json").read_text())
    settings["model"]["vocab"]["cat"] = 2**31
    (folder / "tokenizer.json").write_text(json.dumps(settings))
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", None)
    with pytest.raises(EncoderError, match=r"got 2,147,483,648 in tokenizer\.json"):
        TextEncoder.load(folder)
