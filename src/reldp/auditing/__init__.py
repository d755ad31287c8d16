"""Empirical lower bounds on epsilon from the real code, strong enough to reject wrong implementations.

* `audit_mechanism`: runs sampler, rule, sum and noise on two neighbouring graphs with the auditor's gradients.
* `search_neighbours`: looks for the batch in which one entity moves the clipped sum most.

An audit can refute a claim, at a stated confidence; it can never prove one (docs/audit.md).

>>> from reldp.auditing import audit_mechanism, search_neighbours
"""

from reldp.auditing.audit import audit_mechanism
from reldp.auditing.neighbours import NeighbourPair, worst_pair
from reldp.auditing.results import Bound, MechanismAudit
from reldp.auditing.search import Finding, search_neighbours

__all__ = [
    "Bound",
    "Finding",
    "MechanismAudit",
    "NeighbourPair",
    "audit_mechanism",
    "search_neighbours",
    "worst_pair",
]
