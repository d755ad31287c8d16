"""Checks that a plan is about the graph and that a step can be executed, before anything is computed.

Where sizes are private or declared, the plan holds bounds (theory.md 2.4): the graph must lie within
them. A refusal is for the owner's eyes only, since accepting and refusing would bisect the sizes,
and its message never prints an exact size. Private sizes must be those of a stored release, where one is
stored here; declared ones must not be, because the release costs epsilon. Where sizes are public, the plan's are
the graph's.

Public inside the package: `check_batch`, `check_fit`, `check_parts`, `check_table`, `check_device`, `make_table`,
`refuse_compiled`.

>>> from reldp.graph import EntityGraph
>>> from reldp.plan import PrivacyPlan
>>> ring = [(i, (i + 1) % 400) for i in range(400)]
>>> capped = EntityGraph.from_lists(range(400), ring, text=["x"] * 400).promise_degrees(2)
>>> plan = PrivacyPlan.for_graph(capped, sizes="public", num_negatives=2, expected_batch_size=10,
...                              num_steps=3, noise_multiplier=2.0)
>>> check_fit(capped, plan)
"""

import os
from collections.abc import Sized
from typing import TYPE_CHECKING, Any

import numpy as np

from reldp._plan_settings import MAX_STEPS, graph_fields
from reldp._validate import refuse
from reldp.clipping import RULES, is_builtin
from reldp.errors import ConfigError, EncoderError, RunError
from reldp.graph import CappedGraph
from reldp.graph.size_store import FILE_NAME
from reldp.graph.sizes import SizeBounds, stored_bounds
from reldp.noise.gaussian import MIN_DEVIATION
from reldp.plan import PrivacyPlan
from reldp.training.margins import MAX_SUM

if TYPE_CHECKING:
    from torch import nn

    from reldp.encoders import Encoder
    from reldp.processes import Processes
    from reldp.training.config import PerformanceSettings

__all__ = [
    "check_batch",
    "check_device",
    "check_fit",
    "check_parts",
    "check_table",
    "make_table",
    "refuse_compiled",
]


def check_parts(encoder: object, plan: object) -> None:
    """Refuse an encoder or a plan of another type."""
    from reldp.encoders import Encoder

    if not isinstance(encoder, Encoder):
        raise ConfigError(
            f"`encoder` must be an encoder, got {type(encoder).__name__}. Use TextEncoder.load, for example."
        )
    if any(value.is_inference() for value in encoder.module.parameters()):
        raise EncoderError(
            f"`encoder` must have weights that can be trained, got {type(encoder).__name__} with some that were made "
            "in torch.inference_mode(). Make its module outside of it."
        )
    if not isinstance(plan, PrivacyPlan):
        raise ConfigError(
            f"`plan` must be a PrivacyPlan, got {type(plan).__name__}. Make one with PrivacyPlan.for_graph."
        )


def check_fit(capped: CappedGraph, plan: PrivacyPlan, *, clip: bool = True) -> None:
    """Refuse a plan that is not about this graph, or whose steps cannot be executed.

    Args:
        capped: The training graph.
        plan: The plan.
        clip: Whether gradients are clipped.
    """
    if not isinstance(capped, CappedGraph):
        raise ConfigError(
            f"`capped` must be a CappedGraph, got {type(capped).__name__}. "
            "Call cap_degrees(max_degree, seed) or promise_degrees(max_degree) on the graph."
        )
    if not is_builtin(plan.clipping):
        raise ConfigError(
            f"`clipping` must be one of {', '.join(RULES)} to train, got a rule from outside of "
            f"reldp, {type(plan.clipping).__name__}. Its sensitivity is not proven."
        )
    if plan.num_steps > MAX_STEPS:
        raise ConfigError(
            f"`num_steps` must be at most {MAX_STEPS:,} to train, got {plan.num_steps:,}. The certificate of a longer "
            "run cannot be verified."
        )
    if plan.max_degree != capped.max_degree:
        raise ConfigError(
            f"`max_degree` of the plan must be the graph's {capped.max_degree}, "
            f"got {plan.max_degree}. Make the plan with PrivacyPlan.for_graph."
        )
    if plan.num_relation_types != len(capped.type_names):
        raise ConfigError(
            f"`num_relation_types` of the plan must be the graph's {len(capped.type_names)}, got "
            f"{plan.num_relation_types}. Declare the types with with_types, then make the plan with "
            "PrivacyPlan.for_graph."
        )
    if (plan.unit == "owner") != (capped.owners is not None):
        raise ConfigError(
            f"`unit` of the plan must be {'entity' if capped.owners is None else 'owner'} for this "
            f"graph, got {plan.unit!r}. Make the plan with PrivacyPlan.for_graph."
        )
    if plan.sizes == "public":
        _check_exact_sizes(capped, plan)
    else:
        _check_release(capped, plan)
        _check_bounds(capped, plan)
    _check_noise(plan, clip)


