"""The check of a loss on public random embeddings, before anything is computed from private data.

The proofs need that a tuple's contribution depends on that tuple alone (theory.md 2). A loss gets
many tuples at once, so it could look at all of them. Here it runs on public random tuples: each tuple
alone, among others, at other positions, and among others that are zero or huge; its values and the
gradients of its embeddings must stay the same. More is checked: that the loss returns values of the
right shape that have a gradient and are finite, that it repeats itself (no random numbers, no state
between calls), changes none of its inputs, and trains no parameters except those of its own module.

Differences that rounding explains are left to `reldp.training.locality`, which compares the bits of
whole steps with this loss, and runs units one by one where bits differ.

A check on random tuples is not a proof. docs/sharp-edges.md says what it cannot find: a loss that
reads private data from elsewhere, or one that was made to deceive it.

Private to the package: `check_loss`, `public_tuples`.

>>> check_loss.__name__
'check_loss'
"""

import inspect
import math
from typing import NamedTuple

import torch
from torch import Tensor

from reldp.errors import ConfigError, InputError, RunError
from reldp.gradients.leaves import leaves
from reldp.losses import LossBatch
from reldp.training.objective import Objective

__all__ = ["check_loss", "public_tuples"]

_TUPLES = 6
_SEEDS = 4
# Relative difference that rounding cannot explain.
_ROUNDING = 1e-3
# Tuples that are compared among others, and what the others are there: losses may act on such values.
_COMPARED = 3
_EXTREMES = (math.nan, math.inf, 1e30)
# Sizes of the tuples beside the ones that are compared.
_SIZES = (1.0, 1.0, 1.0, 0.0, 1e3, 1e-3)


class _Run(NamedTuple):
    """Values of some tuples, (tuples,), and the gradients of their embeddings."""

    values: Tensor
    gradients: Tensor


def check_loss(objective: Objective) -> None:
    """Refuse a loss that training cannot use, or that is not a function of one tuple.

    Raises:
        ConfigError: The loss cannot be called, returns the wrong shape, has no gradient, keeps a state, draws
            random numbers, changes its inputs, or trains parameters that are not its own.
        InputError: A tuple's value or gradient depends on other tuples or on their number.
    """
    _check_signature(objective)
    _run(objective, *public_tuples(objective, 0))  # a loss may keep what it computes once
    objective.remember_loss()
    has_gradient = False
    for seed in range(_SEEDS):
        embeddings, batch = public_tuples(objective, seed)
        together = _run(objective, embeddings, batch)
        has_gradient = has_gradient or bool(together.gradients.any())
        _check_repeats(
            objective, embeddings, batch, together
        )  # first: it explains other differences
        _check_alone(objective, embeddings, batch, together)
        _check_among_extremes(objective, embeddings, batch, together)
        _check_repeats(objective, embeddings, batch, together)
    try:
        objective.check_loss_unchanged()
    except RunError:
        _refuse(
            objective,
            "keep no state between calls",
            "which changes its attributes, what it closes over, or global values when it is called",
            "A tuple's loss must not depend on the tuples of earlier steps",
        )
    if not has_gradient:
        _refuse(
            objective,
            "have a gradient",
            "which has none on random embeddings",
            "Return values that depend on the embeddings, and detach nothing that should learn",
        )


def public_tuples(objective: Objective, seed: int) -> tuple[Tensor, LossBatch]:
    """Return public random embeddings (tuples, 2 + k, dim) and their batch; sizes differ."""
    device, k = objective.encoder.device, objective.num_negatives
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn((_TUPLES, 2 + k, objective.encoder.dim), generator=generator)
    embeddings = embeddings * torch.tensor(_SIZES)[:, None, None]
    endpoints = torch.randint(2, (_TUPLES, k), generator=generator)
    mask = torch.rand((_TUPLES, k), generator=generator) < 0.1
    mask[:, 0] = False
    mask[_TUPLES - seed :] = True  # also with one negative there are tuples without any
    types = None
    if objective.num_types:
        types = torch.randint(objective.num_types, (_TUPLES,), generator=generator).to(device)
    return embeddings.to(device), LossBatch(endpoints.to(device), mask.to(device), types)


def _check_signature(objective: Objective) -> None:
    """Refuse a callable that does not take (embeddings, batch)."""
    try:
        signature = inspect.signature(objective.loss)
    except (TypeError, ValueError):  # a callable without a known signature
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise ConfigError(
            f"`loss` must take two arguments, loss(embeddings, batch), got {objective.name}{signature}."
        ) from None


def _check_repeats(
    objective: Objective, embeddings: Tensor, batch: LossBatch, before: _Run
) -> None:
    """Refuse a loss that gives other values for the same batch."""
    if not all(map(torch.equal, before, _run(objective, embeddings, batch))):
        _refuse(
            objective,
            "give the same values for the same tuples",
            "which does not",
            "Draw no random numbers, and keep no state between calls",
        )


