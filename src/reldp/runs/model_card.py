"""model/README.md: the model card, with the summary of the certificate.

A pure function of the certificate, so that `reldp.verify` can recompute and compare it.

Private to the package: `is_own_card`, `model_card`.

>>> _front_matter({"kind": "features"})[:3]
['---', 'tags:', '- differential-privacy']
"""

from collections.abc import Mapping
from typing import Any

from reldp.runs.certificate_text import given_rows, status_words, table
from reldp.runs.feature_widths import num_feature_weights
from reldp.runs.inert_text import code_text, inert_text
from reldp.runs.result_wording import part_condition
from reldp.runs.wording import shown, summary

__all__ = ["is_own_card", "model_card"]

_TEXT_USE = """```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
embeddings = model.encode(["a text", "another text"])
```"""

_POOLING_USE = """```python
from sentence_transformers import SentenceTransformer

# The code of the trained pooling comes from the package reldp, which must be installed; the folder holds none.
model = SentenceTransformer("path/to/this/folder", trust_remote_code=True)
embeddings = model.encode(["a text", "another text"])
```"""

_FEATURE_USE = """```python
from reldp import FeatureEncoder

encoder = FeatureEncoder.load("path/to/this/folder")
embeddings = encoder.encode(features)  # (entities, features) float32
```"""

_MODULE_USE = """```python
from reldp import ModuleEncoder

encoder = ModuleEncoder.load("path/to/this/folder", module, inputs)  # the module's code and inputs are yours
embeddings = encoder.encode_graph(graph)
```"""


def is_own_card(card: bytes) -> bool:
    """Return whether a model card is one of reldp's, whose metadata end with its tag."""
    metadata = card[:4096].split(b"\n---\n")[0]
    return card.startswith(b"---\n") and b"- reldp" in metadata.split(b"\n")


def model_card(values: Mapping[str, Any], *, has_count: bool = True) -> str:
    """Return the content of the model card.

    Args:
        values: The certificate.
        has_count: Whether it has the number of weights of a feature encoder: cards of versions before 0.8 do not.
    """
    encoder, guarantee = values["encoder"], values["guarantee"]
    kind = encoder["kind"]
    base, use = "dense features", _FEATURE_USE
    if kind == "text":
        is_pooling = encoder["adaptation"]["train"] == "pooling"
        base, use = code_text(encoder["base_model"]), _POOLING_USE if is_pooling else _TEXT_USE
    elif kind == "module":
        base, use = f"the module {code_text(encoder['module'])}", _MODULE_USE
    lines = [
        *_front_matter(encoder),
        "# An encoder trained on private relations",
        "",
        f"**{inert_text(summary(values))}**",
        "",
        f"Fine-tuned with reldp from {base} to predict relations between entities: related "
        "entities get similar embeddings.",
        "",
        "## Privacy",
        "",
        *table(
            [
                ("epsilon", shown(guarantee["epsilon"]["pld"])),
                *given_rows(guarantee),
                ("delta", shown(guarantee["delta"])),
                ("status", status_words(guarantee)),
                ("unit of privacy", guarantee["unit"]),
                ("neighboring graphs", guarantee["adjacency"]),
                ("sizes", guarantee["sizes"]),
                ("steps", _steps(values)),
                ("ledger head", values["ledger"]["head"]),
            ]
        ),
        "",
        "Not guaranteed:",
        "",
        *(f"- {inert_text(line)}" for line in values["not_guaranteed"]),
        "",
        "The run's certificate.md has all parameters and assumptions; `reldp verify` checks it.",
        "",
        "## Use",
        "",
        use,
        "",
        "## Training",
        "",
        *table(
            [
                ("trained parameters", encoder.get("adaptation", {}).get("train", "all layers")),
                *_count(encoder, has_count),
                *((name, value) for name, value in values["training"].items()),
            ]
        ),
    ]
    return "\n".join(lines) + "\n"


def _count(encoder: Mapping[str, Any], has_count: bool) -> list[tuple[str, object]]:
    """Return the number of trained parameters, where the description says it: all weights of feature encoders are."""
    known = num_feature_weights(encoder) if has_count else ""
    count = encoder.get("num_trainable", known)
    return [] if count is None else [("number of trained parameters", count)]


def _front_matter(encoder: Mapping[str, Any]) -> list[str]:
    """Return the metadata block that model hubs read."""
    lines = ["---", "library_name: sentence-transformers", "tags:", "- differential-privacy"]
    if encoder["kind"] != "text":
        lines = ["---", "tags:", "- differential-privacy"]
    return [*lines, "- reldp", "---", ""]


def _steps(values: Mapping[str, Any]) -> str:
    """Return the counted steps; where a run was ended early also the planned ones, and what epsilon is given."""
    steps = values["steps"]
    if "stopped_at" not in steps:
        return str(steps["counted"])
    return f"{steps['counted']:,} of {steps['planned']:,} planned{part_condition(values)}"
