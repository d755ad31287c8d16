import shutil
import time

import numpy as np
import pytest

from reldp.encoders.hub import hub_folder, is_hub_name
from reldp.encoders.text import TextEncoder
from reldp.errors import EncoderError
from tests.encoders.tiny import TEXTS


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the hub's library, and a hub that cannot be reached."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


def put_into(cache, name, folder):
    """Lays a model out as the hub's library does after a download."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    home = cache / f"models--{name.replace('/', '--')}"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text(commit)
    return shutil.copytree(folder, home / "snapshots" / commit)


def test_a_cached_model_is_found_by_name_and_keeps_it(cache, folder):
    put_into(cache, "owner/tiny", folder)
    encoder = TextEncoder.load("owner/tiny", train="none")
    assert encoder.describe()["base_model"] == "owner/tiny"
    local = TextEncoder.load(folder, train="none")
    assert np.array_equal(encoder.encode(TEXTS), local.encode(TEXTS))


def test_a_cached_sentence_transformers_model_brings_its_own_settings(cache, folders, tmp_path):
    TextEncoder.load(folders["bert"], pooling="cls", max_length=11).save(tmp_path / "saved")
    put_into(cache, "owner/saved", tmp_path / "saved")
    described = TextEncoder.load("owner/saved").describe()
    assert (described["pooling"], described["max_length"]) == ("cls", 11)


def test_a_gguf_file_is_found_in_a_cached_repository(cache, folders):
    put_into(cache, "owner/packed", folders["gguf"].parent)
    encoder = TextEncoder.load("owner/packed", gguf_file="packed.gguf", train="none")
    local = TextEncoder.load(folders["packed"], train="none")
    assert np.array_equal(encoder.encode(TEXTS), local.encode(TEXTS))


def test_a_model_that_is_nowhere_is_one_clear_line_at_once(cache):
    start = time.perf_counter()
    with pytest.raises(EncoderError, match="Give the folder of a copy"):
        hub_folder("owner/absent")
    assert time.perf_counter() - start < 20


def test_a_half_downloaded_model_does_not_count_as_cached(cache, folders):
    place = put_into(cache, "owner/half", folders["bert"])
    (place / "model.safetensors").unlink()
    with pytest.raises(EncoderError, match="`source`"):
        TextEncoder.load("owner/half")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("bert-base-uncased", True),
        ("owner/model.v2", True),
        ("a/b/c", False),
        ("./model", False),
        ("/model", False),
        ("~/model", False),
        ("my model", False),
        ("", False),
    ],
)
def test_paths_are_not_taken_for_names(source, expected):
    assert is_hub_name(source) is expected
