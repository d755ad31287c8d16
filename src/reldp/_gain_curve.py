"""What noise costs in accuracy, from experiments on public graphs: how much of the gain of training is kept.

A *curve* belongs to one training graph, test graph, encoder and configuration. Its points are private runs: the noise
per expected batch, sigma * C / b, and the share of the gain of training without privacy that was kept, with a 95 %
interval. Curves fall with noise (isotonic regression) and are interpolated in the logarithm of the noise. Advice
about a plan is the range over curves that were measured at its noise, those with its degree bound and negatives if
there are some: graphs differ, so there is no single number. Outside of the measured noise nothing is extrapolated.

All of it is public: constants of the package (``_gain_curve.json``, written by ``python -m benchmarks.gain_curve``)
and the plan, which is public itself. For private sizes it follows from the released bounds, so advice reveals nothing
more and costs nothing (theory.md 2.4).

Inside the package: `Choice`, `GainTable`, `GainAdvice`, `gain_advice`, `gain_table`.

>>> from reldp.plan import PrivacyPlan
>>> plan = PrivacyPlan(num_entities=100, num_relations=200, max_degree=5, num_negatives=4,
...                    expected_batch_size=2, num_steps=500, noise_multiplier=4.0, delta=1e-3)
>>> gain_advice(plan).is_beyond
True
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan

__all__ = ["Choice", "GainAdvice", "GainTable", "gain_advice", "gain_table"]

_FILE = "_gain_curve.json"
_USELESS = 0.15  # a plan that keeps less than this, at best, is not worth its epsilon
_NEAR = 1.25  # times less noise than was measured is still "this much noise"
_FAR = (
    2.0  # times the largest noise that was measured: beyond that nothing follows from measurements
)
_ROUND = 5  # percent
_MUCH = 0.05  # noise per expected batch above which the default learning rate lost a little (docs/benchmarks.md)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A configuration that was measured, relative to the size of a graph.

    Attributes:
        max_degree: Degree bound, K.
        num_negatives: Negatives per relation, k.
        batch: Largest expected batch size, b.
        passes: Passes over the relations, from which the number of steps follows.
        batch_share: Largest share of the relations that a batch may expect: amplification by sampling fades above.
        negatives: Pool of the negatives: ``"entities"``, or ``"relations"``, whose number is then `num_negatives`.
    """

    max_degree: int
    num_negatives: int
    batch: int
    passes: float
    batch_share: float = 0.005
    negatives: str = "entities"

    def is_like(self, other: "Choice") -> bool:
        """Return whether another configuration is the same, up to a quarter of the passes."""
        one, two = ((c.max_degree, c.num_negatives, c.batch, c.negatives) for c in (self, other))
        longer = max(self.passes, other.passes)
        return one == two and abs(self.passes - other.passes) <= 0.25 * longer


