import numpy as np

from reldp.auditing.real_step import Outputs
from reldp.auditing.step_scores import step_scores


def outputs(values):
    array = np.asarray(values, dtype=np.float64)
    return Outputs(array, np.zeros(len(array), dtype=np.int64))


def test_scores_by_hand():
    near, far = outputs([[3.0, 3.0]]), outputs([[0.0, 0.0]])
    actual = step_scores(near, far)(outputs([[1.0, 1.0], [1.0, -1.0]]))
    root = 2**0.5
    assert np.allclose(actual["projection"], [root, 0])
    assert np.allclose(actual["distance from the median with"], [2 * root, 3 * root])
    assert np.allclose(actual["distance from the median without"], [root, 0])
    assert np.allclose(actual["orthogonal part"], [0, root])
