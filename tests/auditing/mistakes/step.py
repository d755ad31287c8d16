"""Mistakes in the training step itself, each put into the code that trains, and the parts of the audit that see it.

Every mistake is a context manager that changes `reldp.training.step.PrivateStep`, or what it calls, as a wrong commit
would. Where the check of locality would refuse the mistake before any step, it is switched off: it has tests of its
own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
import torch

from reldp.auditing import audit_step
from reldp.auditing.probe import ProbeModule
from reldp.auditing.real_step import StepSettings
from reldp.gradients import PerUnitGradients
from reldp.gradients.microbatches import Microbatch
from reldp.noise import Streams
from reldp.plan import PrivacyPlan
from reldp.sampling import TupleBatch, TupleSampler
from reldp.sampling.distinct import distinct
from reldp.training import step as training_step
from reldp.training.guard import LocalityGuard
from reldp.training.step import PrivateStep

# A plan for WordNet's nouns at epsilon 4.
PLAN = PrivacyPlan(
    num_entities=82_115, num_relations=58_131, max_degree=5, num_negatives=4,
    expected_batch_size=64, num_steps=60, noise_multiplier=0.75, clip_norm=0.03, delta=1.2e-6,
)  # fmt: skip
# The same rates on a graph that is built in no time.
SMALL = PrivacyPlan(
    num_entities=2000, num_relations=1500, max_degree=5, num_negatives=4,
    expected_batch_size=16, num_steps=60, noise_multiplier=0.75, clip_norm=0.03, delta=1e-4,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StepMistake:
    """A mistake and the parts of the audit that see it.

    Attributes:
        name: For tables.
        put_in: Context manager that makes the mistake.
        cases: Parts of the audit that see it.
        settings: The run's settings.
        trials: Trials with which the gallery's test is sure to see it.
        addresses: Steps whose noise is compared; the audit's default if None.
    """

    name: str
    put_in: Callable[[], object]
    cases: tuple[str, ...]
    settings: StepSettings | None = None
    trials: int = 1000
    addresses: int | None = None

    def audit(self, seed, *, wrong=True, plan=SMALL, trials=None, cases=None):
        """The audit, by default of the parts that see the mistake."""
        with self.put_in() if wrong else nullcontext():
            return audit_step(
                plan, trials=trials or self.trials, cases=self.cases if cases is None else cases,
                key=seed.to_bytes(32, "big"), settings=self.settings, addresses=self.addresses,
            )  # fmt: skip


@contextmanager
def unchecked() -> Iterator[None]:
    """The step without its own checks of locality."""

    with (
        patch.object(LocalityGuard, "find_layouts", lambda self, shapes: shapes),
        patch.object(LocalityGuard, "check_again", lambda self, *args: None),
        patch.object(LocalityGuard, "is_current", True),
    ):
        yield


@contextmanager
def little_noise(share=0.5**0.5):
    """The deviation of the noise is too small."""
    right = training_step.add_noise

    def wrong(total, noise, *, standard_deviation):
        return right(total, share * noise, standard_deviation=standard_deviation)

    with patch.object(training_step, "add_noise", wrong):
        yield


@contextmanager
def little_noise_for_large_batches():
    """The deviation is too small where the batch is larger than expected."""
    right = PrivateStep.run

    def wrong(self, batch, step, branch):
        if batch.num_tuples <= self._plan.expected_batch_size:
            return right(self, batch, step, branch)
        with little_noise():
            return right(self, batch, step, branch)

    with patch.object(PrivateStep, "run", wrong):
        yield


@contextmanager
def noise_every(period, branches=None):
    """Noise from an address that has been used before."""
    right = PrivateStep._draw_noise

    def wrong(self, step, branch, total):
        known = branch if branches is None else branch % branches
        return right(self, step % period, known, total)

    with patch.object(PrivateStep, "_draw_noise", wrong):
        yield


@contextmanager
def noise_of_few_bits(bits):
    """A generator that uses few bits of its seed; torch's on a CPU uses 32."""

    def wrong(self, step, branch, total):
        seed = int(self._streams.stream("mistake/seed", branch, step).integers(1 << bits, 1)[0])
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(total.numel(), dtype=torch.float64, generator=generator)

    with patch.object(PrivateStep, "_draw_noise", wrong):
        yield


@contextmanager
def mean_of_a_microbatch_clipped():
    """The mean gradient of a microbatch is clipped, and counted once for each of its units."""
    right = PerUnitGradients.clipped_sum

    def wrong(self, losses, thresholds, *args, **kwargs):
        limits = torch.as_tensor(thresholds)
        found = right(self, losses, torch.full_like(limits, 1e12), *args, **kwargs)
        grid = kwargs.get("grid") or 1.0  # sums are whole numbers of grid steps
        weights = kwargs.get("weights")
        units = len(limits) if weights is None else float(weights.sum())
        norm = grid * found.total.norm() / units
        factor = float((limits[0] / norm).clamp(max=1.0))
        return replace(found, total=found.total * factor)

    with patch.object(PerUnitGradients, "clipped_sum", wrong):
        yield


