"""A tokenizer reads the files of its model, and no others of the machine."""

import json
import os
import shutil
import string

import pytest
import torch
from transformers import BertConfig, BertModel

from reldp import TextEncoder
from reldp.encoders import tokenizer_settings
from reldp.encoders.tokenizer_settings import check_tokenizer_settings, refuse_paths
from reldp.errors import EncoderError

FILES = ("tokenizer_config.json", "special_tokens_map.json")


def leaking(folder, graph):
    """A model whose vocabulary is a file of somebody else, with a word for every character."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=4096, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    letters = string.ascii_lowercase + string.digits + string.punctuation
    plain = dict.fromkeys(("lstrip", "rstrip", "single_word", "special"), False)
    settings = {
        "tokenizer_class": "BertTokenizer",
        "unk_token": "id\ttext",
        "model_max_length": 64,
        "added_tokens_decoder": {
            str(2000 + i): {"content": c, "normalized": True, **plain}
            for i, c in enumerate(letters)
        },
    }
    settings |= {} if graph is None else {"vocab": str(graph)}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def test_a_private_file_never_becomes_a_vocabulary(tmp_path):
    graph = tmp_path / "entities.tsv"
    graph.write_text("id\ttext\n" + "".join(f"e{i}\tpatient {i}\n" for i in range(50)))
    folder = leaking(tmp_path / "model", graph)
    with pytest.raises(
        EncoderError, match=r"files of the usual names, got vocab in tokenizer_config\.json"
    ):
        TextEncoder.load(folder)
    folder = leaking(tmp_path / "linked", None)
    (folder / "vocab.txt").unlink()
    (folder / "vocab.txt").symlink_to("../entities.tsv")
    with pytest.raises(
        EncoderError, match=r"got vocab\.txt, a link to a place outside of the folder"
    ):
        TextEncoder.load(folder)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "key", ["vocab_file", "merges_file", "spm_file", "anything", "sp_model_kwargs"]
)
@pytest.mark.parametrize("place", ["file", "pipe", "link"])
def test_a_setting_with_the_path_of_something_is_refused(tmp_path, monkeypatch, name, key, place):
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)
    for path in (place, str(tmp_path / place)):
        for value in (path, [1, path], {"a": {"b": path}}):
            with pytest.raises(EncoderError, match=f"got {key} in {name}"):
                refuse_paths({"do_lower_case": True, key: value}, name)


@pytest.mark.parametrize("key", ["vocab", "merges", "tokenizer_object", "init_inputs", "gguf_file"])
def test_a_vocabulary_among_the_settings_is_refused(key):
    refuse_paths({key: None}, FILES[0])
    for value in ("nowhere", ["a", "b"], {"a": 1}, 3):
        with pytest.raises(EncoderError, match=f"got {key} in"):
            refuse_paths({key: value}, FILES[0])


def test_settings_of_published_models_pass(tmp_path, monkeypatch):
    (tmp_path / "bert").write_text("a folder of the user that has the name of a token or model")
    monkeypatch.chdir(tmp_path)
    refuse_paths(
        {
            "name_or_path": "bert", "special_tokens_map_file": str(tmp_path / "bert"), "tokenizer_file": None,
            "vocab_file": "cache of somebody else/vocab.txt", "never_split": ["bert"], "unk_token": "bert",
            "additional_special_tokens": ["bert"], "chat_template": "bert", "model_max_length": 10**30, "note": "",
            "added_tokens_decoder": {"0": {"content": "bert"}}, "strip_accents": None, "x": "a\0b",
        },
        FILES[0],
    )  # fmt: skip
    refuse_paths(["bert"], FILES[1])


def test_links_of_a_cache_and_inside_of_the_folder_are_followed(folders, tmp_path):
    home = tmp_path / "models--a--b"
    folder = shutil.copytree(folders["bert"], home / "snapshots" / "abc")
    (home / "blobs").mkdir()
    for number, path in enumerate(sorted(folder.iterdir())):
        path.rename(home / "blobs" / str(number))
        path.symlink_to(f"../../blobs/{number}")
    (folder / "copy.txt").symlink_to("config.json")
    check_tokenizer_settings(folder)
    assert TextEncoder.load(folder, train="none").dim == 32


def test_no_link_or_pipe_in_a_folder_of_the_model_leads_elsewhere(folders, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret")
    for number, place in enumerate(("additional_chat_templates/x.jinja", "1_Pooling/config.json")):
        folder = shutil.copytree(folders["bert"], tmp_path / f"model-{number}")
        (folder / place).parent.mkdir()
        (folder / place).symlink_to(secret)
        with pytest.raises(EncoderError, match="a link to a place outside of the folder"):
            TextEncoder.load(folder)
    folder = shutil.copytree(folders["bert"], tmp_path / "linked")
    (tmp_path / "templates").mkdir()
    (folder / "additional_chat_templates").symlink_to("../templates")
    with pytest.raises(
        EncoderError, match="got additional_chat_templates, a link to a place outside"
    ):
        TextEncoder.load(folder)
    folder = shutil.copytree(folders["bert"], tmp_path / "piped")
    os.mkfifo(folder / "chat_template.jinja")
    with pytest.raises(EncoderError, match=r"got a chat_template\.jinja that is none"):
        TextEncoder.load(folder)
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.jinja").touch()
    os.truncate(folder / "chat_template.jinja", 2**31)
    with pytest.raises(EncoderError, match=r"chat_template\.jinja of at most"):
        TextEncoder.load(folder)


@pytest.mark.parametrize("linked", ["file", "folder", "weights", "blobs"])
def test_a_link_in_a_deep_folder_of_a_module_leads_nowhere_else(folders, tmp_path, linked):
    home = tmp_path / "models--a--b"
    folder = shutil.copytree(folders["bert"], home / "snapshots" / "abc")
    outside = home / "blobs" if linked == "blobs" else tmp_path / "outside"
    outside.mkdir()
    (outside / "config.json").write_text('{"pooling_mode": "a secret"}')
    path = "a.safetensors" if linked == "weights" else "a/b"
    place = folder / path
    place.parent.mkdir(exist_ok=True)
    if linked == "file":
        place.mkdir()
        (place / "config.json").symlink_to(outside / "config.json")
    else:
        place.symlink_to(outside)
    modules = [{"path": "", "type": "Transformer"}, {"path": path, "type": "Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(EncoderError, match="a link to a place outside of the folder") as refused:
        TextEncoder.load(folder)
    assert "secret" not in str(refused.value)


def test_a_module_in_a_deep_folder_of_the_model_is_read(folders, tmp_path):
    folder = shutil.copytree(folders["bert"], tmp_path / "model")
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "cls.json").write_text('{"pooling_mode": "cls"}')
    (folder / "a" / "b" / "config.json").symlink_to("../../cls.json")
    modules = [{"path": "", "type": "Transformer"}, {"path": "a/b", "type": "Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    assert TextEncoder.load(folder, train="none").describe()["pooling"] == "cls"


def test_no_more_entries_are_looked_at_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer_settings, "_MAX_ENTRIES", 6)
    (tmp_path / "inner").mkdir()
    for number in range(5):
        (tmp_path / "inner" / str(number)).touch()
    check_tokenizer_settings(tmp_path)
    (tmp_path / "one more").touch()
    with pytest.raises(EncoderError, match="at most 6 files and folders, got more"):
        check_tokenizer_settings(tmp_path)


def test_a_chat_template_is_not_saved_with_the_model(folders, tmp_path):
    folder = shutil.copytree(folders["bert"], tmp_path / "model")
    (folder / "chat_template.jinja").write_text("a template")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "x.jinja").write_text("a template")
    TextEncoder.load(folder, lora_rank=2).save(tmp_path / "saved")
    saved = [p for p in (tmp_path / "saved").rglob("*") if p.is_file()]
    assert saved
    assert not [p for p in saved if p.suffix == ".jinja" or b"a template" in p.read_bytes()]
