"""Lines of evaluations.jsonl: the results of an evaluation, and of the encoder before training beside them.

Everything in a line is sensitive: it is computed from the relations of the test graph without noise (theory.md 6).

Public inside the package: `BEFORE`, `AFTER`, `evaluation_lines`.

>>> AFTER
'after training'
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reldp.evaluation.protocol import EvaluationResult

__all__ = ["AFTER", "BEFORE", "evaluation_lines"]

BEFORE = "before training"
"""Value of ``encoder`` in the line of an evaluation of the encoder that a run started from."""

AFTER = "after training"
"""Value of ``encoder`` in the line of the trained encoder, where there is one from before training."""


def evaluation_lines(
    named: Mapping[str, Any], before: "EvaluationResult | None", after: "EvaluationResult"
) -> list[dict[str, Any]]:
    """Return the lines of an evaluation after training, and of the one before it if that was made.

    Args:
        named: Values that both lines begin with, such as the name of the graph.
        before: The result of the encoder that the run started from, with the same settings.
        after: The result of the trained encoder.
    """
    if before is None:
        return [{**named, **after.to_json()}]
    gains = {name: after.gain_over(before, name) for name in after.metrics}
    return [
        {**named, "encoder": BEFORE, **before.to_json()},
        {
            **named,
            "encoder": AFTER,
            **after.to_json(),
            "gain": {name: [gain.value, gain.low, gain.high] for name, gain in gains.items()},
        },
    ]