def _check_alone(
    objective: Objective, embeddings: Tensor, batch: LossBatch, together: _Run
) -> None:
    """Refuse tuples that are different alone, at another position, or among fewer."""
    backwards = list(range(_TUPLES))[::-1]
    for order in ([0], [1], [2], [2, 0], [1, 1], backwards):
        index = torch.tensor(order, device=embeddings.device)
        part = _run(objective, embeddings[index], batch.take(index))
        for at, place in enumerate(order):
            _compare(objective, together, place, part, at)


def _check_among_extremes(
    objective: Objective, embeddings: Tensor, batch: LossBatch, together: _Run
) -> None:
    """Refuse tuples that are different among others whose embeddings are not finite, or huge."""
    for extreme in _EXTREMES:
        among = embeddings.clone()
        among[_COMPARED:] = extreme
        try:
            part = _call(objective, among, batch)
        except Exception:  # a loss may stop a run that has such values
            continue
        for place in range(_COMPARED):
            _compare(objective, together, place, part, place)


def _compare(objective: Objective, one: _Run, at_one: int, other: _Run, at_other: int) -> None:
    """Refuse a tuple with another value or gradient in another batch."""
    for before, after in zip(one, other, strict=True):
        if _differ(before[at_one], after[at_other]):
            raise InputError(
                f"`loss` must be a function of one tuple, got {objective.name}, whose value or "
                "gradient for a tuple depends on the other tuples of the batch or on their "
                "number. Use no in-batch negatives, and no mean or other statistic over tuples."
            )


def _differ(one: Tensor, other: Tensor) -> bool:
    """Return whether rounding cannot explain the difference of two results."""
    size = float(torch.maximum(one.abs().max(), other.abs().max()))
    # Not `>`: of values that are not finite, the difference is neither large nor small.
    return not float((one - other).abs().max()) <= _ROUNDING * max(size, 1e-6)


def _run(objective: Objective, embeddings: Tensor, batch: LossBatch) -> _Run:
    """Call the loss and its backward; refuse what it must not do."""
    leaf = embeddings.clone().requires_grad_()
    given, seen = leaf * 1.0, batch.take(torch.arange(len(embeddings), device=embeddings.device))
    version = given._version
    returned = objective.loss(given, seen)
    values = objective.checked(returned, len(embeddings))
    if given._version != version or not _is_same(seen, batch):
        _refuse(objective, "leave its inputs as they are", "which changes them", "Copy them first")
    # A tuple without negatives has nothing to learn, and contributes nothing if it is not finite.
    hidden = batch.mask.all(dim=1)
    if not values.is_floating_point() or not bool((torch.isfinite(values) | hidden).all()):
        _refuse(
            objective,
            "return finite floating-point values",
            "with others on random embeddings",
            "Put a floor under what is divided by, and under what a logarithm is taken of",
        )
    if values.requires_grad:
        _refuse_other_parameters(objective, values, leaf)
    gradients = _gradients(values, leaf)
    if not bool((torch.isfinite(gradients).all(dim=(1, 2)) | hidden).all()):
        _refuse(
            objective,
            "have finite gradients",
            "with others on random embeddings",
            "A root, a logarithm or a length needs a floor where its gradient has none",
        )
    values, gradients = values.detach(), gradients.nan_to_num()
    return _Run(torch.where(hidden, values.nan_to_num(), values), gradients)


def _call(objective: Objective, embeddings: Tensor, batch: LossBatch) -> _Run:
    """Call the loss and its backward."""
    leaf = embeddings.clone().requires_grad_()
    values = objective.checked(objective.loss(leaf * 1.0, batch), len(embeddings))
    return _Run(values.detach(), _gradients(values, leaf))


def _gradients(values: Tensor, leaf: Tensor) -> Tensor:
    """Return the gradients of the embeddings, (tuples, 2 + k, dim); zeros where there are none."""
    if not values.requires_grad:
        return torch.zeros_like(leaf)
    (gradients,) = torch.autograd.grad(values.sum(), [leaf], allow_unused=True)
    return torch.zeros_like(leaf) if gradients is None else gradients


def _is_same(one: LossBatch, other: LossBatch) -> bool:
    """Return whether two batches have the same values."""
    same = torch.equal(one.endpoints, other.endpoints) and torch.equal(one.mask, other.mask)
    if one.types is None or other.types is None:
        return same and one.types is other.types
    return same and torch.equal(one.types, other.types)


def _refuse_other_parameters(objective: Objective, values: Tensor, leaf: Tensor) -> None:
    """Refuse a loss whose gradient reaches tensors that are neither embeddings nor its own parameters."""
    known = {id(leaf), *(id(p) for p in objective.loss_parameters.values())}
    if any(id(tensor) not in known for tensor in leaves(values)):
        _refuse(
            objective,
            "train no parameters except those of its own module",
            "which reaches others",
            "Make the loss a torch.nn.Module that holds them; otherwise their gradients would be "
            "neither clipped nor given noise",
        )


def _refuse(objective: Objective, rule: str, got: str, fix: str) -> None:
    """Raise the error that a loss breaks a rule."""
    raise ConfigError(f"`loss` must {rule}, got {objective.name}, {got}. {fix}.")
