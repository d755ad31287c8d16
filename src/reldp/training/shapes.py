"""The shapes of a run's microbatches, from the plan, the encoder and the settings: all public.

Private to the package: `microbatch_shapes`.

>>> microbatch_shapes.__name__
'microbatch_shapes'
"""

from typing import TYPE_CHECKING, Any

from reldp.encoders.tokens import RowTable
from reldp.errors import ConfigError
from reldp.gradients.microbatches import MicrobatchShapes, typical_units

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.plan import PrivacyPlan

__all__ = ["microbatch_shapes"]


def microbatch_shapes(
    plan: "PrivacyPlan", encoder: "Encoder", table: Any, *, units: int | None = None
) -> MicrobatchShapes:
    """Return the shapes of microbatches.

    Args:
        plan: The plan.
        encoder: The encoder.
        table: The result of ``encoder.table``; only its kind is looked at.
        units: Clip units of every microbatch; None chooses them by length.

    Raises:
        ConfigError: Rows have tokens, and the encoder does not say how many at most.
    """
    k = plan.num_negatives
    max_length = getattr(encoder, "max_length", None)
    if not isinstance(table, RowTable):
        max_length = None
    elif not isinstance(max_length, int):
        raise ConfigError(
            "`encoder` must have a max_length for rows of tokens, got none. Shapes of "
            "microbatches must be public, so they cannot be taken from the texts."
        )
    units_per_tuple = plan.clipping.units_per_tuple(k)
    return MicrobatchShapes(
        rows_per_unit=plan.clipping.rows_per_unit(k),
        typical_units=typical_units(plan.expected_batch_size, units_per_tuple),
        max_length=max_length,
        device_type=encoder.device.type,
        units=units,
    )
