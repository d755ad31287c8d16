"""Privacy costs that this process has computed: hundreds of tests account for the same few plans.

Epsilon is a function of the accountant, the steps and delta, so the same question has the same answer. Tests of the
accounting itself ask the accountants every time, and so does a test that has put anything in the place of any name of
`reldp.accounting`, or of any attribute of its classes.
"""

import functools
import importlib
import os
import pkgutil

import reldp.accounting
from reldp.accounting import PLDAccountant, RenyiAccountant

ACCOUNTANTS = (PLDAccountant, RenyiAccountant)
OWN_TESTS = ("src/reldp/accounting/", "tests/accounting/")


def _modules():
    package = reldp.accounting
    names = [info.name for info in pkgutil.iter_modules(package.__path__)]
    return [package, *(importlib.import_module(f"reldp.accounting.{name}") for name in names)]


def names_of(modules):
    """Everything that modules and their classes hold, by identity; the right ones live as long as the process."""
    values = [value for module in modules for value in vars(module).values()]
    classes = [value for value in values if isinstance(value, type)]
    return [*map(id, values), *(id(value) for c in classes for value in vars(c).values())]


def remember_costs(patch):
    """Have accountants asked once for each answer, until the patch ends."""
    known = {}

    def remembered(compute):
        @functools.wraps(compute)
        def epsilon(self, composition, delta):
            own = os.environ.get("PYTEST_CURRENT_TEST", "").startswith(OWN_TESTS)
            if own or names_of(modules) != right:
                return compute(self, composition, delta)
            asked = repr((self, composition, delta))  # tells 1 from 1.0
            if asked not in known:
                known[asked] = compute(self, composition, delta)
            return known[asked]

        return epsilon

    modules = _modules()
    for accountant in ACCOUNTANTS:
        patch.setattr(accountant, "epsilon", remembered(accountant.epsilon))
    right = names_of(modules)
