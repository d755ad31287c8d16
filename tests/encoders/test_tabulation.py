"""Vectors of texts by a frozen model."""

import numpy as np
import pytest
import torch

from reldp.encoders.tabulation import tabulate

WIDTH = 7


def rows_of(lengths):
    """Rows whose tokens are numbers that belong to the text."""

    def rows(places, length):
        ids = torch.zeros((len(places), length))
        mask = torch.zeros((len(places), length))
        for row, place in enumerate(places):
            own = int(lengths[place])
            ids[row, :own] = torch.sin(1.0 + place + torch.arange(own) * 0.37)
            mask[row, :own] = 1.0
        return {"input_ids": ids, "attention_mask": mask}

    return rows


def synthetic(count, length):
    generator = torch.Generator().manual_seed(count * length)
    return {
        "input_ids": torch.randn((count, length), generator=generator),
        "attention_mask": torch.ones((count, length)),
    }


def table(run, lengths):
    out = {}
    sizes = set()

    def watched(rows):
        sizes.add(rows["input_ids"].shape[0])
        return run(rows)

    found = tabulate(watched, rows_of(lengths), synthetic, lengths, max_length=16, max_tokens=128)
    for places, vectors in found:
        out |= {int(lengths[p]) * 1000 + int(p): v for p, v in zip(places, vectors, strict=True)}
    return out, sizes


def plain(rows):
    return rows["input_ids"].cumsum(1)[:, -1:]


def by_place(rows):
    """A row's last bits depend on its place, as in the kernels of small layers."""
    out = plain(rows)
    return torch.where(torch.arange(len(out))[:, None] % 2 == 0, out, out * (1 + 2.0**-23))


def by_neighbors(rows):
    return plain(rows) + 1e-6 * rows["input_ids"].mean()


def by_neighbors_of_one_side(rows):
    out = plain(rows)
    return out + 1e-6 * torch.cat([out[1:], out[-1:]])


@pytest.mark.parametrize("run", [plain, by_place, by_neighbors, by_neighbors_of_one_side])
def test_no_text_s_vector_depends_on_the_other_texts(run):
    lengths = np.array([3, 9, 5, 16, 2, 7, 8, 4, 11, 1] * 5)
    whole, sizes = table(run, lengths)
    assert len(whole) == len(lengths)
    for leave in (0, 3, 17):
        # Texts keep their number: only the company changes.
        kept = np.delete(np.arange(len(lengths)), leave)
        rest = {}
        found = tabulate(
            run,
            lambda places, length, kept=kept: rows_of(lengths)(kept[places], length),
            synthetic,
            lengths[kept],
            max_length=16,
            max_tokens=128,
        )
        for places, vectors in found:
            rest |= {int(kept[p]): v for p, v in zip(places, vectors, strict=True)}
        assert all(torch.equal(rest[p], whole[int(lengths[p]) * 1000 + p]) for p in rest)
    # The control: what depends on place or neighbors is run one text at a time after the check.
    assert (1 in sizes) == (run is not plain)
