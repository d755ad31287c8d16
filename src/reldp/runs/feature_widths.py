"""Number of weights of an encoder of features, or of a head, from the widths in its description.

A ledger of a few bytes can name any widths, and layers of 131,072 by 131,072 take 64 GiB. So the widths are compared
with the weights that a run folder holds before an encoder is made from them.

Private to the package: `num_feature_weights`, `refuse_wide_layers`.

>>> num_feature_weights({"kind": "features", "in_dim": 8, "hidden": [5], "dim": 4, "bias": True})
69
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from reldp._validate import is_integer
from reldp.errors import LedgerError
from reldp.runs.run_folder import RunFolder

__all__ = ["num_feature_weights", "refuse_wide_layers"]

_BYTES = 4  # of a weight


def num_feature_weights(described: Mapping[str, Any]) -> int | None:
    """Return how many weights the layers have, at least; None if the description does not say it."""
    part: Any = described
    first = [described.get("in_dim")]
    if described.get("kind") == "text":  # a head on a frozen model; its first layer is left out
        part, first = described.get("adaptation"), []
    hidden = part.get("hidden") if isinstance(part, dict) else None
    if described.get("kind") not in ("features", "text") or not isinstance(hidden, list):
        return None
    stated = [*first, *hidden, part.get("dim")]
    widths = [width for width in stated if is_integer(width) and width > 0]
    if len(widths) < len(stated):
        return None
    biases = bool(part.get("bias", True))
    return sum((before + biases) * after for before, after in pairwise(widths))


def refuse_wide_layers(run: RunFolder, described: Mapping[str, Any]) -> None:
    """Refuse an encoder of features with more weights than any file of a run holds.

    Args:
        run: The run folder.
        described: ``encoder`` of the ledger's start.

    Raises:
        LedgerError: It has more.
    """
    count = num_feature_weights(described)
    files = [*run.model.glob("*.safetensors"), *run.checkpoints.glob("*.safetensors")]
    largest = max((path.stat().st_size for path in files if path.is_file()), default=0)
    if count is not None and _BYTES * count > largest:
        raise LedgerError(
            f"ledger.jsonl: start.encoder must have the widths of the weights in the run folder, got {count:,} weights "
            f"and files of at most {largest:,} bytes. It is damaged, or belongs to another run."
        )
