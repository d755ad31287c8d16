"""Signing a published bundle with an Ed25519 key, and making such keys.

Keys are in PEM format (PKCS8, as ``openssl genpkey -algorithm ed25519`` writes) or in OpenSSH format. The private
key is read when a bundle is signed, and stored nowhere. `reldp.reporting.signature` says what is signed.

The file of an encrypted key states how much work it is to check a password, and whether the numbers of an RSA key are
prime is checked before its kind is known. The key may come from somebody else, so both are bounded before they begin.

Public inside the package: `sign`, `make_key`.

>>> sign("nowhere", "key.pem")
Traceback (most recent call last):
reldp.errors.RunError: key.pem must be there to be read: No such file or directory.
"""

import base64
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.exceptions import InternalError, UnsupportedAlgorithm
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
_ENCRYPTED = b"ENCRYPTED PRIVATE KEY"
_BLOCK = re.compile(
    b"-----BEGIN %b-----(.*?)-----END %b-----" % (_ENCRYPTED, _ENCRYPTED), re.DOTALL
)
# PBKDF2 with 600,000 iterations for 32 bytes has 2^24.2, scrypt with N = 2^20 and r = 8 has 2^23.
_MAX_WORK = 2**25
_LARGEST = 2**11  # bytes; an encrypted key has 300, one in OpenSSH format 400
_INTEGER, _SEQUENCE, _CONSTRUCTED = 0x02, 0x30, 0x20  # tags of DER
_MAX_DEPTH = 8
_REFUSALS = (
    *(ValueError, TypeError, UnsupportedAlgorithm),
    *(InternalError, MemoryError, OverflowError),  # settings that the library cannot meet
)


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
    if len(data) > _LARGEST:
        raise ConfigError(
            f"`key` must be an Ed25519 private key, which has a few hundred bytes, got {len(data):,} in "
            f"{place.name!r}. reldp sign --make-key FILE makes one."
        )
    load = _loader(data, place.name)
    key: Any = None
    try:
        key = load(password)
    except _REFUSALS as error:
        if "bcrypt" in str(error):
            raise ConfigError(
                "`key` must be in PEM format if it has a password, got OpenSSH format. Convert it with "
                "ssh-keygen, or leave out --password if it has none."
            ) from None
        encrypted = _ENCRYPTED in data or b"Proc-Type: 4,ENCRYPTED" in data
        if isinstance(error, TypeError) and password is not None and not encrypted:
            raise ConfigError(
                f"`password` must be of a key that has one, got one for {place.name!r}, which has none. "
                "Leave out --password."
            ) from None
        wrong = encrypted and password is not None and isinstance(error, ValueError)
        if isinstance(error, TypeError) or wrong:
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


def _loader(data: bytes, name: str) -> Callable[[bytes | None], Any]:
    """Return what reads the key in a file of any format, given its password.

    Raises:
        ConfigError: It would take too long.
    """
    if b"OPENSSH PRIVATE KEY" in data:
        return partial(_load_openssh, data)
    if _ENCRYPTED not in data:
        return partial(serialization.load_pem_private_key, data)
    try:
        match = _BLOCK.search(data)
        der = base64.b64decode(b"".join(match[1].split()) if match else b"", validate=True)
        work = _work(der)
    except ValueError:
        return lambda password: None  # no key
    if work > _MAX_WORK:
        raise ConfigError(
            f"`key` must have a password that takes seconds to check, got {name!r}, whose iterations and sizes "
            f"multiply to {work:,}, above {_MAX_WORK:,}. Encrypt it with fewer."
        )
    return partial(serialization.load_der_private_key, der)  # the bytes that were checked


def _load_openssh(data: bytes, password: bytes | None) -> Any:
    """Return a key in OpenSSH format; one with a password states any number of rounds, and is left to the user."""
    if password is not None:
        raise UnsupportedAlgorithm("bcrypt")
    return serialization.load_ssh_private_key(data, None)


def _work(der: bytes) -> int:
    """Return the product of the integers in the algorithm of an EncryptedPrivateKeyInfo, 2^64 if it is larger.

    Raises:
        ValueError: It is no such structure.
    """
    (tag, content), *more = _elements(der)
    algorithm, parameters = next(_elements(content), (0, b""))
    if tag != _SEQUENCE or more or algorithm != _SEQUENCE:
        raise ValueError
    return _product(parameters)


def _product(der: bytes, depth: int = 0) -> int:
    if depth > _MAX_DEPTH:
        raise ValueError
    product = 1
    for tag, content in _elements(der):
        factor = 1
        if tag == _INTEGER:
            factor = int.from_bytes(content, "big")
        elif tag & _CONSTRUCTED:
            factor = _product(content, depth + 1)
        product = min(product * max(factor, 1), 2**64)  # 0 must not hide the other factors
    return product


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of the elements that follow one another in DER."""
    place = 0
    while place < len(der):
        tag, length = der[place], int.from_bytes(der[place + 1 : place + 2], "big")
        place += 2
        if length > 0x7F:
            size = length - 0x80
            length = int.from_bytes(der[place : place + size], "big")
            place += size
            if length < 0x80 or length >> (8 * (size - 1)) == 0:
                raise ValueError  # it has a shorter form
        if tag & 0x1F == 0x1F or length > len(der) - place:
            raise ValueError
        yield tag, der[place : place + length]
        place += length