@dataclass(frozen=True, kw_only=True)
class Point:
    """Private runs at one level of noise.

    Attributes:
        noise: Noise multiplier times clip norm, divided by the expected batch size.
        share: Share of the gain of training without privacy that was kept.
        low: Lower end of its 95 % interval.
        high: Upper end.
    """

    noise: float
    share: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points of one training graph, test graph, encoder and configuration, by noise, falling.

    Attributes:
        train: Training graph.
        test: Test graph.
        encoder: Encoder and pooling.
        choice: The configuration.
        points: At least one point.
    """

    train: str
    test: str
    encoder: str
    choice: Choice
    points: tuple[Point, ...]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Curve":
        """Return the curve of plain values, made to fall."""
        points = sorted((Point(**point) for point in values["points"]), key=lambda p: p.noise)
        columns = ([getattr(p, name) for p in points] for name in ("share", "low", "high"))
        fallen = zip(points, *map(falling, columns), strict=True)
        return cls(
            train=values["train"],
            test=values["test"],
            encoder=values["encoder"],
            choice=Choice(**values["choice"]),
            points=tuple(
                Point(noise=p.noise, share=share, low=low, high=high)
                for p, share, low, high in fallen
            ),
        )

    def at(self, noise: float) -> Point | None:
        """Return the interpolated point at some noise; None outside of the measured noise.

        A little less noise than was measured counts as the least that was: it costs no more.
        """
        first, last = self.points[0], self.points[-1]
        if not first.noise / _NEAR <= noise <= last.noise:
            return None
        noise = max(noise, first.noise)
        left = max((p for p in self.points if p.noise <= noise), key=lambda p: p.noise)
        right = min((p for p in self.points if p.noise >= noise), key=lambda p: p.noise)
        if left.noise == right.noise:
            return left
        part = math.log(noise / left.noise) / math.log(right.noise / left.noise)
        mixed = {
            name: (1 - part) * getattr(left, name) + part * getattr(right, name)
            for name in ("share", "low", "high")
        }
        return Point(noise=noise, **mixed)


@dataclass(frozen=True, kw_only=True)
class GainTable:
    """All curves, and the configurations to choose from.

    Attributes:
        curves: The curves.
        choices: Configurations that a suggestion may use besides the default.
        selection: Training and test graph on which configurations are compared.
        without_gain: Names of pairs of graphs on which training without privacy gained next to nothing.
    """

    curves: tuple[Curve, ...]
    choices: tuple[Choice, ...]
    selection: tuple[str, str]
    without_gain: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "GainTable":
        """Return the table of plain values."""
        return cls(
            curves=tuple(map(Curve.from_json, values["curves"])),
            choices=tuple(Choice(**choice) for choice in values["choices"]),
            selection=tuple(values["selection"]),
            without_gain=tuple(values["without_gain"]),
        )

    @property
    def caveat(self) -> str:
        """What the advice does not know, in one sentence: whether there is a gain."""
        measured = {(curve.train, curve.test) for curve in self.curves}
        total = len(measured) + len(self.without_gain)
        return (
            f"The gain is that of training without privacy: on {len(self.without_gain)} of {total} pairs of graphs it "
            "was too small to be kept. reldp train --holdout measures it on your graph."
        )

    def advice(
        self,
        noise: float,
        *,
        max_degree: int | None = None,
        num_negatives: int | None = None,
        negatives: str = "entities",
    ) -> "GainAdvice":
        """Return what plans with this noise per expected batch kept in the experiments.

        Args:
            noise: The noise.
            max_degree: Degree bound of the plan.
            num_negatives: Its negatives. Plans with both in common count alone, where there are some at this noise.
            negatives: Their pool. Plans with another one are left out, where there are some with this one: a tuple of
                relations carries more than a tuple of entities, so that the same noise costs less.
        """
        curves = [c for c in self.curves if c.choice.negatives == negatives] or self.curves
        measured = {curve: point for curve in curves if (point := curve.at(noise)) is not None}
        wanted = (max_degree, num_negatives)
        alike = [p for c, p in measured.items() if _bound_and_negatives(c.choice) == wanted]
        points = alike or list(measured.values())
        last = [curve.points[-1] for curve in curves]
        limit = max((point.noise for point in last), default=0.0)
        is_beyond, is_below = noise > limit, not points and noise <= limit
        if is_beyond:
            points = [point for point in last if point.noise >= 0.8 * limit]
        elif is_below:  # below all curves, or in a gap between them: the nearest larger noise
            starts = [c.points[0] for c in curves if c.points[0].noise >= noise]
            least = min(start.noise for start in starts)
            points = [start for start in starts if start.noise <= _NEAR * least]
        return GainAdvice(
            noise=noise,
            low=min((point.low for point in points), default=0.0),
            high=max((point.high for point in points), default=0.0),
            num_curves=len(points),
            measured_noise=noise if not is_beyond and not is_below else points[0].noise,
            is_beyond=is_beyond,
        )

    def on_selection(self, choice: Choice, noise: float) -> Point | None:
        """Return what a configuration kept on the graphs of selection, to be compared with others; no promise.

        With less noise than was measured it is the point at the least noise, with up to twice as much the point at the
        largest. None for configurations that were not measured, and for more noise.
        """
        for curve in self.curves:
            if (curve.train, curve.test) == self.selection and curve.choice.is_like(choice):
                first, last = curve.points[0].noise, curve.points[-1].noise
                return None if noise > _FAR * last else curve.at(min(max(noise, first), last))
        return None


@dataclass(frozen=True, kw_only=True)
class GainAdvice:
    """What plans with some noise per expected batch kept of the gain of training.

    Attributes:
        noise: The noise of the plan.
        low: Lower end of the range over curves, a share.
        high: Upper end.
        num_curves: Number of curves in the range.
        measured_noise: The noise that the range was measured at: another one where nothing was measured at `noise`.
        is_beyond: Whether the plan has more noise than any experiment.
    """

    noise: float
    low: float
    high: float
    num_curves: int
    measured_noise: float
    is_beyond: bool

    @property
    def is_useless(self) -> bool:
        """Whether nearly nothing was kept, or there is far more noise than in any experiment."""
        return self.high < _USELESS or (self.is_beyond and self.noise > _FAR * self.measured_noise)

    @property
    def range(self) -> str:
        """The range in percent, rounded outward."""
        low = _ROUND * math.floor(round(100 * max(self.low, 0.0) / _ROUND, 6))
        high = _ROUND * math.ceil(round(100 * min(max(self.high, 0.0), 1.0) / _ROUND, 6))
        return f"{min(low, 100 - _ROUND)}-{max(high, _ROUND)} %"

    def words(self, epsilon: float) -> str:
        """Return the advice in sentences.

        Args:
            epsilon: The target that the plan is for.
        """
        too_small = f": this graph is too small for epsilon {epsilon:.3g}."
        rate = _SMALLER_RATE if self.noise > _MUCH else ""
        if self.is_beyond:
            end = too_small if self.is_useless else f". Expect less.{rate}"
            return (
                f"At epsilon {epsilon:.3g} the noise per expected batch is {self.noise:.2g}, more than in any of our "
                f"experiments (up to {self.measured_noise:.2g}, where {self.range} of the gain was kept){end}"
            )
        if self.measured_noise > self.noise:
            words = (
                f"less than in our experiments: graphs with {self.measured_noise:.2g} kept about "
                f"{self.range} of the gain"
            )
        else:
            words = f"and graphs with this much noise kept about {self.range} of the gain in our experiments"
        end = too_small if self.is_useless else f"{_SOURCE}{rate}"
        return f"At epsilon {epsilon:.3g} the noise per expected batch is {self.noise:.2g}, {words}{end}"

    def to_json(self) -> dict[str, Any]:
        """Return the advice as plain values."""
        return {
            "noise": self.noise,
            "low": self.low,
            "high": self.high,
            "num_curves": self.num_curves,
            "measured_noise": self.measured_noise,
            "is_beyond": self.is_beyond,
            "is_useless": self.is_useless,
        }


_SOURCE = " with text encoders."
_SMALLER_RATE = (
    " At such noise the default learning rate, 0.001, lost a little against the encoder as it is, and 0.0003 did not, "
    "on the one pair of graphs where both were run."
)


def gain_advice(plan: "PrivacyPlan") -> GainAdvice:
    """Return what plans with the noise of this one kept in the experiments."""
    return gain_table().advice(
        plan.noise_std / plan.expected_batch_size,
        max_degree=plan.max_degree,
        num_negatives=plan.num_negatives,
        negatives=plan.negatives,
    )


def _bound_and_negatives(choice: Choice) -> tuple[int, int]:
    return choice.max_degree, choice.num_negatives


@cache
def gain_table() -> GainTable:
    """Return the table that comes with the package."""
    return GainTable.from_json(json.loads(files("reldp").joinpath(_FILE).read_text("utf-8")))


def falling(values: Sequence[float]) -> list[float]:
    """Return the nearest sequence, by least squares, that never rises."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = float(value), 1
        while blocks and blocks[-1][0] < mean:
            other, size = blocks.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        blocks.append((mean, count))
    return [mean for mean, count in blocks for _ in range(count)]