def make_table(
    encoder: "Encoder", capped: CappedGraph, performance: "PerformanceSettings", pool: Any = None
) -> Any:
    """Return the rows that steps use; the texts of a store are tokenized when the settings say."""
    from reldp.encoders import TextEncoder  # it loads torch, which checks of plans do without

    options = {}
    if performance.tokenize is not None and isinstance(encoder, TextEncoder):
        options["tokenize"] = performance.tokenize
    return encoder.table(capped, pool=pool, **options)


def check_table(table: Sized, capped: CappedGraph, plan: PrivacyPlan) -> None:
    """Refuse a table without the public entities of the plan."""
    if not isinstance(table, Sized):
        refuse("table", "something with a length, made by the encoder", table, error=ConfigError)
    expected = capped.num_entities + (plan.pool_size if plan.negatives == "public" else 0)
    if len(table) != expected:
        raise ConfigError(
            f"`pool` must hold the plan's {plan.pool_size} public entities, "
            f"got {len(table) - capped.num_entities}."
        )


def check_batch(
    place: tuple[int, int], drawn_for: tuple[int, int] | None, num_steps: int, num_claimed: int
) -> None:
    """Refuse a batch that was not drawn for a step, and steps that the plan does not have.

    Args:
        place: The step and the branch.
        drawn_for: Those that the batch was drawn for.
        num_steps: Number of steps of the plan.
        num_claimed: Number of steps that have run.
    """
    step, branch = place
    if drawn_for != place:
        raise RunError(
            f"`batch` must be what `draw` returned for step {step} of branch {branch}, got "
            "another. Epsilon holds for the batches that the plan's sampler draws."
        )
    if step >= num_steps or num_claimed >= num_steps:
        raise RunError(
            f"Steps must be at most the plan's {num_steps}, got one more. Plan more steps: "
            "epsilon counts those of the plan."
        )


def _check_exact_sizes(capped: CappedGraph, plan: PrivacyPlan) -> None:
    """Refuse public sizes that are not those of the graph."""
    sizes = {"num_entities": capped.num_units, "num_relations": capped.num_relations}
    if plan.negatives == "entities":
        sizes["pool_size"] = capped.num_units
    if plan.negatives == "relations":
        sizes["pool_size"] = capped.num_relations
    if plan.negatives == "unprotected":
        sizes["pool_size"] = _num_unprotected(capped)
    for name, value in sizes.items():
        if getattr(plan, name) != value:
            raise ConfigError(
                f"`{name}` of the plan must be the graph's {value}, got {getattr(plan, name)}. "
                "Make the plan with PrivacyPlan.for_graph."
            )


def _check_release(capped: CappedGraph, plan: PrivacyPlan) -> None:
    """Refuse private sizes that are not those of a release that is stored for this capped graph, and declared that are.

    Only a release for the graph at hand, with its seed and degree bound, makes bounds private (theory.md 2.4).
    """
    stored = stored_bounds(capped, plan.unit)
    if stored is None:
        return
    if plan.sizes == "declared":
        declared = plan.num_entities, plan.num_relations
        if any(b and declared == (b.min_entities, b.max_relations) for b in stored):
            raise ConfigError(
                "`sizes` of the plan must be private, got declared bounds that are those of the private sizes "
                "released for this graph. The release costs epsilon: make the plan with PrivacyPlan.for_graph."
            )
        return
    if not stored:
        raise ConfigError(
            "`sizes` of the plan must be private for this capped graph, got no release of its sizes here: the plan was "
            "made for another graph, degree bound or seed, or elsewhere. Make it with PrivacyPlan.for_graph, or copy "
            f"{FILE_NAME} from where it was made into the graph's folder."
        )
    differing = [_differing(capped, plan, bounds) for bounds in stored]
    if all(differing):
        raise ConfigError(
            f"`{differing[-1]}` of the plan must be that of the private sizes that were released for this graph, got "
            "another. Make the plan with PrivacyPlan.for_graph."
        )


