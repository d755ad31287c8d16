"""Audits of a run folder: the settings that its steps used, and a copy of the run that is trained with canaries.

The ledger of a run says how its encoder was made and how it was trained, so a copy can be trained from it. The copy is
a further run on the private graph, which no certificate counts, and which is entered in the graph's budget if it has
one. It is trained in a temporary folder, and what it shows is sensitive.

What can be refused is refused by `prepare_canaries`, which trains nothing and enters nothing.

Public to the package: `audit_canaries`, `prepare_canaries`, `initial_encoder`, `step_settings`, `on_this_machine`.

>>> on_this_machine(StepSettings(device="cpu")).device
'cpu'
"""

import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp._validate import NOISE_GENERATORS, PRECISIONS, check_choice, check_integer
from reldp.auditing.real_step import StepSettings
from reldp.auditing.training_audit import TrainingAudit, audit_copy, canary_copy
from reldp.errors import ConfigError, EncoderError, LedgerError
from reldp.graph.graph_names import graph_names
from reldp.graph.holdout import Holdout
from reldp.runs.budget import Budget
from reldp.runs.budget_place import budget_of_graph
from reldp.runs.feature_widths import refuse_wide_layers
from reldp.runs.run_folder import RunFolder, read_plan
from reldp.runs.sensitive_file import SensitiveRecord
from reldp.runs.start_entry import as_ledger_error, read_start

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.graph import EntityGraph

__all__ = [
    "audit_canaries",
    "initial_encoder",
    "on_this_machine",
    "prepare_canaries",
    "step_settings",
]

_FEATURE_SETTINGS = ("in_dim", "hidden", "dim", "activation", "bias", "normalize")
_TEXT_SETTINGS = ("pooling", "normalize", "max_length", "dtype")


def step_settings(run: RunFolder) -> StepSettings:
    """Return the settings of a run that decide which code its steps took."""
    start = read_start(run.ledger)
    with as_ledger_error("machine"):
        recorded = {**start["machine"], **start["training"]}
    names = {field.name for field in fields(StepSettings)}
    settings = StepSettings(**{name: recorded[name] for name in names & set(recorded)})
    units = settings.microbatch_units
    if units is not None:
        check_integer("microbatch_units", units, low=1, high=2**31, error=LedgerError)
    check_choice("noise_generator", settings.noise_generator, NOISE_GENERATORS, error=LedgerError)
    check_choice("precision", settings.precision, PRECISIONS, error=LedgerError)
    if not isinstance(settings.device, str):
        raise LedgerError(
            f"ledger.jsonl: start.machine.device must be text, got {settings.device!r:.40}."
        )
    return settings


def on_this_machine(settings: StepSettings) -> StepSettings:
    """Return the settings, with the CPU in place of a GPU that is not here."""
    import torch

    if settings.device == "cpu" or torch.cuda.is_available():
        return settings
    return replace(settings, device="cpu")


def audit_canaries(
    run: RunFolder,
    graph: "EntityGraph",
    *,
    num_canaries: int = 200,
    model: str | None = None,
    seed: int = 0,
) -> TrainingAudit:
    """Train a copy of a run on its graph with canaries, and try to tell which canaries were in. Sensitive.

    The copy lives in a temporary folder, which is removed before this function returns.

    Args:
        run: The run folder.
        graph: The graph of the run, not capped; held-out entities are left out as they were.
        num_canaries: Number of canaries; each is included with probability one half.
        model: Folder or hub name of the text model that the run started from; the name in the ledger if None.
        seed: Seed of the cap, of the canaries, and of their inclusion.

    Raises:
        ReldpError: Whatever `prepare_canaries` or the training of the copy refuses.
    """
    prepared = prepare_canaries(run, graph, num_canaries=num_canaries, model=model, seed=seed)
    return prepared()


