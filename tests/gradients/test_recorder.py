"""What one backward leaves behind."""

import pytest
import torch

from reldp.errors import UnsupportedParameter
from reldp.gradients.recorder import KeptLinear, Recorder


def _recorder() -> Recorder:
    small = torch.ones(3, requires_grad=True)
    large = torch.ones(4, 5, dtype=torch.bfloat16, requires_grad=True)
    return Recorder({"small": small, "large": large}, ghost_names={"large"})


def test_probes_are_leaves_without_memory_of_their_own() -> None:
    recorder = _recorder()
    recorder.start(units=1000, rows_per_unit=2)
    probe = recorder.probe("small")
    assert probe.is_leaf
    assert probe.requires_grad
    assert probe.shape == (1000, 3)
    assert probe.untyped_storage().nbytes() == 4
    assert "large" not in recorder.probes


def test_uses_of_a_parameter_that_is_used_twice_are_added_by_autograd() -> None:
    recorder = _recorder()
    recorder.start(units=2, rows_per_unit=1)
    probe = recorder.probe("small")
    (probe.sum() + 2 * probe[1].sum()).backward()
    assert probe.grad is not None
    assert probe.grad.tolist() == [[1.0] * 3, [3.0] * 3]


def test_low_precision_parameters_have_single_precision_probes() -> None:
    recorder = Recorder({"w": torch.ones(2, dtype=torch.bfloat16)}, ghost_names=())
    recorder.start(units=1, rows_per_unit=1)
    assert recorder.probe("w").dtype == torch.float32


def test_a_new_chunk_starts_from_nothing() -> None:
    recorder = _recorder()
    recorder.start(units=2, rows_per_unit=1)
    recorder.probe("small").sum().backward()
    recorder.keep("large", KeptLinear(torch.ones(2, 1, 5), torch.ones(2, 1, 4)))
    recorder.start(units=3, rows_per_unit=2)
    assert recorder.probe("small").grad is None
    assert recorder.uses == {}
    assert recorder.rows == 6


def test_an_input_without_all_rows_is_refused_by_name() -> None:
    recorder = _recorder()
    recorder.start(units=2, rows_per_unit=3)
    recorder.check_rows("small", torch.ones(6, 4))
    for wrong in (torch.ones(2, 3, 4), torch.ones(4, 6), torch.ones(())):
        with pytest.raises(UnsupportedParameter, match="`small` must see 6 rows"):
            recorder.check_rows("small", wrong)
