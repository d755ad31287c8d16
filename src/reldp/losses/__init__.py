"""Losses of clip units: the `Loss` protocol, and InfoNCE, hinge and logistic losses."""

from reldp.losses.loss import Loss
from reldp.losses.relation_loss import RelationLoss

__all__ = ["Loss", "RelationLoss"]
