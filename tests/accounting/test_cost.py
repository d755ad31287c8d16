import pytest

from reldp.accounting import PLDAccountant, RenyiAccountant
from reldp.accounting.cost import PrivacyCost, check_request
from reldp.errors import PlanError, UnsupportedEvent
from tests.accounting.conformance import small_step


@pytest.mark.parametrize("accountant", [PLDAccountant(), RenyiAccountant()])
def test_a_price_says_where_it_comes_from(accountant):
    cost = accountant.epsilon(small_step() * 5, 1e-5)
    assert isinstance(cost, PrivacyCost)
    assert (cost.delta, cost.accountant) == (1e-5, accountant.name)
    assert cost.analysis in ("anchored", "replacement")


def test_requests_are_checked():
    check_request(small_step() * 1, 0.5)
    with pytest.raises(PlanError, match="`delta`"):
        check_request(small_step() * 1, 1.0)
    with pytest.raises(UnsupportedEvent, match="got CoupledStep"):
        check_request(small_step(), 0.5)
