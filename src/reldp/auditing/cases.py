"""What the training step is audited on: the plan's own graphs, and small graphs that bring mistakes to light.

At a plan's own settings one step shows little: an entity is in one batch of a hundred. So besides the plan itself
there are stress cases: the same code, clipping rule, negatives per tuple, noise source, precision and device, but
sizes and rates at which one step tells much about the entity. Each has its own claim, from the same accountant.

| case | what it brings to light |
|---|---|
| plan | anything that depends on the plan's own sizes |
| one other relation | positions in a microbatch, the deviation of the noise, also for batches above the expected size |
| many other relations | embeddings or thresholds that reach other tuples, at a small clip norm |
| several relations | sums over several relations of the entity |
| sample rate | how often relations are drawn |
| negatives | how negatives are drawn, where endpoints are a large part of all entities |
| other relations | how other relations are drawn, for plans whose negatives they are |

Deltas are large, because that is where counting has power: with noise too small by the square root of 2, 1,000 trials
refute the claim at delta 0.3 nearly always and at delta 0.05 nearly never.

Public to `reldp.auditing`: `StepCase`, `step_cases`, `KEY_LABELS`.

>>> plan = PrivacyPlan(num_entities=1000, num_relations=900, max_degree=5, num_negatives=4, sample_rate=0.01,
...                    num_steps=10, noise_multiplier=1.0, delta=1e-4)
>>> [case.name for case in step_cases(plan)]  # doctest: +NORMALIZE_WHITESPACE
['plan', 'plan', 'one other relation', 'many other relations', 'several relations', 'sample rate',
 'negatives']
"""

from dataclasses import dataclass

from reldp.auditing.audit import default_deltas
from reldp.plan import PrivacyPlan

__all__ = ["KEY_LABELS", "StepCase", "step_cases"]

KEY_LABELS = {
    "one other relation": "one other",
    "many other relations": "many others",
    "several relations": "many own",
    "sample rate": "rate",
}
"""Labels in the derivation of keys: they never change, so that a seed repeats an audit whatever cases are called."""

_MAX_ENTITY_RELATIONS = 5
_SMALL_NORM = 0.05


@dataclass(frozen=True, kw_only=True)
class StepCase:
    """Two neighboring graphs, a design and the deltas at which epsilon is compared.

    Attributes:
        name: For tables.
        plan: What is claimed and run.
        graph: See `reldp.auditing.real_step.Job`.
        design: Likewise.
        deltas: Where to compare.
        effort: Trials of this case for one trial of the others.
    """

    name: str
    plan: PrivacyPlan
    graph: str
    design: str
    deltas: tuple[float, ...]
    effort: int = 1


def step_cases(plan: PrivacyPlan, deltas: tuple[float, ...] | None = None) -> list[StepCase]:
    """Return the cases of a plan: graphs of its sizes under both designs, then the stress cases."""
    chosen = default_deltas(plan) if deltas is None else tuple(sorted(set(deltas)))
    plan_cases = [
        StepCase(name="plan", plan=plan, graph="crowded", design=design, deltas=chosen)
        for design in ("zero elsewhere", "opposing elsewhere")
    ]
    return plan_cases + stress_cases(plan)


def stress_cases(plan: PrivacyPlan) -> list[StepCase]:
    """Return the stress cases of a plan."""
    k, degree = plan.num_negatives, min(plan.max_degree, _MAX_ENTITY_RELATIONS)

    def case(
        name: str,
        design: str,
        deltas: tuple[float, ...],
        *,
        graph: str = "matched",
        effort: int = 1,
        **settings: object,
    ) -> StepCase:
        return StepCase(
            name=name,
            plan=_stress_plan(plan, **settings),
            graph=graph,
            design=design,
            deltas=deltas,
            effort=effort,
        )

    spare = 2000 * k  # so many entities that the entity is seldom a negative
    cases = [
        case(
            "one other relation", "opposing elsewhere", (0.3,),
            num_entities=spare, num_relations=1, noise_multiplier=0.7,
        ),
        case(
            "many other relations", "opposing elsewhere", (0.3,),
            num_entities=spare, num_relations=8, noise_multiplier=0.7, clip_norm=_SMALL_NORM,
        ),
        case(
            "several relations", "zero elsewhere", (0.3,),
            num_entities=spare, num_relations=4, max_degree=degree, noise_multiplier=0.5 * degree,
        ),
        case(
            "sample rate", "zero elsewhere", (0.72,),
            num_entities=spare, num_relations=4, sample_rate=0.8, noise_multiplier=0.3,
        ),
        case(
            "negatives", "zero elsewhere", (0.22,), graph="crowded", effort=2,
            num_entities=12, num_relations=45, num_negatives=1, sample_rate=1 / 15,
            noise_multiplier=0.35,
        ),
    ]  # fmt: skip
    if plan.negatives == "relations":
        cases.append(
            case(
                "other relations", "zero elsewhere", (0.18,), graph="crowded", effort=2,
                num_entities=180, num_relations=45, num_negatives=4, sample_rate=0.05,
                noise_multiplier=0.35, negatives="relations", pool_size=45,
            )
        )  # fmt: skip
    return cases


def _stress_plan(plan: PrivacyPlan, **settings: object) -> PrivacyPlan:
    """Return a small plan with the rule, number of negatives and clip norm of the given one.

    Negatives are entities, whatever the given pool is, but in the case that draws relations: so few relations have no
    others to be drawn.
    """
    values = {
        "max_degree": 1,
        "sample_rate": 1.0,
        "num_steps": 1,
        "noise_multiplier": 1.0,
        "delta": 0.05,
        "num_negatives": plan.num_negatives,
        "clipping": plan.clipping,
        "clip_norm": plan.clip_norm,
        "unit": "owner" if plan.unit == "owner" else "entity",
        **settings,
    }
    return PrivacyPlan(**values)  # type: ignore[arg-type]  # one dictionary of several types
