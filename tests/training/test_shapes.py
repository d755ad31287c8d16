"""Shapes of microbatches follow from public values."""

import pytest
import torch

from reldp.training.shapes import microbatch_shapes
from reldp.training.unit_rows import UnitRows
from tests.training.small import small_parts


@pytest.mark.parametrize(("rule", "rows"), [("tuple", 5), ("pair", 3)])
def test_a_unit_has_the_rows_of_its_rule(rule, rows):
    encoder, capped, plan = small_parts(clipping=rule)
    shapes = microbatch_shapes(plan, UnitRows(encoder, encoder.table(capped)), units=7)
    assert shapes.rows_per_unit == rows
    assert shapes.units == 7
    assert shapes.max_length is None


def test_on_a_cpu_shapes_do_not_depend_on_the_number_of_processes():
    """So that any number of them computes a unit with the same bits; on a GPU each has room for its share."""
    encoder, capped, plan = small_parts()
    rows = UnitRows(encoder, encoder.table(capped))
    assert microbatch_shapes(plan, rows, processes=3) == microbatch_shapes(plan, rows)

    class OnGpu:
        encoder = type("Encoder", (), {"device": torch.device("cuda"), "dim": 4})
        tokens = rows.tokens

    alone, three = (microbatch_shapes(plan, OnGpu, processes=count) for count in (1, 3))
    assert three.typical_units == -(-alone.typical_units // 3)
