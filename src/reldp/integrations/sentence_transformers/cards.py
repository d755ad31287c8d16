"""The model card of a private SentenceTransformer: the certificate in its metadata and in a section.

    ---
    library_name: sentence-transformers
    differential_privacy:
      epsilon: 3.97
      delta: 1.0e-06
      unit: entity
      ...

A pure function of the certificate. It quotes no text of the data and no value of an evaluation, unlike the card that
sentence-transformers writes.

Inside the package: `private_card`, `privacy_metadata`, `write_card`.

>>> _yaml({"epsilon": 3.5, "unit": "entity"})
['differential_privacy:', '  epsilon: 3.5', '  unit: "entity"']
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reldp.encoders.hub import is_hub_name
from reldp.runs.certificate import Certificate
from reldp.runs.model_card import model_card

__all__ = ["CERTIFICATE_FILES", "privacy_metadata", "private_card", "write_card"]

CERTIFICATE_FILES = ("certificate.json", "certificate.md")
_TAGS = ("sentence-transformers", "sentence-similarity", "feature-extraction")


def privacy_metadata(certificate: Certificate) -> dict[str, Any]:
    """Return what the card's metadata says about the guarantee."""
    values = certificate.values
    return {
        "epsilon": values["guarantee"]["epsilon"]["pld"],
        "delta": values["guarantee"]["delta"],
        "unit": values["guarantee"]["unit"],
        "status": values["guarantee"]["status"],
        "steps": values["steps"]["counted"],
        "ledger_head": values["ledger"]["head"],
    }


def private_card(certificate: Certificate) -> str:
    """Return the content of README.md: the run's own card, with more metadata."""
    opening, fence, rest = model_card(certificate.values).partition("---\n")
    front, closing, body = rest.partition("---\n")
    tags = [f"- {tag}" for tag in _TAGS]
    lines = [
        *front.splitlines(),
        *tags,
        *_base_model(str(certificate.values["encoder"].get("base_model", ""))),
        "pipeline_tag: sentence-similarity",
        *_yaml(privacy_metadata(certificate)),
    ]
    return opening + fence + "\n".join(lines) + "\n" + closing + body


def write_card(folder: Path, certificate: Certificate) -> None:
    """Write README.md, certificate.json and certificate.md into a model's folder."""
    contents = (private_card(certificate), certificate.to_json(), certificate.to_markdown())
    for name, content in zip(("README.md", *CERTIFICATE_FILES), contents, strict=True):
        (folder / name).write_text(content, encoding="utf-8")


def _base_model(name: str) -> list[str]:
    """Return the base model if it has a name on the hub; that of a folder would lead nowhere."""
    return [f"base_model: {name}"] if is_hub_name(name) and "/" in name else []


def _yaml(values: Mapping[str, Any]) -> list[str]:
    """Return plain values as a block of YAML."""
    return ["differential_privacy:", *(f"  {k}: {_scalar(v)}" for k, v in values.items())]


def _scalar(value: Any) -> str:
    """Return a JSON value as YAML reads it: 1e-06 is a number only with a point in it.

    >>> _scalar(1e-06), _scalar(3), _scalar("entity")
    ('1.0e-06', '3', '"entity"')
    """
    text = json.dumps(value)
    number, exponent, power = text.partition("e")
    is_short = isinstance(value, float) and exponent and "." not in number
    return f"{number}.0e{power}" if is_short else text
