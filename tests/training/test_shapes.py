"""Shapes of microbatches follow from public values."""

import pytest

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