def prepare_canaries(
    run: RunFolder,
    graph: "EntityGraph",
    *,
    num_canaries: int = 200,
    model: str | None = None,
    seed: int = 0,
) -> Callable[[], TrainingAudit]:
    """Return a function that does what `audit_canaries` does, once everything is checked; it is called once at most.

    Nothing is trained and nothing entered in a budget before it is called.

    Raises:
        ConfigError: The run draws negatives from a public pool, which its folder does not hold, or the graph is not
            the one that the run was trained on.
        EncoderError: The model is not the one that the run started from.
        PlanError: The copy would exceed the limit of the graph's budget.
    """
    from reldp.training import Trainer
    from reldp.training.advice import PoorPlanWarning

    plan, start = read_plan(run), read_start(run.ledger)
    if plan.negatives == "public":
        raise ConfigError(
            "`canaries` cannot be used for a run with public negatives, whose pool is not in its folder. "
            "Use reldp.auditing.audit_training."
        )
    if "loss" not in start["training"]:
        raise ConfigError(
            "`canaries` cannot be used for a run with a loss or a loop of its own, whose code is not in its "
            "folder. Use reldp.auditing.audit_training."
        )
    refuse_wide_layers(run, start["encoder"])
    split = start["graph"].get("holdout")
    trained = graph if split is None else Holdout.split(graph, **split).train
    _refuse_other_graph(run, trained)
    capped = trained.cap_degrees(plan.max_degree, seed=seed)
    copy = canary_copy(capped, plan, num_canaries=num_canaries, seed=seed)
    budget = budget_of_graph(graph.folder, None, graph_names(graph))
    if budget is not None:
        with Budget.open(budget, read_only=True) as opened:
            opened.refuse_run(copy.plan)  # its sizes are never released ones
    encoder = initial_encoder(start["encoder"], model)
    trainer = Trainer(encoder, copy.graph, copy.plan, budget=budget, **_training_settings(start))
    trainer._purpose = "audit"

    def train(with_canaries: Any, copy_plan: Any) -> Any:
        with (
            warnings.catch_warnings(),
            tempfile.TemporaryDirectory(prefix="reldp-audit-") as home,
        ):
            warnings.simplefilter("ignore", PoorPlanWarning)  # the run itself was warned
            return trainer.fit(Path(home) / "run").encoder.encode_graph

    def audit() -> TrainingAudit:
        reference = initial_encoder(start["encoder"], model).encode_graph
        return audit_copy(copy, train, reference=reference)

    return audit


def _refuse_other_graph(run: RunFolder, graph: "EntityGraph") -> None:
    """Refuse a graph of other sizes than the one that the run was trained on, where the run's folder knows them.

    The seed of the cap is not in the folder, so the fingerprint of the capped graph cannot be compared.
    """
    if not run.sensitive.exists():
        return
    known = SensitiveRecord.read(run.sensitive).statistics
    capping = known.get("capping")
    before = capping.get("num_relations_before") if isinstance(capping, dict) else None
    was = known.get("num_entities"), before
    for size, present in zip(was, (graph.num_entities, graph.num_relations), strict=True):
        if isinstance(size, int) and size != present:
            raise ConfigError(
                "`graph` must be the training graph of the run, got one with another number of entities or relations."
            )


def _training_settings(start: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the run learned, for a copy that logs nothing.

    A ledger without a pairing is of a version that compared a negative with one endpoint.
    """
    with as_ledger_error("machine"):
        performance = {"noise_generator": start["machine"]["noise_generator"]}
    return {"pairing": "one", **start["training"], **performance, "log_sensitive": False}


def initial_encoder(description: dict[str, Any], model: str | None = None) -> "Encoder":
    """Return the encoder that a ledger describes, as it was before training.

    Args:
        description: What `Encoder.describe` returned.
        model: Folder or hub name of a text encoder's model; the name in the description if None.
    """
    with as_ledger_error("encoder"):
        return _initial_encoder(description, model)


def _initial_encoder(description: dict[str, Any], model: str | None) -> "Encoder":
    from reldp.encoders import FeatureEncoder
    from reldp.training.trained import load_described

    if description["kind"] == "features":
        with as_ledger_error("encoder", EncoderError):
            return FeatureEncoder(**{name: description[name] for name in _FEATURE_SETTINGS})
    if description["kind"] != "text":
        raise ConfigError(
            f"`canaries` cannot be used for a run with an encoder of kind {description['kind']!r}, whose code is "
            "not in its folder. Use reldp.auditing.audit_training."
        )
    settings = {name: description[name] for name in _TEXT_SETTINGS}
    adaptation = description["adaptation"]
    if adaptation["train"] == "head":
        settings |= {"train": "head", "seed": adaptation["seed"]}
        settings |= {"head_hidden": adaptation["hidden"], "head_dim": adaptation["dim"]}
    else:
        settings |= adaptation
    return load_described(description, model, argument="model", **settings)
