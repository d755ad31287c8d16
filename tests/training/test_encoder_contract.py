"""What an encoder class gives is checked where it is given, and named."""

import numpy as np
import pytest
import torch

from reldp.errors import ConfigError, InputError
from reldp.training.encoder_contract import checked_description, checked_embeddings, checked_rows
from tests.training.small import small_encoder

ENCODER = small_encoder()


class Says:
    def __init__(self, described):
        self.describe = lambda: described


def test_what_fits_is_returned():
    rows = {"features": torch.ones(3, 6), "mask": torch.ones(3)}
    assert checked_rows(rows, 3, ENCODER) == rows
    embeddings = torch.ones(3, 4)
    assert checked_embeddings(embeddings, 3, ENCODER) is embeddings
    assert checked_description(ENCODER) == ENCODER.describe()
    assert checked_description(Says({"sizes": (1, 2)})) == {"sizes": [1, 2]}


@pytest.mark.parametrize(
    "rows",
    [
        *(None, {}, torch.ones(3, 6), [torch.ones(3, 6)]),
        *({"features": value} for value in (np.ones((3, 6)), torch.tensor(1.0), torch.ones(2, 6))),
        {"features": torch.ones(3, 6), "mask": torch.ones(4)},
    ],
)
def test_other_rows_are_refused(rows):
    with pytest.raises(InputError, match=r"`rows` must give .* from FeatureEncoder for 3 entities"):
        checked_rows(rows, 3, ENCODER)


@pytest.mark.parametrize(
    "embeddings",
    [
        None,
        np.ones((3, 4)),
        (torch.ones(3, 4),),
        *map(torch.ones, ((3,), (2, 4), (3, 5), (3, 4, 1))),
    ],
)
def test_other_embeddings_are_refused(embeddings):
    with pytest.raises(ConfigError, match=r"`embed` must return a tensor .*\(3, 4\) here, got"):
        checked_embeddings(embeddings, 3, ENCODER)


@pytest.mark.parametrize("described", [None, [], "x", {"a": float("nan")}, {"a": torch.ones(1)}])
def test_other_descriptions_are_refused(described):
    with pytest.raises(ConfigError, match=r"`describe` must return .* from Says"):
        checked_description(Says(described))