def _differing(capped: CappedGraph, plan: PrivacyPlan, bounds: SizeBounds | None) -> str | None:
    """Return the first field of a plan that does not follow from a release; None if all do."""
    if bounds is None:
        return "sizes"
    expected: dict[str, Any] = graph_fields(capped, bounds, sizes_delta=bounds.delta)
    if plan.negatives == "relations":
        expected["pool_size"] = bounds.relations_pool(capped, None)
    if plan.negatives == "unprotected":
        expected["pool_size"] = bounds.min_unprotected
    if plan.sizes_delta == bounds.default_delta()[1]:  # a part of the default delta is set aside
        del expected["sizes_delta"]
    return next((name for name in expected if getattr(plan, name) != expected[name]), None)


def _check_bounds(capped: CappedGraph, plan: PrivacyPlan) -> None:
    """Refuse a graph outside of private or declared bounds; no message holds an exact size."""
    refused = None
    if capped.num_units < plan.num_entities:
        refused = "`num_entities` of the plan must be a lower bound, got a graph with fewer."
    elif capped.num_relations > plan.num_relations:
        refused = "`num_relations` of the plan must be an upper bound, got a graph with more."
    elif plan.negatives == "unprotected" and _num_unprotected(capped) < plan.pool_size:
        refused = (
            "`pool_size` of the plan must be a lower bound on unprotected entities, got fewer."
        )
    elif plan.negatives == "relations" and capped.num_relations < plan.pool_size:
        refused = "`pool_size` of the plan must be a lower bound on relations, got fewer."
    if refused is not None:
        raise ConfigError(
            f"{refused} Make the plan with PrivacyPlan.for_graph, or declare wider bounds. Show this "
            "message to nobody: it depends on the exact sizes."
        )


def _num_unprotected(capped: CappedGraph) -> int:
    """Return the number of unprotected entities or owners: the same for neighbors."""
    return int(np.count_nonzero(~capped.protected_units))


def _check_noise(plan: PrivacyPlan, clip: bool) -> None:
    """Refuse noise that cannot be added or hides nothing, and tuples without negatives."""
    if plan.num_negatives < 1:
        raise ConfigError("`num_negatives` must be at least 1 to learn from, got 0.")
    if not clip and plan.noise_multiplier > 0:
        raise ConfigError(
            "`clip` must be true when there is noise, got false. Without clipping, noise guarantees "
            "nothing; use noise_multiplier 0 for a run without privacy."
        )
    deviation, limit = plan.noise_std, MIN_DEVIATION
    if plan.noise_multiplier > 0 and not limit <= deviation <= 1 / limit:
        raise ConfigError(
            f"`clip_norm` must give noise a standard deviation from {limit:g} to {1 / limit:g}, got "
            f"{plan.clip_norm!r} with deviation {deviation!r}. Use 1.0: epsilon does not depend on it."
        )
    least = 4 * plan.expected_batch_size / MAX_SUM
    if 0 < plan.noise_multiplier < least:
        raise ConfigError(
            f"`noise_multiplier` must be at least {least:.2g} for this batch size, "
            f"got {plan.noise_multiplier!r}. Less hides nothing; 0 says so openly."
        )


def check_device(device: str, processes: "Processes | None" = None) -> None:
    """Refuse a device that is not there, or that several processes would share."""
    if device == "cpu":
        return
    import torch

    several = processes is not None and not processes.is_alone
    if ":" in device and several:
        raise ConfigError(
            f"`device` must be cpu or cuda with several processes, each of which takes a GPU of its own, got {device}."
        )
    index = device.partition(":")[2] or "0"
    count = torch.cuda.device_count()
    if several:
        index = os.environ.get("LOCAL_RANK", "0")
        if index.isdigit() and 0 < count <= int(index):
            raise ConfigError(
                f"`device` cuda must have a GPU for each process of a machine, got {count} for process {index}, "
                "counted from 0. Start fewer processes (--nproc-per-node), or use cpu."
            )
    if not index.isdigit() or int(index) >= count:
        raise ConfigError(
            f"`device` must exist here, got {device}: "
            f"{count or 'no'} CUDA device{'s' if count > 1 else ''} found. Use cpu."
        )


def refuse_compiled(module: "nn.Module", name: str = "encoder") -> None:
    """Refuse a module that torch.compile wraps."""
    if any(hasattr(child, "_orig_mod") for child in module.modules()):
        raise ConfigError(
            f"`{name}` must not be wrapped by torch.compile, got a wrapped module, whose layers "
            "have no per-unit gradients. Pass the module itself."
        )
