"""Bundles are signed by Ed25519 keys of the usual formats, and nothing else is signed."""

import base64
import stat
import time

import pytest
import torch
from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
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


def test_an_openssh_key_with_a_password_is_to_be_converted(tmp_path, monkeypatch):
    """Its file states the work to check a password: 2^32 rounds in a key of somebody else."""

    def load(data, password):
        assert password is None
        raise UnsupportedAlgorithm("Need bcrypt module")

    monkeypatch.setattr(serialization, "load_ssh_private_key", load)
    (tmp_path / "key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----")
    for password in (None, b"hunter2"):
        with pytest.raises(
            ConfigError, match=r"must be in PEM format .* Convert it with ssh-keygen"
        ):
            sign(tmp_path, tmp_path / "key", password=password)


def test_the_numbers_of_a_large_key_are_not_checked(tmp_path, monkeypatch):
    """An RSA key of primes with thousands of digits takes minutes to load, whatever becomes of it."""
    place = tmp_path / "key"
    monkeypatch.setattr(serialization, "load_pem_private_key", lambda *given: pytest.fail("loaded"))
    place.write_text(
        "-----BEGIN PRIVATE KEY-----\n" + "A" * 12_000 + "\n-----END PRIVATE KEY-----\n"
    )
    with pytest.raises(ConfigError, match=r"which has a few hundred bytes, got 12,0\d\d in 'key'"):
        sign(tmp_path, place)


def encoded(tag, *parts):
    """An element of DER."""
    content = b"".join(parts)
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x81, size])
    return bytes([tag]) + length + content


def whole(number):
    return encoded(2, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def encrypted(place, scheme, *numbers):
    """A key's file of made-up content whose password is checked with these settings."""
    scheme, aes = (
        encoded(6, bytes.fromhex(digits)) for digits in (SCHEMES[scheme], "60864801650304012a")
    )
    settings = encoded(0x30, encoded(4, b"saltsalt"), *map(whole, numbers))
    scheme, aes = (
        encoded(0x30, scheme, settings),
        encoded(0x30, aes, encoded(4, bytes(16))),
    )
    both = encoded(6, bytes.fromhex("2a864886f70d01050d")), encoded(0x30, scheme, aes)
    der = encoded(0x30, encoded(0x30, *both), encoded(4, bytes(64)))
    return as_pem(place, der)


def as_pem(place, der):
    name = b"ENCRYPTED PRIVATE KEY-----\n"
    place.write_bytes(b"-----BEGIN " + name + base64.encodebytes(der) + b"-----END " + name)
    return place


SCHEMES = {"PBKDF2": "2a864886f70d01050c", "scrypt": "2b06010401da47040b"}


@pytest.mark.parametrize(
    ("scheme", "numbers"),
    [
        ("PBKDF2", (2**31 - 1,)),
        ("PBKDF2", (2**31 - 1, 0)),
        ("PBKDF2", (2**31 - 1, 32)),
        ("scrypt", (2**30, 8, 1)),
        ("scrypt", (2**20, 8, 1000)),
        ("scrypt", (2**14, 8, 2**200)),
    ],
)
def test_a_password_that_takes_hours_to_check_is_refused(tmp_path, scheme, numbers):
    place = encrypted(tmp_path / "key", scheme, *numbers)
    started = time.monotonic()
    for password in (None, b"hunter2"):
        with pytest.raises(
            ConfigError, match=r"must have a password that takes seconds .* fewer\.$"
        ):
            sign(tmp_path, place, password=password)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("scheme", "numbers"),
    [("PBKDF2", (600_000, 32)), ("PBKDF2", (1_000_000,)), ("scrypt", (2**14, 8, 1, 32))],
)
def test_ordinary_settings_are_tried(tmp_path, scheme, numbers):
    place = encrypted(tmp_path / "key", scheme, *numbers)
    with pytest.raises(ConfigError, match="has another password"):
        sign(tmp_path, place, password=b"hunter2")


def test_the_iterations_of_a_real_key_are_read(bundle, tmp_path):
    place = written(Ed25519PrivateKey.generate(), tmp_path / "key", password=b"hunter2")
    sign(bundle, place, password=b"hunter2")
    der = bytearray(base64.b64decode(b"".join(place.read_bytes().splitlines()[1:-1])))
    assert der[51:55] == b"\x02\x02\x08\x00"  # 2048
    der[51:55] = b"\x02\x04\x7f\xff\xff\xff"
    for length in (2, 4, 17, 19, 32):  # of everything around it
        der[length] += 2
    with pytest.raises(ConfigError, match="multiply to 2,147,483,647, above 33,554,432"):
        sign(bundle, as_pem(place, der), password=b"hunter2")


def test_damaged_encrypted_keys_are_no_keys(tmp_path):
    place = written(Ed25519PrivateKey.generate(), tmp_path / "key", password=b"hunter2")
    der = base64.b64decode(b"".join(place.read_bytes().splitlines()[1:-1]))
    deep = encoded(5)
    for _ in range(12):
        deep = encoded(0x30, deep)
    for damaged in (
        *(der[:size] for size in range(len(der))),
        der + b"\0",
        der[:1] + b"\x80" + der[2:],
        encoded(0x30, deep),
        encoded(0x30, encoded(0x30, b"\x1f\x01\x00")),
        b"\x30\x84\x00\x00\x00\x02\x30\x00",
        encoded(4, b""),
    ):
        as_pem(place, damaged)
        with pytest.raises(ConfigError, match="must be an Ed25519 private key"):
            sign(tmp_path, place, password=b"hunter2")
    place.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    with pytest.raises(ConfigError, match="must be an Ed25519 private key"):
        sign(tmp_path, place)


@pytest.mark.parametrize("error", [InternalError("OpenSSL", []), MemoryError(), OverflowError()])
def test_settings_that_the_library_cannot_meet_are_one_line(tmp_path, monkeypatch, error):
    def load(data, password):
        raise error

    monkeypatch.setattr(serialization, "load_der_private_key", load)
    place = written(Ed25519PrivateKey.generate(), tmp_path / "key", password=b"hunter2")
    with pytest.raises(ConfigError, match="must be an Ed25519 private key"):
        sign(tmp_path, place, password=b"hunter2")


def test_only_a_key_with_a_password_is_said_to_have_one(tmp_path):
    key = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    place = written(key, tmp_path / "key", form=form)
    lines = place.read_bytes().splitlines(keepends=True)
    place.write_bytes(b"".join(lines[:4] + lines[-1:]))
    for password in (None, b"hunter2"):
        with pytest.raises(ConfigError, match="must be an Ed25519 private key"):
            sign(tmp_path, place, password=password)
    written(key, place, form=form, password=b"hunter2")
    with pytest.raises(ConfigError, match="has a password"):
        sign(tmp_path, place)
    with pytest.raises(ConfigError, match="has another password"):
        sign(tmp_path, place, password=b"another")
    make_key(tmp_path / "open")
    with pytest.raises(ConfigError, match=r"which has none\. Leave out --password"):
        sign(tmp_path, tmp_path / "open", password=b"hunter2")


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
