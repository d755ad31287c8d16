"""signature.json of a published bundle: who published it, besides what follows from what.

Verification shows that a certificate follows from its ledger. It cannot show who wrote both. So a publisher
signs the bundle (`reldp.reporting.signing`): signature.json holds the SHA-256 of every other file of the
bundle, a public Ed25519 key, and the signature over both. `reldp.verify` checks the hashes and the signature of
every bundle that has one; with a key that the reader got from somewhere else, it also checks that this
key signed.

Private to the package: `check_signature`, `read_public_key`, `file_hashes`, `signature_bytes`, `signed_message`,
`key_digits`, `KEY_LIMIT`.

>>> key_digits(Ed25519PublicKey.from_public_bytes(bytes(32)))[:8]
'00000000'
"""

import json
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from reldp._real_path import real_path
from reldp.errors import ConfigError, VerificationError
from reldp.runs import schema
from reldp.runs.plain_files import hash_plain, list_plain, read_plain
from reldp.runs.run_folder import FILE_LIMIT, RunFolder
from reldp.runs.strict_json import parse_json

__all__ = [
    "KEY_LIMIT",
    "check_signature",
    "file_hashes",
    "key_digits",
    "read_public_key",
    "signature_bytes",
    "signed_message",
]

KEY_LIMIT = 2**16
_PURPOSE = b"reldp bundle signature 1\n"
_HEX_KEY = schema.HASH  # 32 bytes
_HEX_SIGNATURE = schema.Rule(
    "128 hexadecimal digits",
    lambda v: type(v) is str and len(v) == 128 and set(v) <= set("0123456789abcdef"),
)
_SCHEMA = {
    "format": schema.Rule("1", lambda v: type(v) is int and v == 1),
    "algorithm": schema.Rule("ed25519", lambda v: v == "ed25519"),
    "public_key": _HEX_KEY,
    "files": schema.HASHES,
    "signature": _HEX_SIGNATURE,
}


def read_public_key(path: str | Path) -> str:
    """Return the public key in a file as 64 hexadecimal digits.

    Raises:
        ConfigError: The file holds no Ed25519 public key.
        RunError: The file cannot be read.
    """
    place = Path(path)
    data = read_plain(real_path(place), limit=KEY_LIMIT)
    try:
        if data.lstrip().startswith(b"ssh-"):
            key: Any = serialization.load_ssh_public_key(data)
        else:
            key = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        kind = "a private key" if b"PRIVATE KEY" in data else "something else"
        raise ConfigError(
            f"`key` must be an Ed25519 public key in PEM or OpenSSH format, got {kind} in "
            f"{place.name!r}."
        )
    return key_digits(key)


def check_signature(run: RunFolder, key: str | None) -> str:
    """Check a bundle's signature.json against its files.

    Args:
        run: The bundle.
        key: The public key that must have signed; None checks the signature with the key that it names.

    Returns:
        The public key that signed.

    Raises:
        VerificationError: A file differs, the signature is not valid, or another key signed.
    """
    values = _parse(run)
    public, files = values["public_key"], values["files"]
    present = file_hashes(run)
    differences = [
        name
        for name in sorted({*files, *present})
        if name not in files or files[name] != present.get(name)
    ]
    if differences:
        raise VerificationError(f"signature.json does not cover {', '.join(differences[:8])}.")
    try:
        signer = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        signer.verify(bytes.fromhex(values["signature"]), signed_message(public, files))
    except (InvalidSignature, ValueError):
        raise VerificationError("signature.json has no valid signature.") from None
    if key is not None and key != public:
        raise VerificationError(f"signature.json is signed by another key, {public}.")
    return str(public)


def _parse(run: RunFolder) -> dict[str, Any]:
    """Return the content of signature.json, in exactly the form that `sign` writes."""
    data = read_plain(run.signature, limit=FILE_LIMIT)
    values = parse_json(data, run.signature.name)
    try:
        schema.check(values, _SCHEMA)
    except schema.SchemaError as error:
        raise VerificationError(f"{run.signature.name}: {error}.") from None
    if signature_bytes(values) != data:
        raise VerificationError("signature.json must be written as reldp writes it.")
    return dict(values)


def file_hashes(run: RunFolder) -> dict[str, str]:
    """Return the SHA-256 of every file of the bundle, except for its signature."""
    listing = list_plain(run.path)
    if listing.empty:
        raise VerificationError(
            f"The bundle must hold no empty folder, got {listing.empty[0]!r}: a signature covers files."
        )
    names = [name for name in listing.files if name != run.signature.name]
    return {name: hash_plain(run.path / name) for name in names}


def signed_message(public: str, files: dict[str, str]) -> bytes:
    """Return what is signed: the purpose, the key and the hashes, in one order."""
    values = {"files": files, "public_key": public}
    return _PURPOSE + json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def signature_bytes(values: dict[str, Any]) -> bytes:
    """Return the content of signature.json."""
    return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode()


def key_digits(key: Ed25519PublicKey) -> str:
    """Return a public key as 64 hexadecimal digits."""
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()
