import numpy as np
import pytest

from reldp.auditing.designs import OPPOSING_ELSEWHERE, ZERO_ELSEWHERE, Design
from reldp.errors import InputError


def test_units_with_the_entity_push_and_the_others_do_as_designed():
    touching = np.array([False, True])
    assert ZERO_ELSEWHERE.gradients(touching).tolist() == [[0.0], [100.0]]
    assert OPPOSING_ELSEWHERE.gradients(touching).tolist() == [[-100.0], [100.0]]


def test_the_direction_is_a_unit_vector():
    design = Design(name="slanted", touching=(3.0, 4.0), other=(0.0, 0.0))
    assert design.direction.tolist() == [0.6, 0.8]


def test_a_design_without_a_push_is_refused():
    with pytest.raises(InputError, match="`touching` must be a gradient"):
        Design(name="nothing", touching=(0.0,))
