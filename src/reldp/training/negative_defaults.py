"""Which negatives a recipe draws, and the degree bound that belongs to them, where neither is given.

Other relations as negatives kept the most of the gain of training in our experiments (docs/benchmarks.md). They need
a degree bound of 1 and the tuple rule, and InfoNCE learns from all relations of a tuple (docs/theory.md 2.6). Where a
setting speaks against them, entities are drawn as negatives, and the bound is 5. Everything that decides is public:
settings, never data.

Inside the package: `ENTITY_DEGREE`, `degree_and_negatives`, `entities_note`, `settle_negatives`, `unfit_reason`,
`with_negatives_of`.

>>> degree_and_negatives(None, None)
(1, 'relations')
>>> degree_and_negatives(5, None)
(5, 'entities')
>>> degree_and_negatives(None, None, loss="hinge")
(5, 'entities')
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reldp.runs.run_folder import RunFolder, read_plan

__all__ = [
    "ENTITY_DEGREE",
    "degree_and_negatives",
    "entities_note",
    "settle_negatives",
    "unfit_reason",
    "with_negatives_of",
]

ENTITY_DEGREE = 5
"""Degree bound where entities are drawn as negatives."""

# The settings under which other relations are drawn; each was measured or is needed by the proof.
_FITTING: dict[str, tuple[Any, ...]] = {
    "loss": ("infonce",),
    "pairing": (None, "relations"),
    "clipping": ("tuple",),
    "unit": ("entity",),
    "analysis": ("best",),
    "enabled": (True,),
    "promise_degrees": (False,),
    "public_pool": (None,),
    "min_unprotected": (None,),
}

_FLAGS = {
    "enabled": "there is no privacy",
    "promise_degrees": "degrees are promised",
}


def degree_and_negatives(
    max_degree: int | None, negatives: str | None, **settings: Any
) -> tuple[int, str]:
    """Return the degree bound and the pool of negatives: those that are given, and defaults for the others.

    Args:
        max_degree: The degree bound; None if it is not given.
        negatives: The pool of negatives; None if it is not given.
        **settings: Other settings of a recipe, by name; those that are left out have their defaults.
    """
    if negatives is None:
        fits = not unfit_reason(settings) and max_degree in (None, 1)
        negatives = "relations" if fits else "entities"
    if max_degree is None:
        max_degree = 1 if negatives == "relations" else ENTITY_DEGREE
    return max_degree, negatives


def unfit_reason(settings: Mapping[str, Any]) -> str:
    """Return why other relations are not drawn by default, in words; empty where they are.

    Args:
        settings: Settings of a recipe, by name; those that are left out have their defaults.
    """
    # Declared sizes need a declared bound on the relations, too.
    if settings.get("sizes") == "declared" and settings.get("min_relations") is None:
        return "sizes are declared without min_relations"
    for name, fitting in _FITTING.items():
        if settings.get(name, fitting[0]) not in fitting:
            return _FLAGS.get(name) or f"{name} is {settings[name]}"
    return ""


def entities_note(reason: str, max_degree: int) -> str:
    """Return a sentence about the change of two defaults for a reason.

    >>> entities_note("loss is hinge", 5)
    'negatives are entities, and an entity keeps up to 5 relations, because loss is hinge (docs/public-negatives.md).'
    """
    return (
        f"negatives are entities, and an entity keeps up to {max_degree} relations, because {reason} "
        "(docs/public-negatives.md)."
    )


def settle_negatives(values: dict[str, dict[str, Any]]) -> bool:
    """Put degree bound and negatives into the settings of a recipe, by section and name, where they are not given.

    Returns:
        Whether neither was given.
    """
    settings = {**values["data"], **values["privacy"], **values["learning"]}
    given = (settings.pop("max_degree"), settings.pop("negatives"))
    degree, negatives = degree_and_negatives(*given, **settings)
    values["data"]["max_degree"], values["privacy"]["negatives"] = degree, negatives
    return given == (None, None)


def with_negatives_of(
    run: Path, values: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Return settings of a recipe with degree bound and negatives of a run: another version may have other defaults."""
    plan = read_plan(RunFolder(run))
    return {
        **values,
        "data": {**values["data"], "max_degree": plan.max_degree},
        "privacy": {**values["privacy"], "negatives": plan.negatives},
    }
