"""The result of an accountant: epsilon at delta, and which accountant and analysis gave it.

>>> PrivacyCost(0.5, 1e-6, "pld", "anchored").epsilon
0.5
"""

from dataclasses import dataclass
from typing import Protocol

from reldp._validate import check_number
from reldp.accounting.events import Composition
from reldp.errors import PlanError, UnsupportedEvent

__all__ = ["Accountant", "PrivacyCost", "check_request"]


@dataclass(frozen=True)
class PrivacyCost:
    """Epsilon of a composition at delta, and which accountant and analysis gave it."""

    epsilon: float
    delta: float
    accountant: str
    analysis: str


class Accountant(Protocol):
    """Anything that computes the epsilon of a composition."""

    @property
    def name(self) -> str:
        """Name in plans, flags, and certificates."""
        ...

    def epsilon(self, composition: Composition, delta: float) -> PrivacyCost:
        """Return epsilon of the composition at delta."""
        ...


def check_request(composition: object, delta: float) -> None:
    """Refuse what is not a `Composition`, and a delta outside (0, 1)."""
    if not isinstance(composition, Composition):
        raise UnsupportedEvent(
            f"accountants take a Composition of steps, got {type(composition).__name__}. "
            "Multiply a CoupledStep by how often it ran."
        )
    check_number("delta", delta, above=0, below=1, error=PlanError)
