"""What private relational learning costs: events, Renyi and PLD accountants, calibration. No files."""

from reldp.accounting.calibration import least_noise, max_steps
from reldp.accounting.cost import Accountant, PrivacyCost
from reldp.accounting.events import Composition, CoupledStep
from reldp.accounting.pld import PLDAccountant
from reldp.accounting.rdp import RenyiAccountant, renyi_epsilon

__all__ = [
    "Accountant",
    "Composition",
    "CoupledStep",
    "PLDAccountant",
    "PrivacyCost",
    "RenyiAccountant",
    "least_noise",
    "max_steps",
    "renyi_epsilon",
]
