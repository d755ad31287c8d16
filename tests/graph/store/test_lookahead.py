"""Work that is done ahead: the same results, in order, and never too many of them at a time."""

import time

import pytest

from reldp.graph.store.lookahead import in_threads


def slow_square(number):
    time.sleep(0.01 * (number % 3))
    if number == 50:
        raise ValueError("fifty")
    return number * number


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_are_in_order(threads):
    numbers = range(20)
    assert list(in_threads(slow_square, numbers, threads)) == [n * n for n in numbers]
    assert list(in_threads(slow_square, [], threads)) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_a_few_items_are_asked_for_ahead_and_no_more(threads):
    asked = []

    def items():
        for number in range(40):
            asked.append(number)
            yield number

    results = in_threads(slow_square, items(), threads)
    assert [next(results) for _ in range(5)] == [0, 1, 4, 9, 16]
    assert len(asked) <= 5 + threads
    results.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_where_its_result_would_be(threads):
    results = in_threads(slow_square, [1, 50, 2], threads)
    assert next(results) == 1
    with pytest.raises(ValueError, match="fifty"):
        next(results)
