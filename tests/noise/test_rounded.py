import numpy as np
import pytest
from scipy import stats

from reldp.noise import rounded
from reldp.noise.refine import EXTRA_WORDS, FRACTION_BITS, exact_pair
from reldp.noise.rounded import GRID, GRID_BITS, check_arithmetic, rounded_normals
from reldp.noise.streams import Streams

STREAMS = Streams(bytes(range(32)))


def words_and_more(name, n):
    """Uniform words, and further words for each pair."""

    def more(pair):
        return STREAMS.stream(name + "/more", 0, 0, pair).uint64(EXTRA_WORDS).tolist()

    return STREAMS.stream(name, 0, 0).uint64(n), more


def oracle(words, more, bits):
    """Every draw through the integer half."""
    out = []
    for pair, (first, second) in enumerate(words.reshape(-1, 2).tolist()):
        for value in exact_pair(first, second, more(pair)):
            cell = FRACTION_BITS - bits
            out.append((value + (1 << (cell - 1)) >> cell) * 2.0**-bits)
    return np.array(out)


@pytest.mark.parametrize("bits", [10, GRID_BITS, 40])
def test_every_draw_is_correctly_rounded(bits):
    words, more = words_and_more("correct", 8000)
    assert rounded_normals(words, more, bits=bits).tolist() == oracle(words, more, bits).tolist()


def test_control_plain_rounding_of_float64_is_wrong_on_a_fine_grid():
    # On a grid of 2^-44 float64 alone rounds about one draw in a hundred wrongly; refining finds
    # them.
    words, more = words_and_more("control", 20_000)
    plain = np.rint(rounded._approximate(words.reshape(-1, 2)).reshape(-1) * 2.0**44) * 2.0**-44
    truth = oracle(words, more, 44)
    assert (plain != truth).sum() > 20
    assert (rounded_normals(words, more, bits=40) == oracle(words, more, 40)).all()


def test_draws_near_the_edges_of_the_uniform_are_correctly_rounded():
    edge = rounded._EDGE
    low = [0, 1, 2, 3, 2**20, edge - 1, edge, edge + 1, 2 * edge]
    first = np.array(low + [2**64 - 1 - value for value in low], np.uint64)
    second = STREAMS.stream("edge", 0, 0).uint64(first.size)
    second[:3] = [0, 2**63, 2**63 - 1]
    words = np.stack([first, second], 1).reshape(-1)
    _, more = words_and_more("edge", 0)
    assert rounded_normals(words, more).tolist() == oracle(words, more, GRID_BITS).tolist()


def cell_pvalue(cells):
    """Chi-square of cell numbers on the grid of 1/4 against the Gaussian measure of the cells."""
    inner = np.arange(-8, 9)
    observed = [np.sum(cells < -8), *((cells == cell).sum() for cell in inner), np.sum(cells > 8)]
    edges = np.concatenate([[-np.inf], (np.append(inner, 9) - 0.5) / 4, [np.inf]])
    return stats.chisquare(observed, np.diff(stats.norm.cdf(edges)) * len(cells)).pvalue


def test_grid_points_have_the_gaussian_measure_of_their_cells():
    # False-alarm rate 1e-6. Controls: cells cut at their lower end, and a lost share of 0.
    words, more = words_and_more("cells", 1 << 16)
    cells = rounded_normals(words, more, bits=2) * 4
    assert cell_pvalue(cells) > 1e-6
    fine = rounded_normals(words, more)
    assert cell_pvalue(np.floor(fine * 4)) < 1e-6
    assert cell_pvalue(cells[(cells != 0) | (np.arange(cells.size) % 8 > 0)]) < 1e-6


def test_tail_is_not_cut_at_the_resolution_of_one_word():
    # The first word gives U < 2^-63; a draw beyond 9.3 needs the further bits.
    words = np.array([0, 0], np.uint64)
    far = rounded_normals(words, lambda pair: [0] * EXTRA_WORDS)[0]
    near = rounded_normals(words, lambda pair: [2**64 - 1] * EXTRA_WORDS)[0]
    assert 9.3 < near < 9.4
    assert 18.7 < far < 18.9


def test_float64_errors_stay_below_half_the_margin_and_the_margins_are_nested():
    words, _ = words_and_more("errors", 4000)
    pairs = words.reshape(-1, 2)
    first = pairs[:, 0]
    inside = (first >= np.uint64(rounded._EDGE)) & (first < np.uint64(2**64 - rounded._EDGE))
    margin = rounded._margin(first)
    drawn = rounded._approximate(pairs)
    for i in np.flatnonzero(inside).tolist():
        exact = exact_pair(int(first[i]), int(pairs[i, 1]), [1 << 63] * EXTRA_WORDS)
        for value, truth in zip(drawn[i].tolist(), exact, strict=True):
            error = abs(int(value * 2.0**100) - (truth >> (FRACTION_BITS - 100))) * 2.0**-100
            assert error < margin[i] / 2
    edges = np.linspace(0, 1, 1001)[1:-1]
    grid = np.array([rounded._EDGE, 2**64 - rounded._EDGE], np.uint64)
    grid = np.concatenate([grid, (edges * 2.0**64).astype(np.uint64)])
    assert (rounded._margin(grid) <= rounded._COARSE_MARGIN).all()


def test_further_bits_are_asked_for_rarely():
    # 2^19 draws: about 2^19 * 3e-5 = 16 need refining; 60 or more has probability below 1e-14.
    words, more = words_and_more("rare", 1 << 19)
    asked = []
    rounded_normals(words, lambda pair: (asked.append(pair), more(pair))[1])
    assert 1 <= len(asked) < 60


def test_grid_values_are_exact_and_shifting_commutes_with_rounding():
    words, more = words_and_more("shift", 2000)
    draws = rounded_normals(words, more)
    steps = draws / GRID
    assert (steps == np.rint(steps)).all()
    for shift in (1.0, -3.5, 12345 * GRID):  # on the grid: adding and taking away is exact
        assert ((draws + shift) - shift == draws).all()


def test_arithmetic_of_this_machine_passes_and_a_sloppy_one_is_refused(monkeypatch):
    assert check_arithmetic() < 0.5
    real = rounded._approximate
    monkeypatch.setattr(rounded, "_approximate", lambda words: real(words) * (1 + 2.0**-44))
    with pytest.raises(rounded.RunError, match="4 units in the last place"):
        check_arithmetic.__wrapped__()