@contextmanager
def rate_too_high(share=1.2):
    """Relations are drawn more often than the plan says."""
    right = TupleSampler.__init__

    def wrong(self, capped, *, sample_rate, **settings):
        right(self, capped, sample_rate=min(1.0, share * sample_rate), **settings)

    with patch.object(TupleSampler, "__init__", wrong):
        yield


@contextmanager
def negatives_avoid_endpoints():
    """Negatives come from entities that are no endpoint of the batch."""
    right = TupleSampler.sample

    def wrong(self, step, branch=0):
        batch = right(self, step, branch)
        free = np.setdiff1d(np.arange(self._first_public), batch.positives)
        if free.size < batch.negatives.size:
            return batch
        stream = Streams(bytes(32)).stream("mistake/negatives", branch, step + 10**6 * free.size)
        chosen = free[distinct(stream, free.size, batch.negatives.size)]
        return TupleBatch(
            positives=batch.positives, negatives=chosen.reshape(batch.negatives.shape),
            endpoints=batch.endpoints, relation_ids=batch.relation_ids,
        )  # fmt: skip

    with patch.object(TupleSampler, "sample", wrong):
        yield


@contextmanager
def gradient_depends_on_place():
    """A unit at an odd place of its microbatch has the opposite gradient."""
    right = PrivateStep._losses

    def wrong(self, microbatch):
        found = right(self, microbatch)
        return found * (1 - 2 * (torch.arange(len(found)) % 2))

    with unchecked(), patch.object(PrivateStep, "_losses", wrong):
        yield


@contextmanager
def embeddings_less_their_mean(detached):
    """The encoder subtracts the mean of the microbatch."""
    right = ProbeModule.forward

    def wrong(self, features):
        found = right(self, features)
        mean = found.mean(dim=0, keepdim=True)
        return found - (mean.detach() if detached else mean)

    with unchecked(), patch.object(ProbeModule, "forward", wrong):
        yield


@contextmanager
def padding_with_a_threshold_of_its_own():
    """Padding units count, up to a norm of 1 instead of a weight of 0: a clip norm of 0.05 is far below."""
    right = Microbatch.fill

    def wrong(self, inputs):
        right(self, inputs)
        self.weights.fill_(1.0)
        self.thresholds[len(inputs.thresholds) :] = 1.0

    with unchecked(), patch.object(Microbatch, "fill", wrong):
        yield


BY_COUNTING = " (bound on epsilon)"
MISTAKES = [
    StepMistake(
        name="noise divided by the square root of 2",
        put_in=little_noise,
        cases=("checks",),
        trials=150,
    ),
    StepMistake(
        name="noise divided by the square root of 2" + BY_COUNTING,
        put_in=little_noise,
        cases=("several relations",),
    ),
    StepMistake(
        name="noise divided by the square root of 2 for batches above the expected size",
        put_in=little_noise_for_large_batches,
        cases=("checks",),
        trials=150,
    ),
    StepMistake(
        name="noise divided by the square root of 2 for batches above the expected size"
        + BY_COUNTING,
        put_in=little_noise_for_large_batches,
        cases=("one other relation",),
    ),
    StepMistake(
        name="the same noise every 50 steps",
        put_in=lambda: noise_every(50),
        cases=("checks",),
        trials=150,
    ),
    StepMistake(
        name="the same noise in every branch",
        put_in=lambda: noise_every(1 << 62, branches=1),
        cases=("checks",),
        trials=150,
    ),
    StepMistake(
        name="noise from a seed of 20 bits, among 6,000 steps",
        put_in=lambda: noise_of_few_bits(20),
        cases=("checks",),
        trials=150,
        addresses=4000,
    ),
    StepMistake(
        name="the mean of a microbatch clipped instead of its units",
        put_in=mean_of_a_microbatch_clipped,
        cases=("many other relations",),
        trials=400,
    ),
    StepMistake(
        name="sample rate 1.2 times too high", put_in=rate_too_high, cases=("checks",), trials=150
    ),
    StepMistake(
        name="sample rate 1.2 times too high" + BY_COUNTING,
        put_in=rate_too_high,
        cases=("sample rate",),
    ),
    StepMistake(
        name="negatives avoid the batch's endpoints",
        put_in=negatives_avoid_endpoints,
        cases=("negatives",),
        trials=600,
    ),
    StepMistake(
        name="a gradient depends on its unit's place",
        put_in=gradient_depends_on_place,
        cases=("one other relation",),
    ),
    StepMistake(
        name="embeddings less the mean of the microbatch",
        put_in=lambda: embeddings_less_their_mean(detached=False),
        cases=("many other relations",),
        trials=400,
    ),
    StepMistake(
        name="embeddings less the detached mean of the microbatch",
        put_in=lambda: embeddings_less_their_mean(detached=True),
        cases=("many other relations",),
        trials=400,
    ),
    StepMistake(
        name="padding with a threshold of 1 instead of a weight of 0",
        put_in=padding_with_a_threshold_of_its_own,
        cases=("many other relations",),
        trials=400,
    ),
]
