"""Slow tokenizers are refused by public texts, and panics of Rust are one line."""

import json
import shutil
import time

import pytest

from reldp import TextEncoder
from reldp.encoders.tokenizer_speed import refuse_slow_tokenizer
from reldp.errors import EncoderError


def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_time_that_grows_with_the_length_is_noticed_early():
    seen = []

    def encode(text):
        seen.append(len(text))
        busy((len(text) / 512) ** 3 * 0.05)

    with pytest.raises(EncoderError, match=r"more than 0\.02 seconds for 512 characters"):
        refuse_slow_tokenizer(encode, seconds=0.02)
    assert seen == [16, 32, 64, 128, 256, 512]


def test_time_of_other_processes_does_not_count(monkeypatch):
    monkeypatch.setattr("reldp.encoders.bounded.time.process_time", lambda: 0.0)
    refuse_slow_tokenizer(lambda text: time.sleep(0.02), seconds=0.01)


PATTERNS = {
    "slow": r"[\s\S]{0,100}[\s\S]{0,100}[\s\S]{0,90}(?=\s)(?=\S)",
    "gives up": r"((([\s\S]*)*)*)*(?=\s)(?=\S)",
}


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_a_slow_regular_expression_is_one_line(folders, tmp_path, pattern):
    folder = shutil.copytree(folders["bert"], tmp_path / "model")
    settings = json.loads((folder / "tokenizer.json").read_text())
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    steps = [split, {"type": "Whitespace"}]
    settings["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    (folder / "tokenizer.json").write_text(json.dumps(settings))
    began = time.process_time()
    with pytest.raises(EncoderError, match="mostly because of a slow regular expression") as caught:
        TextEncoder.load(folder)
    assert "\n" not in str(caught.value)
    assert time.process_time() - began < 30, "it ends soon, where it took minutes"
