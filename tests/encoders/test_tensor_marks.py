"""What is written into a part of some memory is seen on all of it."""

import torch

from reldp.encoders.tensor_marks import TensorMarks, tensors_in


def test_a_mark_on_a_tensor_is_of_that_tensor_alone():
    marks, x = TensorMarks(), torch.zeros(3, 2)
    assert marks.of(x) is None
    marks.set(x, False)
    assert marks.of(x) is False
    assert marks.of(x[:, 0]) is None
    marks.set(x, True)
    assert marks.of(x) is True


def test_a_mark_that_a_write_leaves_is_of_all_tensors_of_the_memory_and_stays():
    marks, x = TensorMarks(), torch.zeros(3, 2)
    marks.write(x[:, 0], False)
    assert marks.of(x) is False
    assert marks.of(x.view(-1)) is False
    marks.write(x[0], True)
    marks.write(x[1], False)
    assert marks.of(x) is marks.of(x.data) is marks.of(x[2]) is True
    assert marks.of(x.clone()) is None


def test_memory_that_is_gone_gives_its_marks_to_no_other():
    marks = TensorMarks()
    for _ in range(50):
        x = torch.zeros(1000)
        assert marks.of(x) is None
        marks.write(x, True)
        del x


def test_sparse_tensors_have_marks_of_their_own():
    marks, x = TensorMarks(), torch.eye(3).to_sparse()
    marks.write(x, True)
    assert marks.of(x) is True
    assert len(tensors_in(([x], {"a": (x, 1)}))) == 2
