"""A signature fails with any change of the bundle, and with any key but the one that signed."""

import json
import shutil

import pytest
import torch

from reldp.errors import ConfigError, VerificationError
from reldp.reporting import verify
from reldp.reporting.bundle import publish
from reldp.reporting.signing import make_key, sign
from reldp.training import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two signed bundles of two runs, and the keys "key" and "other"."""
    home = tmp_path_factory.mktemp("signatures")
    for name in ("key", "other"):
        make_key(home / name)
        Trainer(*small_parts()).fit(home / f"run of {name}")
        publish(home / f"run of {name}", home / f"bundle of {name}")
        sign(home / f"bundle of {name}", home / name)
    return home


@pytest.fixture
def bundle(home, tmp_path):
    return shutil.copytree(home / "bundle of key", tmp_path / "bundle")


def test_an_empty_folder_is_not_covered(home, bundle):
    (bundle / "tensorboard").mkdir()
    with pytest.raises(VerificationError, match="no empty folder, got 'tensorboard'"):
        verify(bundle, key=home / "key.pub")


def change(bundle, **values):
    place = bundle / "signature.json"
    written = json.loads(place.read_text()) | values
    place.write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")


def test_the_right_key_passes_and_another_fails(home, bundle):
    assert "give --key" in verify(bundle).checks[-1]
    verify(bundle, key=home / "key.pub")
    with pytest.raises(VerificationError, match="signed by another key"):
        verify(bundle, key=home / "other.pub")
    with pytest.raises(ConfigError, match="got a private key"):
        verify(bundle, key=home / "key")


def test_a_bundle_without_a_signature_fails_if_a_key_is_given(home, bundle):
    (bundle / "signature.json").unlink()
    verify(bundle)
    with pytest.raises(VerificationError, match=r"signature\.json must be there"):
        verify(bundle, key=home / "key.pub")


def test_a_rewritten_bundle_verifies_alone_but_not_with_head_or_key(home, bundle):
    """Everything that follows from the ledger was exchanged together, hashes included."""
    head = verify(bundle).certificate.values["ledger"]["head"]
    forged = shutil.copytree(home / "bundle of other", bundle.parent / "forged")
    verify(forged)
    with pytest.raises(VerificationError, match="not the one that was noted"):
        verify(forged, head=head)
    with pytest.raises(VerificationError, match="signed by another key"):
        verify(forged, key=home / "key.pub")
    shutil.copy(bundle / "signature.json", forged)
    with pytest.raises(
        VerificationError, match=r"does not cover certificate\.html, certificate\.json, "
    ):
        verify(forged)


def test_a_changed_signature_fails(home, bundle):
    good = json.loads((bundle / "signature.json").read_text())
    foreign = json.loads((home / "bundle of other" / "signature.json").read_text())
    flipped = ("0" if good["signature"][0] != "0" else "1") + good["signature"][1:]
    for values, words in (
        ({"signature": flipped}, "no valid signature"),
        ({"signature": foreign["signature"]}, "no valid signature"),
        ({"public_key": foreign["public_key"]}, "no valid signature"),
        ({"public_key": "00" * 32}, "no valid signature"),
        ({"files": {}}, "does not cover"),
        ({"files": good["files"] | {"more": "ab" * 32}}, "does not cover more"),
        ({"files": good["files"] | {"plan.json": "ab" * 32}}, r"does not cover plan\.json"),
        ({"signature": "xyz"}, "must be 128 hexadecimal digits"),
        ({"algorithm": "none"}, "algorithm must be ed25519"),
        ({"extra": 1}, "must have known parts only"),
    ):
        change(bundle, **(good | values))
        with pytest.raises(VerificationError, match=words):
            verify(bundle)
        (bundle / "signature.json").write_text(json.dumps(good, indent=2, sort_keys=True) + "\n")
    verify(bundle)
    (bundle / "signature.json").write_text(json.dumps(good))
    with pytest.raises(VerificationError, match="as reldp writes it"):
        verify(bundle)


def test_a_head_that_is_no_hash_is_bad_input(bundle):
    for head in ("", "abc", "G" * 64, "0" * 65):
        with pytest.raises(ConfigError, match="must be 64 hexadecimal digits"):
            verify(bundle, head=head)
