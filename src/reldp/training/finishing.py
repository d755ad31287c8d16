"""Ending a run early, with a model and a certificate of the steps spent so far.

The model is that of the newest checkpoint. Every step that the ledger counts is certified, whether or not
the checkpoint includes it, and the key is destroyed. No graph is needed: the weights are noisy already.

When to end is a decision, and epsilon depends on what it was made by (theory.md 6). A number of *steps* that was fixed
without the data gives the epsilon of the counted steps. *Time* (a deadline, a machine that was taken away) gives the
same under the assumption that the time that steps take shows nothing about the data. A *result* (noisy weights, or
their evaluation on public data) gives the epsilon of all planned steps. The certificate says which was declared. A run
that a callback ever stopped is ended by a result; if the callback saw sensitive values, no epsilon covers the
decision, and the run goes on to its last step or is abandoned. Steps are counted in blocks before they run, so a run
can end early although all of them are counted.

Public inside the package: `finish`, `encoder_of_run`, `named_encoder`.

>>> finish("nowhere")
Traceback (most recent call last):
reldp.errors.RunError: The run folder must exist, got 'nowhere'.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp._validate import check_choice
from reldp.errors import ConfigError, EncoderError, ResumeError
from reldp.runs.certificate_files import write_certificate
from reldp.runs.changes import changes
from reldp.runs.checkpoints import read_checkpoint, remove_other_checkpoints
from reldp.runs.ending import open_unfinished
from reldp.runs.feature_widths import refuse_wide_layers
from reldp.runs.key import refuse_linked_key
from reldp.runs.run_folder import RunFolder, read_plan
from reldp.runs.schema import DECISIONS
from reldp.runs.session import complete_run
from reldp.runs.start_entry import as_ledger_error, check_start, read_start

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.losses import Loss
    from reldp.runs.certificate import Certificate
    from reldp.runs.ledger import Ledger, LedgerRecord

__all__ = ["encoder_of_run", "finish", "named_encoder"]

_LOSS = "loss."
_FEATURE_FACTS = ("kind", "base_weights_sha256", "start_sha256", "num_trainable")
# Names in the ledger of arguments of `TextEncoder.load`.
_ADAPTATION = {
    **{n: n for n in ("train", "lora_rank", "lora_alpha", "lora_targets", "lora_layers", "seed")},
    "hidden": "head_hidden",
    "dim": "head_dim",
}


def finish(
    folder: str | Path,
    *,
    decided_by: str | None = None,
    encoder: "Encoder | None" = None,
    loss: "Loss | None" = None,
) -> "Certificate":
    """Write model and certificate of the steps spent so far, and destroy the key.

    Args:
        folder: The run folder. A complete run gets its certificate again.
        decided_by: What the decision to end was made by: ``"steps"``, ``"time"`` or ``"result"``. Needed unless
            the newest checkpoint is that of the last step.
        encoder: An encoder made like the one of the run, with any weights; by default it is
            made from what the ledger says about it.
        loss: The loss of the run, if it has trained parameters.

    Raises:
        ConfigError: The encoder is another, or cannot be made from the ledger; or `decided_by` is missing,
            contradicts the ledger, or comes after the end of the run.
        ResumeError: No step has been saved, or the checkpoint is damaged.
        RunError: There is no run, it is abandoned, holds links, or another process has it open.
    """
    run = RunFolder(folder)
    if decided_by is not None:
        check_choice("decided_by", decided_by, DECISIONS, error=ConfigError)
    with open_unfinished(run) as ledger:
        check_start(ledger.record.start)
        _check_decision(ledger.record, decided_by)
        if ledger.record.completion is None:
            refuse_linked_key(run.key)
            _complete(run, ledger, decided_by=decided_by, encoder=encoder, loss=loss)
        named = ledger.record.checkpoint
        if named is not None and run.checkpoints.is_dir():
            # A process that was killed may have left a part of the next one.
            remove_other_checkpoints(run.checkpoints, int(named["step"]))
        run.remove_leftovers()
    return write_certificate(run)


def _complete(
    run: RunFolder,
    ledger: "Ledger",
    *,
    decided_by: str | None,
    encoder: "Encoder | None",
    loss: "Loss | None",
) -> None:
    from reldp.encoders.folders import state_hash
    from reldp.losses import InfoNCELoss
    from reldp.training.objective import Objective
    from reldp.training.state import TrainingState

    named = ledger.record.checkpoint
    if named is None or not named["step"]:
        raise ResumeError(
            f"The run in {run.path.name!r} must have saved a step to be finished, got none. Resume it, or "
            "use reldp abandon."
        )
    plan = read_plan(run)
    state = TrainingState.from_bytes(
        read_checkpoint(run.checkpoints, int(named["step"]), str(named["sha256"]))
    )
    if loss is None and any(name.startswith(_LOSS) for name in state.released):
        raise ConfigError(
            "`loss` must be given, since the loss of this run was trained, got none. Use "
            "reldp.training.finishing.finish in Python."
        )
    described = ledger.record.start["encoder"]
    if encoder is None:
        refuse_wide_layers(run, described)
        encoder = encoder_of_run(described)
    _refuse_another(described, encoder)
    objective = Objective(encoder, InfoNCELoss() if loss is None else loss, plan)
    objective.load(state.released)
    facts: dict[str, Any] = {"chosen": dict(state.chosen)} if state.chosen else {}
    if ledger.record.is_early:
        facts["stopped_at"] = int(named["step"])
        facts["stop_decided_by"] = decided_by
    objective.mark_trained()
    complete_run(run, ledger, objective.save, state_hash(objective.parameters), facts)


def _check_decision(record: "LedgerRecord", decided_by: str | None) -> None:
    """Refuse a declaration that is missing, too late, or contradicts the ledger."""
    completion = record.completion
    if completion is not None:
        declared = completion.get("stop_decided_by")
        if decided_by not in (None, declared):
            raise ConfigError(
                f"`decided_by` must be what the ledger says, {declared or 'nothing, since all steps were taken'}, got "
                f"{decided_by}. It was declared when the run ended, and cannot be changed."
            )
        return
    if record.is_cut_by_sensitive:
        raise ConfigError(
            "The run must not have been stopped by sensitive values, got a stop by a callback that sees them: no "
            "epsilon covers the decision to end early. Resume it until its last step, or use reldp abandon."
        )
    if not record.is_early:
        return
    if record.stoppers and decided_by != "result":
        raise ConfigError(
            f"`decided_by` must be result, since a callback stopped this run, got {decided_by or 'none'}."
        )
    if decided_by is None:
        raise ConfigError(
            f"`decided_by` must say what the decision to end was made by, {', '.join(DECISIONS)}, got none. Use "
            "result if anybody looked at the model."
        )


def encoder_of_run(described: Mapping[str, Any], model: str | None = None) -> "Encoder":
    """Return an encoder made like the one that a ledger describes.

    Args:
        described: ``encoder`` of the ledger's start.
        model: Folder or hub name of the base model; by default the name that the ledger has for it.

    Raises:
        ConfigError: The ledger does not say how to make it.
        EncoderError: The base model cannot be loaded here.
        LedgerError: No run describes an encoder in this way.
    """
    with as_ledger_error("encoder"):
        return _encoder_of_run(described, model)


def _encoder_of_run(described: Mapping[str, Any], model: str | None) -> "Encoder":
    from reldp.encoders import FeatureEncoder, TextEncoder

    if described["kind"] == "features":
        settings = {n: v for n, v in described.items() if n not in _FEATURE_FACTS}
        with as_ledger_error("encoder", EncoderError):
            return FeatureEncoder(settings.pop("in_dim"), **settings)
    adaptation = described.get("adaptation", {})
    if described["kind"] != "text" or "train" not in adaptation:
        raise ConfigError(
            f"`encoder` must be given, since reldp cannot make one of kind {described['kind']!r}, got none. "
            "Use reldp.training.finishing.finish in Python."
        )
    settings = {
        argument: adaptation[name]
        for name, argument in _ADAPTATION.items()
        if adaptation.get(name) is not None
    }
    settings |= {n: described[n] for n in ("pooling", "normalize", "max_length", "dtype")}
    return TextEncoder.load(model or described["base_model"], **settings)


def named_encoder(folder: str | Path, model: str | None) -> "Encoder | None":
    """Return the encoder of a run for a base model that is named, or None without a name."""
    if model is None:
        return None
    run = RunFolder(folder)
    described = read_start(run.ledger)["encoder"]
    refuse_wide_layers(run, described)
    return encoder_of_run(described, model)


def _refuse_another(described: Mapping[str, Any], encoder: "Encoder") -> None:
    """Refuse an encoder whose description is not the one in the ledger."""
    ignored = {"start_sha256": "", "base_model": ""}
    if described["kind"] == "features":  # all of its weights are in the checkpoint
        ignored["base_weights_sha256"] = ""
    now = json.loads(json.dumps(encoder.describe()))
    differences = changes("encoder.", {**described, **ignored}, {**now, **ignored})
    if differences:
        raise ConfigError(
            f"`encoder` must be made like that of the run, got: {'; '.join(differences)}."
        )
