import numpy as np
import pytest

from reldp.encoders.token_rows import TokenRows
from reldp.errors import EncoderError


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"max_length": 0}, "max_length"), ({"mask": "mask"}, "mask"), ({"max_length": 2}, "lengths")],
)
def test_lengths_and_names_must_fit_together(changed, named):
    settings = {"lengths": np.array([3, 1]), "max_length": 3, "padding": {"ids": 0}, **changed}
    with pytest.raises(EncoderError, match=f"`{named}`"):
        TokenRows(**settings)


def test_a_table_without_rows_has_no_lengths():
    assert TokenRows(lengths=np.zeros(0, int), max_length=1, padding={"ids": 0}).mask is None
