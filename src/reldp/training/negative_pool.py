"""What must agree about the negatives of a run, whatever the sizes of its graph are, and bounds on their pool.

All of it follows from settings, so mistakes are refused before private sizes are released, which costs epsilon.

Inside the package: `POOL_BOUNDS`, `check_negatives`, `check_pairing`, `declared_pool`, `named_bound`.

>>> check_pairing("relations", "entities")
Traceback (most recent call last):
reldp.errors.ConfigError: `pairing` relations needs a plan whose negatives are relations, got negatives from entities. \
Use pairing all, or negatives='relations' in the plan.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reldp.errors import ConfigError, PlanError

__all__ = ["POOL_BOUNDS", "check_negatives", "check_pairing", "declared_pool", "named_bound"]

POOL_BOUNDS = {"unprotected": "min_unprotected", "relations": "min_relations"}
"""The setting of a recipe that bounds a pool from below, for declared sizes."""


def check_pairing(pairing: str | None, negatives: str) -> None:
    """Refuse pairs of relations where negatives come from no relations."""
    if pairing == "relations" and negatives != "relations":
        raise ConfigError(
            f"`pairing` relations needs a plan whose negatives are relations, got negatives from {negatives}. "
            "Use pairing all, or negatives='relations' in the plan."
        )


def check_negatives(values: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse settings of a recipe, by section and name, that contradict its pool of negatives."""
    negatives, place = values["privacy"]["negatives"], values["data"]["public_pool"]
    check_pairing(values["learning"]["pairing"], negatives)
    if place is None and negatives == "public":
        raise ConfigError(
            "`data.public_pool` must name a graph of public entities when negatives are public, got none. "
            "Use --set data.public_pool=PATH."
        )
    if place is not None and negatives != "public":
        raise ConfigError(
            f"`data.public_pool` must be left out unless negatives are public, got one with {negatives!r}. "
            "Use --negatives public to draw from it."
        )
    if place is None and values["data"]["pool_shares_entities"]:
        raise ConfigError("`data.pool_shares_entities` must be given with public_pool only.")


def declared_pool(privacy: Mapping[str, Any], *, sizes: str) -> int | None:
    """Return the declared bound on the unprotected entities or on the relations; None where none is needed.

    Args:
        privacy: The settings of the section.
        sizes: Where bounds on the sizes come from.

    Raises:
        ConfigError: A bound is missing, not needed, or above a declared bound that it cannot exceed.
    """
    size: int | None = None
    for negatives, name in POOL_BOUNDS.items():
        least: int | None = privacy[name]
        needed = privacy["negatives"] == negatives and sizes == "declared"
        if needed == (least is None):
            raise ConfigError(
                f"`{name}` must be given for declared sizes with negatives = "
                f"{negatives}, and only then, got {least!r}."
            )
        size = least if needed else size
    least, largest = privacy["min_relations"], privacy["max_relations"]
    if isinstance(least, int) and isinstance(largest, int) and least > largest:
        raise ConfigError(
            f"`min_relations` must be at most max_relations, {largest}, got {least}. Declare a smaller one."
        )
    return size


@contextmanager
def named_bound(negatives: str) -> Iterator[None]:
    """Let errors about a declared pool name the setting of the recipe that it comes from."""
    try:
        yield
    except PlanError as error:
        if negatives in POOL_BOUNDS and error.args:
            said = str(error.args[0]).replace("`pool_size`", f"`{POOL_BOUNDS[negatives]}`")
            error.args = (said, *error.args[1:])
        raise
