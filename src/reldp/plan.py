"""PrivacyPlan: sampler, clipping rule, noise and accountant event, made together and checked together.

Everything in a plan is public. It is frozen, validated on construction, writes and reads itself as JSON and has a
stable hash; only a plan may join the parts that decide the guarantee (theory.md 1 to 3).

>>> plan = PrivacyPlan(num_entities=10_000, num_relations=20_000, max_degree=5, num_negatives=4,
...                    expected_batch_size=32, num_steps=500, noise_multiplier=0.8, delta=1e-5)
>>> plan.sample_rate, plan.status
(0.0016, 'proven')
>>> PrivacyPlan.from_json(plan.to_json()) == plan
True
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reldp._plan_settings import (
    ClippingSetting,
    check_before_release,
    check_capped,
    check_graph_settings,
    check_rule,
    check_sizes,
    check_target,
    checked_pool_size,
    graph_fields,
    parsed_plan,
    rate_and_batch_size,
    rule_name,
    rule_status,
    unit_for,
)
from reldp._plan_suggestion import chosen_plan
from reldp._validate import (
    ACCOUNTANTS,
    ANALYSES,
    NEGATIVE_POOLS,
    SIZES,
    UNITS,
    as_integer,
    check_choice,
    check_integer,
    check_name,
    check_number,
)
from reldp.errors import PlanError
from reldp.graph.sizes import LARGEST, bounds_for

if TYPE_CHECKING:
    from reldp.accounting import Accountant, CoupledStep, PrivacyCost
    from reldp.graph import CappedGraph
    from reldp.noise import GaussianNoise, Streams
    from reldp.sampling import TupleSampler

__all__ = ["PrivacyPlan"]

_MAX_STEPS = 10**12
_INTEGERS = (
    ("num_entities", 1, LARGEST),
    ("num_relations", 1, LARGEST),
    ("max_degree", 1, 10**6),
    ("num_negatives", 0, 10**6),
    ("num_steps", 0, _MAX_STEPS),
    ("num_relation_types", 0, 2**31 - 1),
)
_CHOICES = {"negatives": NEGATIVE_POOLS, "unit": UNITS, "analysis": ANALYSES, "sizes": SIZES}
_FLOATS = ("clip_norm", "noise_multiplier", "delta", "sizes_epsilon", "sizes_delta")


@dataclass(frozen=True, kw_only=True)
class PrivacyPlan:
    """Everything that decides the privacy of a run.

    Attributes:
        num_entities: n_low: lower bound on the number of entities of the capped training graph (theory.md 2.4).
        num_relations: m_high: upper bound on its number of relations. With public sizes both are exact.
        max_degree: K: largest degree of a protected entity.
        num_negatives: k: negatives per positive relation.
        num_steps: T: number of steps.
        delta: The total delta of (epsilon, delta), including sizes_delta.
        sample_rate: gamma: probability that a relation enters a batch. Give this or expected_batch_size; if both are
            given, they must agree.
        expected_batch_size: b = gamma * m_high: divisor of the noisy sum.
        clipping: The clipping rule, or its name: ``"tuple"``, ``"pair"`` or ``"frequency"`` (theory.md 2).
        negatives: ``"entities"``; ``"relations"``, num_negatives other relations whose endpoints are the negatives
            (theory.md 2.6); or a pool without protected entities: ``"unprotected"``, ``"public"``.
        pool_size: Size of the pool of negatives: num_entities for ``"entities"`` (the default there); must be given
            for other pools. `for_graph` sets it for ``"unprotected"`` and ``"relations"``, except with declared sizes.
        unit: Unit of privacy (theory.md 2.3): ``"entity"``; ``"owner"`` where entities have owners, which num_entities,
            max_degree and pool_size are then about; or ``"relation"`` for the weaker relation-level guarantee.
        analysis: ``"best"``, ``"anchored"`` (theory.md 3.2) or ``"replacement"`` (3.1).
        clip_norm: C: scales gradients and noise alike and never changes epsilon.
        noise_multiplier: sigma: standard deviation of the noise divided by clip_norm.
        sizes: Source of num_entities and num_relations: ``"public"`` (the default here), ``"declared"`` or
            ``"private"`` (the default of `for_graph`: noisy bounds, a differentially private release).
        sizes_epsilon: Epsilon of that release, which `epsilon` includes; 0 for other sources.
        sizes_delta: Part of delta that the release uses and the steps do not get; 0 for other sources.
        num_relation_types: Number of types of relations, a public list; 0 for relations without types.
    """

    num_entities: int
    num_relations: int
    max_degree: int
    num_negatives: int
    num_steps: int
    delta: float
    sample_rate: float = None  # type: ignore[assignment]  # filled from expected_batch_size
    expected_batch_size: float = None  # type: ignore[assignment]  # filled from sample_rate
    clipping: ClippingSetting = ClippingSetting()  # noqa: RUF009  # a descriptor: reads as the rule
    negatives: str = "entities"
    pool_size: int = None  # type: ignore[assignment]  # filled from num_entities
    unit: str = "entity"
    analysis: str = "best"
    clip_norm: float = 1.0
    noise_multiplier: float = 1.0
    sizes: str = "public"
    sizes_epsilon: float = 0.0
    sizes_delta: float = 0.0
    num_relation_types: int = 0

    def __post_init__(self) -> None:
        for name, low, high in _INTEGERS:  # of NumPy too, but JSON holds those of Python
            given = as_integer(getattr(self, name))
            value = check_integer(name, given, low=low, high=high, error=PlanError)
            object.__setattr__(self, name, value)
        rate, size = rate_and_batch_size(
            self.sample_rate, self.expected_batch_size, num_relations=self.num_relations
        )
        object.__setattr__(self, "sample_rate", rate)
        object.__setattr__(self, "expected_batch_size", size)
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices, error=PlanError)
        object.__setattr__(self, "pool_size", checked_pool_size(self))
        check_number("clip_norm", self.clip_norm, above=0, error=PlanError)
        rule = "a finite number, 0 or more"
        check_number("noise_multiplier", self.noise_multiplier, low=0, rule=rule, error=PlanError)
        rule = "a number strictly between 0 and 1"
        check_number("delta", self.delta, low=1e-300, high=1 - 1e-12, rule=rule, error=PlanError)
        check_sizes(self.sizes, self.sizes_epsilon, self.sizes_delta, delta=self.delta)
        for name in _FLOATS:  # 1 and 1.0 are one plan
            object.__setattr__(self, name, float(getattr(self, name)))
        check_rule(self.clipping, self.unit, self.analysis)
        least = self.clipping.min_negatives
        rule = f"at least {least} for the {self.clipping} rule"
        check_integer("num_negatives", self.num_negatives, low=least, rule=rule, error=PlanError)
        _ = self.event  # refuses what cannot be drawn

    @property
    def status(self) -> str:
        """What epsilon rests on.

        ``"proven"``: a proof of theory.md 3. ``"claimed"``: no proof; the claim of the frequency rule is false in the
        worst case, that of a rule from outside of reldp is unchecked. ``"none"``: no noise, so no guarantee.
        """
        if self.noise_multiplier == 0:
            return "none"
        return rule_status(self.clipping)

    @property
    def event(self) -> "CoupledStep":
        """What one step does, for an accountant (theory.md 2.3 for units and pools)."""
        from reldp.accounting.events import CoupledStep

        shrinks = {"relations": True, "entities": self.unit != "relation"}.get(
            self.negatives, False
        )
        return CoupledStep(
            num_relations=self.num_relations,
            pool_size=self.pool_size,
            max_degree=self.max_degree if self.unit != "relation" else 1,
            num_negatives=self.num_negatives if shrinks else 0,
            sample_rate=self.sample_rate,
            noise_multiplier=self.noise_multiplier,
            negative_replacement=self.clipping.replacement_sensitivity(self.num_negatives),
            negative_removal=self.clipping.removal_sensitivity(),
            claimed_constant=not self.clipping.is_local,
            drawn_negatives=self.num_negatives,
            pool_shrinks=shrinks,
        )

    @property
    def negatives_per_tuple(self) -> int:
        """Entities of a tuple beside its positive; other relations have two each."""
        return self.num_negatives * (2 if self.negatives == "relations" else 1)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on the clipped sum: noise_multiplier times clip_norm."""
        return self.noise_multiplier * self.clip_norm

    @property
    def grid(self) -> float | None:
        """Spacing of the grid on which contributions and noise lie; None without noise (theory.md 6)."""
        from reldp.noise import GRID

        return GRID * self.noise_std if self.noise_std > 0 else None

    def sampler(self, capped: "CappedGraph", streams: "Streams") -> "TupleSampler":
        """Build the sampler of this plan's batches from a capped graph."""
        from reldp.sampling import TupleSampler

        return TupleSampler(
            capped,
            sample_rate=self.sample_rate,
            num_negatives=self.num_negatives,
            streams=streams,
            negatives=self.negatives,
            public_pool_size=self.pool_size if self.negatives == "public" else None,
        )

    def noise(
        self, streams: "Streams", noise_generator: str = "secure", *, prefetch: int = 1
    ) -> "GaussianNoise | None":
        """Build the generator of standard normal noise; `reldp.noise.add_noise` scales it by `noise_std`.

        Args:
            streams: The run's streams.
            noise_generator: ``"secure"`` (cryptographic, correctly rounded) or ``"fast"`` (Philox).
            prefetch: Number of steps whose noise is drawn ahead of time.

        Returns:
            None for a plan without noise.
        """
        from reldp.noise import GaussianNoise

        if not self.noise_multiplier:
            return None
        return GaussianNoise(streams, noise_generator, prefetch=prefetch)

    def _accountant(self, name: str) -> "Accountant":
        check_choice("accountant", name, ACCOUNTANTS, error=PlanError)
        from reldp.accounting import PLDAccountant, RenyiAccountant

        return (PLDAccountant if name == "pld" else RenyiAccountant)(analysis=self.analysis)

    def privacy_cost(self, accountant: str = "pld", num_steps: int | None = None) -> "PrivacyCost":
        """Return epsilon with the accountant and the analysis that gave it.

        The analysis is ``"claimed"`` for a rule that is not local, which no analysis covers. The steps have delta -
        sizes_delta, and the release of private sizes adds sizes_epsilon: the plan depends on the release, so the two
        may only be added (theory.md 2.4).
        """
        given = self.num_steps if num_steps is None else as_integer(num_steps)
        steps = check_integer("num_steps", given, high=_MAX_STEPS, error=PlanError)
        rest = self.delta - self.sizes_delta
        cost = self._accountant(accountant).epsilon(self.event * steps, rest)
        analysis = cost.analysis if self.clipping.is_local else "claimed"
        total = cost.epsilon + self.sizes_epsilon
        return replace(cost, epsilon=total, delta=self.delta, analysis=analysis)

    price = privacy_cost  # hidden alias, for programs that use it

    def epsilon(self, accountant: str = "pld", num_steps: int | None = None) -> float:
        """Epsilon at delta after num_steps steps (all of them if None); infinite without noise."""
        return self.privacy_cost(accountant, num_steps).epsilon

    def expected_gain(self) -> str:
        """Say how much of the gain of training plans with this noise kept in experiments (docs/training.md)."""
        from reldp._gain_curve import gain_advice

        return gain_advice(self).words(self.epsilon())

    def rdp(self, orders: Sequence[float]) -> npt.NDArray[np.float64]:
        """Renyi epsilon of one step at the given orders, the smaller of the analyses at each.

        The release of private sizes (sizes_epsilon, sizes_delta) is not part of a step and is left out.
        """
        from reldp.accounting import renyi_epsilon

        rule = "finite numbers above 1"
        for order in orders:
            check_number("orders", order, low=1 + 1e-9, rule=rule, error=PlanError)
        analyses = (self.event * 1).analyses(self.analysis)
        each = [renyi_epsilon(self.event, name, orders) for name in analyses]
        return np.asarray(np.min(each, axis=0), dtype=np.float64)

    def calibrate(self, target_epsilon: float, accountant: str = "pld") -> "PrivacyPlan":
        """Return this plan with the least noise, to 0.1 %, whose epsilon is at most the target."""
        from reldp.accounting import least_noise

        check_target(target_epsilon, self.sizes_epsilon)
        noise, _ = least_noise(
            lambda sigma: replace(self, noise_multiplier=sigma).epsilon(accountant), target_epsilon
        )
        return replace(self, noise_multiplier=noise)

    def extend(self, target_epsilon: float, accountant: str = "pld") -> "PrivacyPlan":
        """Return this plan with num_steps replaced by the largest number whose epsilon is at most the target.

        The number may be larger or smaller than it is.
        """
        from reldp.accounting import max_steps

        check_target(target_epsilon, self.sizes_epsilon)
        steps, _ = max_steps(
            lambda count: self.epsilon(accountant, count), target_epsilon, max(self.num_steps, 1)
        )
        return replace(self, num_steps=steps)

    @classmethod
    def for_graph(
        cls,
        capped: "CappedGraph",
        *,
        sizes: str = "private",
        min_entities: int | None = None,
        max_relations: int | None = None,
        target_epsilon: float | None = None,
        sizes_folder: str | PathLike[str] | None = None,
        **settings: Any,
    ) -> "PrivacyPlan":
        """Make a plan for a capped graph; with a target the noise is calibrated to it.

        A target alone is enough: negatives, batch size and number of steps are then those that ``reldp inspect``
        suggests and ``reldp train`` uses. They follow from target and bounds on the sizes and reveal nothing else.

        With private sizes, the default, the first call for a graph has a side effect: it draws noisy bounds on the
        sizes, which costs epsilon, and stores them in the state folder (``$RELDP_STATE_DIR``, else
        ``~/.local/state/reldp``) and in the folder that the graph was read from. Later calls reuse them at no
        further cost. Where these folders do not persist, each call draws again, and each draw costs epsilon that no
        plan counts.

        Args:
            capped: The training graph, from ``cap_degrees`` or ``promise_degrees``.
            sizes: ``"private"``: noisy bounds on the graph's sizes, a differentially private release whose epsilon
                the plan includes; ``"declared"``: bounds that the owner knows without looking at the data;
                ``"public"``: the exact sizes, assumed to be known to everybody.
            min_entities: For declared sizes: lower bound on the number of entities.
            max_relations: For declared sizes: upper bound on the number of relations.
            target_epsilon: Epsilon to calibrate noise_multiplier to; then noise_multiplier is not given.
            sizes_folder: Another folder for private sizes than the one that the graph was read from.
            **settings: The other fields of the plan, each instead of its suggestion. delta defaults to a tenth of
                1 / num_entities. pool_size must be given for public negatives and for declared sizes alone.

        Raises:
            PlanError: A setting is unknown, missing or breaks its rule, or the target cannot be met.
        """
        check_graph_settings([field.name for field in fields(cls)], settings, target_epsilon)
        check_capped(capped)
        settings["unit"] = unit_for(capped, settings.get("unit", "entity"))
        check_before_release(cls, capped, settings, sizes, sizes_folder)
        bounds = bounds_for(
            capped,
            sizes=sizes,
            min_entities=min_entities,
            max_relations=max_relations,
            target_epsilon=target_epsilon,
            delta=settings.get("delta"),
            unit=settings["unit"],
            folder=sizes_folder,
            for_run=True,
            is_claimed=rule_status(settings.get("clipping", cls.clipping)) == "claimed",
        )
        if settings.get("negatives") in ("unprotected", "relations"):
            size = getattr(bounds, f"{settings['negatives']}_pool")
            settings["pool_size"] = size(capped, settings.get("pool_size"))
        taken = bounds.delta
        if "delta" not in settings:
            settings["delta"], taken = bounds.default_delta()
        fixed = graph_fields(capped, bounds, sizes_delta=taken)
        places = (capped.max_degree, bounds.max_relations, target_epsilon)
        return chosen_plan(lambda chosen: cls(**fixed, **chosen), settings, *places)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, without expected_batch_size, which follows from the others.

        num_relation_types is left out where it is 0: plans without types keep their hash.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        del values["expected_batch_size"]
        if not self.num_relation_types:
            del values["num_relation_types"]
        return {**values, "clipping": rule_name(self.clipping)}

    def to_json(self) -> str:
        """Return the plan as one JSON object with sorted keys; floats round-trip exactly."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=2)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "PrivacyPlan":
        """Return the plan of a dictionary; unknown names and missing required fields are refused."""
        known = [field.name for field in fields(cls)]
        for name in values:
            check_name(name, known, "a field of PrivacyPlan", error=PlanError)
        try:
            return cls(**values)
        except TypeError as error:
            raise PlanError(f"a plan lacks a field: {error}.") from None

    @classmethod
    def from_json(cls, text: str | bytes) -> "PrivacyPlan":
        """Return the plan that `to_json` wrote; JSON that could be read in two ways is refused."""
        return cls.from_dict(parsed_plan(text))

    @property
    def hash(self) -> str:
        """SHA-256 of the plan's canonical JSON, the same on every machine and version of Python."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()
