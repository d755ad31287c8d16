"""Bundles are signed by Ed25519 keys of the usual formats, and nothing else is signed."""

import stat

import pytest
import torch
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reldp.errors import ConfigError, VerificationError
from reldp.reporting import verify
from reldp.reporting.bundle import publish
from reldp.reporting.publishing import write_report
from reldp.reporting.signature import read_public_key
from reldp.reporting.signing import make_key, sign
from reldp.training import Trainer
from tests.reporting.killed import killed_writing
from tests.training.small import small_parts

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("signed")
    Trainer(*small_parts()).fit(home / "run")
    return home / "run"


@pytest.fixture
def bundle(run, tmp_path):
    publish(run, tmp_path / "bundle")
    return tmp_path / "bundle"


def written(key, place, *, form=None, password=None):
    """A private key's file in some format."""
    hidden = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    form = form or serialization.PrivateFormat.PKCS8
    place.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, hidden))
    return place


def test_a_new_key_signs_and_its_public_part_verifies(bundle, tmp_path):
    public = make_key(tmp_path / "key")
    assert public == tmp_path / "key.pub"
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE(public.stat().st_mode) == 0o644
    assert sign(bundle, tmp_path / "key") == read_public_key(public)
    assert verify(bundle, key=public).checks[-1].endswith("by the given key")
    sign(bundle, tmp_path / "key")  # again: the signature does not cover itself
    verify(bundle, key=public)
    with pytest.raises(ConfigError, match="must name a new file"):
        make_key(tmp_path / "key")


@pytest.mark.parametrize(
    ("form", "password"), [("PKCS8", None), ("PKCS8", b"hunter2"), ("OpenSSH", None)]
)
def test_keys_of_openssl_and_openssh_are_read(bundle, tmp_path, form, password):
    key = Ed25519PrivateKey.generate()
    private = getattr(serialization.PrivateFormat, form)
    place = written(key, tmp_path / "key", form=private, password=password)
    if password:
        with pytest.raises(ConfigError, match="has a password"):
            sign(bundle, place)
        with pytest.raises(ConfigError):
            sign(bundle, place, password=b"another")
    sign(bundle, place, password=password)
    encoding, public = (
        (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        if form == "OpenSSH"
        else (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    (tmp_path / "key.pub").write_bytes(key.public_key().public_bytes(encoding, public))
    verify(bundle, key=tmp_path / "key.pub")


def test_an_openssh_key_with_a_password_names_the_package_that_it_needs(tmp_path, monkeypatch):
    def load(data, password):
        raise UnsupportedAlgorithm("Need bcrypt module")

    monkeypatch.setattr(serialization, "load_ssh_private_key", load)
    (tmp_path / "key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----")
    with pytest.raises(ConfigError, match="which needs the package bcrypt"):
        sign(tmp_path, tmp_path / "key")


def test_other_keys_are_refused(bundle, tmp_path):
    other = written(Ed448PrivateKey.generate(), tmp_path / "other")
    (tmp_path / "noise").write_bytes(b"\x00\xff" * 99)
    for place in (other, tmp_path / "noise"):
        with pytest.raises(ConfigError, match="must be an Ed25519 private key"):
            sign(bundle, place)
        with pytest.raises(ConfigError, match="must be an Ed25519 public key"):
            read_public_key(place)
    assert not (bundle / "signature.json").exists()


def test_a_run_folder_and_a_changed_bundle_are_not_signed(run, bundle, tmp_path):
    make_key(tmp_path / "key")
    with pytest.raises(ConfigError, match=r"got a run folder, with sensitive\.json"):
        sign(run, tmp_path / "key")
    (bundle / "report.html").write_text("all is well")
    with pytest.raises(VerificationError, match=r"report\.html is not the page"):
        sign(bundle, tmp_path / "key")


def test_a_killed_signature_is_in_nobodys_way(bundle, tmp_path):
    public = make_key(tmp_path / "key")
    partial = killed_writing(
        bundle / "signature.json", "sign", str(bundle), "--key", str(tmp_path / "key")
    )
    with pytest.raises(
        VerificationError, match=r"'signature\.json\.partial' is what a stopped command left"
    ):
        verify(bundle)
    assert partial.exists()  # a bundle is not changed by those who read it
    (bundle / "report.html.partial").touch()
    (bundle / "other.partial").touch()
    with pytest.raises(VerificationError, match=r"other\.partial"):
        sign(bundle, tmp_path / "key")
    (bundle / "other.partial").unlink()
    sign(bundle, tmp_path / "key")
    verify(bundle, key=public)
    partial.touch()
    write_report(bundle)
    verify(bundle, key=public)
