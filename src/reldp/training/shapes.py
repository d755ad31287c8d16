"""The shapes of a run's microbatches, from the plan, the encoder and the settings: all public.

Private to the package: `microbatch_shapes`.

>>> microbatch_shapes.__name__
'microbatch_shapes'
"""

from typing import TYPE_CHECKING

from reldp.gradients.microbatches import MicrobatchShapes, typical_units

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan
    from reldp.training.unit_rows import UnitRows

__all__ = ["microbatch_shapes"]


def microbatch_shapes(
    plan: "PrivacyPlan", rows: "UnitRows", *, units: int | None = None, processes: int = 1
) -> MicrobatchShapes:
    """Return the shapes of microbatches.

    Args:
        plan: The plan.
        rows: The encoder's rows, of which only the device, the width and the maximum length are used: shapes must
            not depend on texts.
        units: Clip units of every microbatch; None chooses them by length.
        processes: Number of processes that share a batch. On a GPU, microbatches are as large as the share of one of
            them; on a CPU, where bits are compared, shapes do not depend on it.
    """
    k = plan.negatives_per_tuple
    units_per_tuple = plan.clipping.units_per_tuple(k)
    kind = rows.encoder.device.type
    typical = typical_units(plan.expected_batch_size, units_per_tuple)
    return MicrobatchShapes(
        rows_per_unit=plan.clipping.rows_per_unit(k),
        typical_units=typical if kind == "cpu" else -(-typical // processes),
        max_length=rows.tokens.max_length,
        device_type=kind,
        width=rows.encoder.dim,
        units=units,
    )
