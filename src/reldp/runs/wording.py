"""The sentences of a certificate: who is protected, what is assumed, what is not guaranteed.

They are in one place, so that the certificate, the model card and the report say the same, and so that
a reader can compare each sentence with the section of theory.md that it cites.

Those about the end of a run and the choice of its weights are in `reldp.runs.result_wording`.

Private to the package: `adjacency`, `assumptions`, `not_guaranteed`, `other_relations`, `relation_bounds`, `sizes`,
`summary`, `shown`.

>>> shown(0.123412), shown(4.0), shown("Infinity")
('0.1235', '4', 'infinite')
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reldp.runs.made_by import is_since

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan

__all__ = [
    "SEARCH_EPSILON",
    "SEARCH_METHOD",
    "SEARCH_STATUS",
    "adjacency",
    "assumptions",
    "not_guaranteed",
    "other_relations",
    "relation_bounds",
    "shown",
    "sizes",
    "summary",
]

_Values = Mapping[str, Any]

_EXCEPT_BOUNDS = (
    ", except at the noisy bounds on its sizes. Assumed, not recorded: the target epsilon was fixed before "
    "these bounds were released. Otherwise epsilon holds only conditionally on them (theory.md 2.4)."
)
_GIVEN_BOUNDS = (
    ", except at the noisy bounds on its sizes. The plan follows from these bounds, so epsilon of the search holds "
    'given them, also if the target epsilon was fixed before they were released (theory.md 2.4, "Noise fixed first").'
)
_OTHER_RUNS = (
    "Other releases from the same data: models, statistics and further runs each add their own epsilon and delta. What "
    "runs of reldp cost together is shown by reldp budget."
)
SEARCH_EPSILON = "epsilon of the search (theory.md 3.5)"
SEARCH_METHOD = "Theorem E (theory.md 3.5), from Renyi divergences only"
SEARCH_STATUS = (
    "computed by a proven theorem, with an error estimate: not a proven upper bound (theory.md 3.3)"
)


def shown(value: float | str) -> str:
    """Return an epsilon or a delta for display: four digits, rounded up, never down."""
    if isinstance(value, str):
        return "infinite"
    if value == 0:
        return "0"
    value = max(value, 1e-290)  # below, ten to the power of the digits would be no double
    digits = 3 - math.floor(math.log10(value))
    return f"{math.ceil(round(value * 10.0**digits, 6)) / 10.0**digits:.4g}"


def adjacency(plan: "PrivacyPlan", graph: _Values) -> str:
    """Return which two graphs are neighbors (theory.md 2, 2.2, 2.3 and 2.4)."""
    if plan.unit == "relation":
        words = "two graphs are neighbors when one has one relation more than the other"
        if graph["degree_bound"] == "capped":
            words += f"; both are graphs after capping, in which {_dropped(plan, graph)}"
        return words + _within(plan)
    who = _unit(plan) if graph["all_protected"] else f"protected {_unit(plan)}"
    words = (
        f"two graphs are neighbors when one has one {who} more than the other, "
        f"with {_content(plan.unit, plan.max_degree)}"
    )
    if graph["degree_bound"] == "capped":
        words += f"; both are graphs after capping, in which {_dropped(plan, graph)}"
    else:
        words += "; both obey this bound as they are"
    return words + _within(plan)


def _dropped(plan: "PrivacyPlan", graph: _Values) -> str:
    """Return which relations capping has dropped: unprotected entities have no bound."""
    who = _unit(plan) if graph["all_protected"] else f"protected {_unit(plan)}"
    return f"relations beyond the bound of {plan.max_degree} per {who} were dropped"


def _unit(plan: "PrivacyPlan") -> str:
    """Return what a degree bound and the number n of a plan are about."""
    return "owner" if plan.unit == "owner" else "entity"


def _units(plan: "PrivacyPlan") -> str:
    """Return the plural of `_unit`."""
    return "owners" if plan.unit == "owner" else "entities"


def _within(plan: "PrivacyPlan") -> str:
    """Return the condition that declared sizes put on both neighbors."""
    if plan.sizes != "declared":
        return ""
    return f"; both have at least {plan.num_entities:,} {_units(plan)} and {relation_bounds(plan)}"


def relation_bounds(plan: "PrivacyPlan") -> str:
    """Return the bounds on the number of relations; a pool of relations has one on each side (theory.md 2.6)."""
    if plan.negatives == "relations":
        return f"from {plan.pool_size:,} to {plan.num_relations:,} relations"
    return f"at most {plan.num_relations:,} relations"


def other_relations(count: int) -> str:
    """Return what the negatives of a relation are, where they come from other relations."""
    return f"every endpoint of {count:,} other relation{'s' * (count != 1)}, for each relation"


def sizes(plan: "PrivacyPlan") -> str:
    """Return what is known about the numbers of entities and relations (theory.md 2.4)."""
    who = _units(plan)
    bounds = f"at least {plan.num_entities:,} {who} and {relation_bounds(plan)}"
    if plan.sizes == "private":
        return (
            f"The numbers of {who} and relations are not public. Noisy bounds on them "
            f"({bounds}) were released for epsilon {shown(plan.sizes_epsilon)} and delta "
            f"{shown(plan.sizes_delta)}, which are included."
        )
    if plan.sizes == "declared":
        return (
            f"The owner declared {bounds} without looking at the data. The guarantee covers only "
            "neighbors that both meet these bounds. This certificate reveals that the graph meets "
            "them. Had it not met them, that would have had to stay secret."
        )
    return (
        f"The exact numbers of {who} ({plan.num_entities:,}) and relations "
        f"({plan.num_relations:,}) are public, although neighboring graphs differ in them."
    )


def assumptions(plan: "PrivacyPlan", start: _Values, *, is_part: bool = False) -> list[str]:
    """Return the assumptions that epsilon rests on; none without noise, where nothing is guaranteed.

    Args:
        plan: The plan.
        start: The entry that starts the run.
        is_part: Whether epsilon is that of a part of the planned steps.
    """
    if plan.noise_multiplier == 0:
        return []
    is_fast = start["noise"]["source"] == "fast"
    sentences = [] if plan.sizes == "private" else [sizes(plan)]
    sentences += [
        "All settings (the degree bound, sampling rate, noise, steps, delta, the number of features) "
        "are public, and were chosen without looking at the private graph"
        + _bounds(plan, start, is_part),
        f"Every relation enters a batch independently; negatives are drawn without replacement{_by_owner(plan)}; "
        f"{'all random draws but the noise' if is_fast else 'all random draws'} come from AES-256 "
        "streams under one secret key from the operating system, and observers cannot break AES-256 "
        "(theory.md 6).",
        "The starting weights were chosen without looking at the private graph.",
        _content_assumption(plan),
        "The key was secret until it was destroyed.",
    ]
    if plan.negatives == "relations":
        count = plan.num_negatives
        sentences.append(
            f"Each tuple has one relation of the batch and {count} other relation{'s' * (count != 1)}; every endpoint "
            f"of {'these' if count != 1 else 'this'} serves as a negative. Other relations are drawn without "
            f"replacement, for all tuples of a batch together, from at least {plan.pool_size:,} relations (theory.md "
            "2.6)."
        )
    if plan.negatives == "unprotected":
        sentences.append(
            f"Negatives come from the unprotected {_units(plan)}, at least {plan.pool_size:,} of them. "
            f"Epsilon does not protect their number: neighbors differ in a protected {_unit(plan)}, so both "
            "have the same number of unprotected ones."
        )
    if plan.negatives == "public":
        sentences.append(
            f"Negatives come from a public pool of {plan.pool_size:,} entities. Which entities it "
            "holds, and their texts and features, do not depend on the private graph."
        )
    if plan.num_relation_types:
        sentences.append(_types(plan, start["graph"]))
    if "holdout" in start["graph"]:
        sentences.append(_holdout(plan, start["graph"]["holdout"]))
    if is_fast:
        sentences.append(
            "Noise came from the Philox generator under a 128-bit key per step, instead of a "
            "cryptographic stream: whoever can predict Philox from its output could subtract the "
            "noise, and its values are rounded to the grid with nearly, not exactly, the right "
            "probabilities."
        )
    if plan.clipping.is_local:
        sentences.append(
            "The contribution of a tuple to the sum depends on that tuple alone, also in floating point. "
            "This was checked to the bit on public random rows for every microbatch shape; it is not "
            "proven for every processor (theory.md 6)."
        )
    code = _encoder_code(start.get("encoder", {}))
    if code is not None:
        sentences.append(
            f"The encoder's code, {code}, is not part of reldp. It is assumed to compute an embedding from "
            "the entity's own inputs, the weights and public constants alone: no other entity, no private data "
            "from elsewhere, no state. This was checked on public random rows, which is no proof."
        )
    loss = start.get("loss")
    if loss is not None and not loss["included"]:
        sentences.append(
            f"The loss, {loss['name']}, is not part of reldp. It is assumed to compute a tuple's value from "
            "that tuple, its own parameters and public constants alone: no other tuple, no private data "
            "from elsewhere, no state. This was checked on public random tuples, which is no proof."
        )
    if "loop" in start["training"]:
        sentences.append(
            "The training loop is not part of reldp. It is assumed to change the weights by the noisy "
            "gradients and by public values alone, and to release nothing else that depends on the data."
        )
    if not plan.clipping.is_local:
        sentences.append(
            "Epsilon rests on a published claim about frequency clipping that is known to be false "
            "in the worst case (theory.md 2.1). Do not rely on it."
        )
    return sentences


def _bounds(plan: "PrivacyPlan", start: _Values, is_part: bool) -> str:
    """Return what settings may depend on, and what epsilon is then conditional on (theory.md 2.4)."""
    if plan.sizes != "private":
        return "."
    if is_part:
        return ", except at the noisy bounds on its sizes, from which epsilon of a part of the steps follows."
    return _GIVEN_BOUNDS if "search" in start else _EXCEPT_BOUNDS


def _by_owner(plan: "PrivacyPlan") -> str:
    """Return how negatives are drawn where entities have owners (theory.md 2.3)."""
    if plan.unit != "owner" or plan.negatives in ("public", "relations"):
        return ""
    return " among owners, each represented by one of its entities, drawn uniformly"


def _content_assumption(plan: "PrivacyPlan") -> str:
    """Return the assumption about texts and features (theory.md 6)."""
    if plan.unit == "owner":
        return (
            "The column of owners says which entities belong together, and the text and features of every entity "
            "depend on its owner alone, not on other owners or on relations: no values averaged over adjacent "
            "entities, no degrees, no embeddings of the graph, no names of other owners' entities in a text. "
            "Otherwise removing one owner changes the contribution of others, and epsilon does not hold "
            "(theory.md 6)."
        )
    return (
        "The text and features of every entity depend on that entity alone, not on other entities or "
        "on relations: no values averaged over adjacent entities, no degrees, no embeddings of the graph, no "
        f"names of other entities in a text. Otherwise removing one {plan.unit} changes the contribution of "
        "others, and epsilon does not hold (theory.md 6)."
    )


def _encoder_code(encoder: _Values) -> str | None:
    """Return the name of code of an encoder that is not part of reldp; None if there is none."""
    return encoder.get("module") if encoder.get("kind") == "module" else encoder.get("class")


def _types(plan: "PrivacyPlan", graph: _Values) -> str:
    """Return the assumption about the list of types (theory.md 2.3)."""
    number = plan.num_relation_types
    words = (
        f"Every relation has one of {number:,} types" if number > 1 else "Relations have one type"
    )
    if graph["relation_types"] == "declared":
        return f"{words}. The list of types was declared, and does not depend on the private graph."
    return (
        f"{words}. The list of types was taken from the data and is assumed to be public, although a "
        "neighboring graph may have fewer of them."
    )


def _holdout(plan: "PrivacyPlan", split: _Values) -> str:
    """Return who was held out of training, and what that rests on (theory.md 2.5)."""
    who, several = _unit(plan), _units(plan)
    return (
        f"About {100 * split['share']:.3g} % of all {several} were held out: a keyed hash of the {who}'s id and the "
        f"public seed {split['seed']} decides for each {who} alone, before capping. Seed and share were chosen without "
        "looking at the private graph. The model and everything else that is released depend neither on held-out "
        f"{several} nor on relations that touch one; sizes and the degree bound are those of the training part "
        "(theory.md 2.5)."
    )


def not_guaranteed(plan: "PrivacyPlan", start: _Values) -> list[str]:
    """Return guarantees that a reader might expect and that the certificate does not give."""
    if plan.noise_multiplier == 0:
        return ["Privacy of any kind: no noise was added."]
    outside = " outside of the search, whose runs are all included" if "search" in start else ""
    sentences = [
        f"Settings chosen by results on this graph{outside}: each trial run adds its own epsilon and delta, which "
        "are not included here.",
        *([_OTHER_RUNS] if is_since(start["versions"], 0, 9) else []),
        "Values that are shown without noise: losses, norms, batch sizes, counts of dropped rows and "
        'evaluations on private relations are marked "sensitive".',
        "Inferences from other entities' relations: what these reveal about an entity is not hidden.",
        f"Groups: {_groups(plan)}, are not protected together. "
        f"For a group of g, epsilon is {_group_factor(start)}, and delta grows as well.",
    ]
    by_relation = plan.unit == "relation" and is_since(start["versions"], 0, 11)
    if plan.delta >= 1 / (plan.num_relations if by_relation else plan.num_entities):
        sentences.append(_large_delta(plan, by_relation=by_relation))
    if start["encoder"]["kind"] == "text":
        sentences.append(
            "Protection of texts that were already in the base model's pretraining data."
        )
    if start["graph"]["degree_bound"] == "capped":
        sentences.append(
            f"Protection in the raw graph: {_dropped(plan, start['graph'])} "
            "before training, and neighbors are compared after that (theory.md 2.2)."
        )
    if plan.unit != "relation" and not start["graph"]["all_protected"]:
        sentences.append(f"Privacy of {_units(plan)} that were not marked as protected.")
    if "holdout" in start["graph"]:
        sentences.append(
            f"Decisions by the evaluations on held-out {_units(plan)}: these have no noise, and whatever depends on "
            "them, such as whether this model is published, may reveal something about the relations of held-out "
            f"{_units(plan)}."
        )
    if plan.unit == "relation":
        sentences.append("Privacy of entities: only single relations are protected.")
    return sentences


def _large_delta(plan: "PrivacyPlan", *, by_relation: bool) -> str:
    """Return what a delta of one over the number of what is protected, or more, allows."""
    names = "relations" if by_relation else _units(plan)
    count = plan.num_relations if by_relation else plan.num_entities
    return (
        f"Anything about a few {names}: delta, {shown(plan.delta)}, is not below one over the number of {names}, "
        f"{shown(1 / count)}, so publishing one of them outright would be allowed."
    )


def _group_factor(start: _Values) -> str:
    """Return how epsilon grows with a group: its members have epsilons of their own, for graphs of fewer entities."""
    if not is_since(start["versions"], 0, 10):
        return "up to g times as large"
    return "about g times as large (more where the group is not small against the graph, theory.md 3.6)"


def _groups(plan: "PrivacyPlan") -> str:
    """Return which groups are not protected together."""
    if plan.unit == "owner":
        return "owners that act together, or are one person"
    if plan.unit == "relation":
        return "relations of one entity or of one person, and relations that are made together"
    return "entities that act together, or share a text or a person"


def summary(values: _Values) -> str:
    """Return the guarantee in one sentence."""
    guarantee, data = values["guarantee"], values["data"]
    if guarantee["status"] == "none":
        return "No privacy: this model was trained without noise, epsilon is infinite."
    if isinstance(guarantee["epsilon"]["pld"], str):
        return "No privacy: epsilon is infinite, because the noise or the pool of negatives is too small."
    guaranteed = (
        f"({shown(guarantee['epsilon']['pld'])}, {shown(guarantee['delta'])})-differential privacy "
        f"for {_protected(guarantee['unit'], data)}"
    )
    if "given" in guarantee:
        guaranteed += f", given {guarantee['given']}"
    if guarantee["status"] == "claimed":
        return f"Claimed, and known to be false in the worst case: {guaranteed}."
    if guarantee["status"] == "computed":
        return (
            "Computed for a search by a proven theorem, with an error estimate (theory.md 3.3), under the assumptions "
            f"of the certificate: {guaranteed}."
        )
    return f"Proven, under the assumptions of the certificate: {guaranteed}."


def _protected(unit: str, data: _Values) -> str:
    """Return who is protected, and in which graph."""
    capped = data["degree_bound"] == "capped"
    graph = "the graph after degree capping (not the raw graph)" if capped else "the training graph"
    if unit == "relation":
        return f"any one relation of {graph}"
    who = f"any one {unit}" if data["all_protected"] else f"any one protected {unit}"
    return f"{who} with {_content(unit, data['max_degree'])}, in {graph}"


def _content(unit: str, max_degree: int) -> str:
    """Return what an entity or owner is protected with."""
    entities = "all of its entities and " if unit == "owner" else ""
    whose = "their" if unit == "owner" else "its"
    if max_degree == 1:
        return f"{entities}{whose} at most one relation"
    return f"{entities}all of {whose} at most {max_degree} relations"
