"""Empirical lower bounds on epsilon from the real code, strong enough to reject wrong implementations.

* `audit_plan`: runs the three audits of a plan below; `reldp.audit` and the command are this.
* `audit_step`: runs the training step itself on neighboring graphs, with an encoder of the auditor's.
* `audit_mechanism`: runs sampler, rule, sum and noise on two neighboring graphs with the auditor's gradients.
* `search_neighbors`: looks for the batch in which one entity moves the clipped sum most.
* `audit_training`: trains once with canary entities and guesses, from the encoder alone, which of them were in.

An audit can refute a claim, at a stated confidence; it can never prove one (docs/audit.md).

>>> from reldp.auditing import audit_mechanism, search_neighbors
"""

from reldp.auditing.audit import audit_mechanism
from reldp.auditing.neighbors import NeighborPair, worst_pair
from reldp.auditing.results import Bound, MechanismAudit
from reldp.auditing.search import Finding, search_neighbors
from reldp.auditing.step_audit import audit_step, default_workers
from reldp.auditing.step_results import StepAudit
from reldp.auditing.suite import AuditResults, audit_plan
from reldp.auditing.training_audit import TrainingAudit, audit_training

__all__ = [
    "AuditResults",
    "Bound",
    "Finding",
    "MechanismAudit",
    "NeighborPair",
    "StepAudit",
    "TrainingAudit",
    "audit_mechanism",
    "audit_plan",
    "audit_step",
    "audit_training",
    "default_workers",
    "search_neighbors",
    "worst_pair",
]
