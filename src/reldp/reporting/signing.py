"""Signing a published bundle with an Ed25519 key, and making such keys.

Keys are in PEM format (PKCS8, as ``openssl genpkey -algorithm ed25519`` writes) or in OpenSSH format. The private
key is read when a bundle is signed, and stored nowhere. `reldp.reporting.signature` says what is signed.

Public inside the package: `sign`, `make_key`.

>>> sign("nowhere", "key.pem")
Traceback (most recent call last):
reldp.errors.RunError: key.pem must be there to be read: No such file or directory.
"""

from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reldp._real_path import real_path
from reldp.errors import ConfigError
from reldp.reporting.signature import (
    KEY_LIMIT,
    file_hashes,
    key_digits,
    signature_bytes,
    signed_message,
)
from reldp.reporting.verification import verify_unsigned
from reldp.runs.durable import write_durably
from reldp.runs.plain_files import read_plain
from reldp.runs.run_folder import RunFolder

__all__ = ["make_key", "sign"]

_OWNER_FILES = ("key", "sensitive", "checkpoints", "metrics", "evaluations", "tensorboard")


def make_key(path: str | Path) -> Path:
    """Make a key pair: the private key at `path`, for its owner only, and the public one at ``path.pub``.

    Returns:
        The file of the public key.

    Raises:
        ConfigError: One of the files exists.
    """
    private = Path(path)
    public = private.with_name(private.name + ".pub")
    for place in (private, public):
        if place.exists():
            raise ConfigError(f"`make_key` must name a new file, got {place.name!r}, which exists.")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    shown = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    write_durably(private, secret, mode=0o600)
    write_durably(public, shown)
    return public


def sign(folder: str | Path, key: str | Path, *, password: bytes | None = None) -> str:
    """Verify a bundle and write its signature.json; first remove what killed commands left.

    Args:
        folder: The bundle, as `reldp publish` made it; its signature, if it has one, is replaced.
        key: The file of the private key.
        password: The key's password, if it has one.

    Returns:
        The public key, 64 hexadecimal digits.

    Raises:
        ConfigError: The key is no Ed25519 private key, or the folder is a run folder and no bundle.
        RunError: The folder does not exist, or the disk cannot be written to.
        VerificationError: The bundle does not verify.
    """
    private = _private_key(Path(key), password)
    run = RunFolder(folder)
    for name in _OWNER_FILES:
        place: Path = getattr(run, name)
        if place.exists():
            raise ConfigError(
                f"`folder` must be a published bundle, got a run folder, with {place.name}. Publish it first: "
                "reldp publish RUN -o BUNDLE."
            )
    run.remove_leftovers(in_bundle=True)
    verify_unsigned(run)
    public, files = key_digits(private.public_key()), file_hashes(run)
    values = {
        "format": 1,
        "algorithm": "ed25519",
        "public_key": public,
        "files": files,
        "signature": private.sign(signed_message(public, files)).hex(),
    }
    write_durably(run.signature, signature_bytes(values))
    return public


def _private_key(place: Path, password: bytes | None) -> Ed25519PrivateKey:
    data = read_plain(real_path(place), limit=KEY_LIMIT)
    openssh = b"OPENSSH PRIVATE KEY" in data
    load: Any = (
        serialization.load_ssh_private_key if openssh else serialization.load_pem_private_key
    )
    key: Any = None
    try:
        key = load(data, password)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if "bcrypt" in str(error):
            raise ConfigError(
                "`key` must be in PEM format if it has a password, got OpenSSH format, which needs the "
                "package bcrypt."
            ) from None
        if "password" in str(error).lower() or "encrypted" in str(error).lower():
            raise ConfigError(
                f"`key` must be readable, got {place.name!r}, which has "
                f"{'a' if password is None else 'another'} password. Use --password."
            ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(
            "`key` must be an Ed25519 private key in PEM or OpenSSH format, got something else in "
            f"{place.name!r}. reldp sign --make-key FILE makes one."
        )
    return key
