"""What `reldp train` says of a run besides its result, on the error stream: as much as was asked for.

>>> with notes(None, shown=False):
...     note("nobody sees this")
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from reldp._progress import is_on_terminal
from reldp.cli.output import round_up, say

if TYPE_CHECKING:
    from reldp.training import Trainer
    from reldp.training.recipe import Recipe

__all__ = ["delta_note", "detail", "encoder_line", "gain_note", "note", "notes", "target_note"]

_REACHED = 0.95  # of the target; calibration stops at 0.1 % of the noise

# How much is said: False with --quiet, True with --verbose.
_VERBOSE: ContextVar[bool | None] = ContextVar("verbose", default=None)


@contextmanager
def notes(verbose: bool | None, *, shown: bool) -> Iterator[None]:
    """Say as much as was asked for; nothing if another process says it."""
    token = _VERBOSE.set(verbose if shown else False)
    try:
        yield
    finally:
        _VERBOSE.reset(token)


def note(sentence: str) -> None:
    """Print a line about the run to the error stream."""
    if _VERBOSE.get() is not False:
        say(f"reldp: {sentence}", err=True)


def detail(sentence: str) -> None:
    """Print a line about what is done, for logs and for --verbose: a terminal shows progress instead."""
    is_verbose = _VERBOSE.get()
    if is_verbose or (is_verbose is None and not is_on_terminal()):
        note(sentence)


def target_note(recipe: "Recipe", trainer: "Trainer") -> None:
    """Say that more noise than the target needs is added, where batches that cannot be drawn demand it."""
    from reldp.runs.privacy_cost import privacy_cost

    target = recipe.values["privacy"]["target_epsilon"]
    if target is None:
        return
    epsilon = privacy_cost(trainer.plan, "pld", trainer.plan.num_steps).epsilon
    if epsilon < _REACHED * target:
        note(
            f"epsilon is {round_up(epsilon)}, below the target: a larger one would give batches that are too large "
            "for the pool of negatives more than their part of delta. Smaller batches or fewer negatives need less "
            "noise."
        )


def delta_note(recipe: "Recipe", trainer: "Trainer") -> None:
    """Say what the default delta follows from, where that is a declared bound: there may be many more entities."""
    plan = trainer.plan
    is_entities = plan.sizes == "declared" and plan.unit != "relation"
    if is_entities and recipe.values["privacy"]["delta"] is None:
        note(
            f"delta is {round_up(plan.delta)}, a tenth of one over the declared {plan.num_entities:,}. If the graph "
            "has many more, give --delta: it should be well below one over their number."
        )


def gain_note(recipe: "Recipe", trainer: "Trainer") -> None:
    """Say how much of the gain plans with this noise kept in the experiments, which were made with text encoders."""
    target = recipe.values["privacy"]["target_epsilon"]
    if target is not None and trainer.encoder.describe()["kind"] == "text":
        from reldp._gain_curve import gain_advice

        words = gain_advice(trainer.plan).words(target)
        note(words[0].lower() + words[1:])


def encoder_line(recipe: "Recipe", trainer: "Trainer", processes: int) -> str:
    """Return a sentence about what is trained, and on which devices."""
    description = trainer.encoder.describe()
    text = description["kind"] == "text"
    encoder = description["base_model"] if text else "an encoder of the graph's features"
    reason = (
        "" if recipe.values["encoder"]["model"] else " (the default, since --model is not given)"
    )
    several = f", in {processes} processes" if processes > 1 else ""
    return f"training {encoder}{reason} on {trainer.config.performance.device}{several}."
