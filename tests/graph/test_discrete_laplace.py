import math
import random
import secrets
from collections import Counter
from fractions import Fraction

import pytest
from scipy.stats import chi2

from reldp.graph.discrete_laplace import _bernoulli_exp, discrete_laplace, tail_margin

DRAWS = 20_000
FALSE_ALARM = 1e-6


def probability(x, rate):
    a = math.exp(-rate)
    return (1 - a) / (1 + a) * a ** abs(x)


def p_value(counts, rate, reach):
    """Chi-square p-value of counts of -reach .. reach and both tails against the exact law."""
    a = math.exp(-rate)
    cells = [(counts[x], probability(x, rate)) for x in range(-reach, reach + 1)]
    tail = a ** (reach + 1) / (1 + a)
    cells += [
        (sum(c for x, c in counts.items() if x > reach), tail),
        (sum(c for x, c in counts.items() if x < -reach), tail),
    ]
    assert sum(p for _, p in cells) == pytest.approx(1)
    total = sum(counts.values())
    return chi2.sf(sum((c - total * p) ** 2 / (total * p) for c, p in cells), len(cells) - 1)


def draws(rate, seed):
    source = random.Random(seed)
    return Counter(discrete_laplace(rate, source.randrange) for _ in range(DRAWS))


RATES = [(Fraction(1), 5), (Fraction(3, 7), 12), (Fraction(9, 4), 2), (Fraction(1, 20), 80)]


@pytest.mark.parametrize(("rate", "reach"), RATES)
def test_draws_follow_the_exact_law(rate, reach):
    assert p_value(draws(rate, 1), float(rate), reach) > FALSE_ALARM


@pytest.mark.parametrize(("rate", "reach"), RATES)
def test_the_test_tells_a_rate_ten_percent_off(rate, reach):
    assert p_value(draws(rate, 2), 1.1 * float(rate), reach) < FALSE_ALARM


def test_the_test_tells_a_zero_with_two_signs():
    source = random.Random(3)

    def with_two_zeros():
        size = math.floor(-math.log(1 - source.random()))
        return -size if source.randrange(2) else size

    counts = Counter(with_two_zeros() for _ in range(DRAWS))
    assert p_value(counts, 1.0, 5) < FALSE_ALARM


def enumerated(sample):
    """Exact rational probabilities of a sampler, by following every branch, and the mass of branches that were cut."""
    law, cut = Counter(), Fraction(0)

    class Pause(Exception):
        pass

    pending = [((), Fraction(1))]
    while pending:
        choices, weight = pending.pop()
        asked = []

        def uniform(bound, choices=choices, asked=asked):
            asked.append(bound)
            if len(asked) <= len(choices):
                return choices[len(asked) - 1]
            raise Pause

        try:
            value = sample(uniform)
        except Pause:
            bound = asked[-1]
            if weight < Fraction(1, 10**5):
                cut += weight
                continue
            pending += [((*choices, i), weight / bound) for i in range(bound)]
        else:
            law[value] += weight
    return law, cut


@pytest.mark.parametrize("ratio", [(0, 3), (1, 1), (1, 2), (2, 3), (4, 5)])
def test_every_branch_of_a_bernoulli_draw_adds_up_to_its_exponential(ratio):
    law, cut = enumerated(lambda uniform: _bernoulli_exp(*ratio, uniform))
    exact = math.exp(-ratio[0] / ratio[1])
    assert cut < 5e-3
    assert law[True] <= exact <= law[True] + cut
    assert law[False] <= 1 - exact + 1e-15


def test_every_branch_of_the_sampler_adds_up_to_the_law():
    law, cut = enumerated(lambda uniform: discrete_laplace(Fraction(1), uniform))
    assert cut < 0.06
    for x, share in law.items():
        assert share <= probability(x, 1.0) <= share + cut
    assert law[1] == law[-1] > 0.15


def test_the_margin_is_exceeded_with_less_than_half_of_delta():
    for rate in (Fraction(1, 50), Fraction(1), Fraction(3, 1000)):
        for delta in (1e-3, 1e-9, 1e-12):
            margin, a = tail_margin(rate, delta), math.exp(-float(rate))
            assert a ** (margin + 1) / (1 + a) < delta / 2
            assert a ** (margin - 1) > delta * (1 - 1e-9)  # and no larger than it is said to be


def test_a_rate_of_zero_is_refused():
    with pytest.raises(ValueError, match="`rate` must be above 0"):
        discrete_laplace(Fraction(0))


def test_noise_comes_from_the_operating_system():
    assert discrete_laplace.__defaults__ == (secrets.randbelow,)
    assert len({discrete_laplace(Fraction(1, 10**6)) for _ in range(20)}) > 15
