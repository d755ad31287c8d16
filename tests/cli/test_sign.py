"""``reldp sign`` makes keys and signs bundles; what is missing is said in one line."""

import json

import torch

from reldp.cli.main import main
from reldp.training import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)


def test_a_key_is_made_and_signs_a_bundle(tmp_path, capsys):
    Trainer(*small_parts()).fit(tmp_path / "run")
    bundle, key = str(tmp_path / "bundle"), str(tmp_path / "key")
    assert main(["publish", str(tmp_path / "run"), "-o", bundle]) == 0
    assert main(["sign", "--make-key", key]) == 0
    assert "keep it secret" in capsys.readouterr().out
    assert main(["sign", bundle, "--key", key, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["public_key"]) == 64
    assert main(["verify", bundle, "--key", f"{key}.pub"]) == 0
    assert "by the given key" in capsys.readouterr().out
    assert main(["sign", str(tmp_path / "run"), "--key", key]) == 2
    assert main(["sign", "--make-key", f"{key}2", "--json"]) == 0
    assert main(["verify", bundle, "--key", f"{key}2.pub"]) == 3


def test_missing_and_contradicting_options_are_named(tmp_path, capsys):
    for arguments, words in (
        ([], "BUNDLE and --key must be given"),
        ([str(tmp_path)], "BUNDLE and --key must be given"),
        (["b", "--make-key", "k"], "--make-key must be given alone"),
        ([str(tmp_path), "--key", str(tmp_path / "none")], "none must be there to be read"),
    ):
        assert main(["sign", *arguments]) == 2
        assert words in capsys.readouterr().err
