"""The paper's own tables on the paper's own data: Table 1, the capping table and the ablations, one model at a time.

    python -m benchmarks.experiments run --suite paper --data GRAPHS --models MODELS --model bert-base --device cuda

GRAPHS holds the graph folders ``amaz-sports``, ``amaz-cloth``, ``mag-usa`` and ``mag-chn`` (`reldp prepare amazon` and
`reldp prepare mag` make them); pairs of graphs that are not there are left out. MODELS holds the model folders
``bert-base``, ``bert-large`` and ``llama-2-7b``. The command prints the number of steps and an estimate of the device
hours, calibrates the noise, runs every cell that has no result in ``--output``, and prints the tables. The same command
continues after an interruption: a cell that has its result is not run again.

The paper's text gives K = 5, k = 4, C = 1, delta = 1/m, InfoNCE and Adam. The other settings are those of its public
scripts: batches of 32, one pass over the capped relations (two for MAG), a learning rate of 5e-5 that rises over a
twentieth of the steps, adapters of rank 8 (4 for MAG), 32 tokens, scores that are plain dot products. Without privacy,
the same sizes are used. The values of the ablations are ours: the paper shows them in figures only.
"""

import argparse
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.inputs import Inputs
from benchmarks.experiments.levels import Levels
from benchmarks.experiments.paper_models import MEASURED, MODELS, cell_hours
from benchmarks.experiments.runner import RunSettings, run_cells
from benchmarks.experiments.store import read_lines
from benchmarks.experiments.training import Place
from reldp.errors import ConfigError, ReldpError

TABLES = ("table1", "capping", "ablations")
EPSILONS = (10.0, 4.0)
ABLATED_AT = 4.0  # epsilon of the ablations over k and K


@dataclass(frozen=True)
class Direction:
    """A training graph and the graph whose relations are predicted.

    Attributes:
        train: Name of the private graph.
        test: Name of the other graph.
        label: The paper's name of the column.
        passes: Passes over the capped relations.
        lora_rank: Rank of the adapters.
        test_relations: Number of relations that are predicted.
        ablated: Whether the paper's ablations show it.
    """

    train: str
    test: str
    label: str
    passes: int
    lora_rank: int
    test_relations: int
    ablated: bool = False


DIRECTIONS = (
    Direction("mag-chn", "mag-usa", "MAG (CHN to USA)", 2, 4, 63_635),
    Direction("mag-usa", "mag-chn", "MAG (USA to CHN)", 2, 4, 34_603),
    Direction("amaz-sports", "amaz-cloth", "AMAZ (Sports to Cloth)", 1, 8, 10_000, ablated=True),
    Direction("amaz-cloth", "amaz-sports", "AMAZ (Cloth to Sports)", 1, 8, 10_000, ablated=True),
)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of every run; the defaults are the paper's.

    Attributes:
        batch: Expected batch size.
        max_degree: Degree bound.
        num_negatives: Negatives per relation.
        candidates: Relations among which an answer is searched.
        passes: Passes over the relations, in place of the direction's.
        test_relations: Relations that are predicted, in place of the direction's.
        negatives: Values of the ablation over negatives.
        degrees: Values of the ablation over degree bounds.
        noises: Values of the ablation over noise multipliers.
    """

    batch: int = 32
    max_degree: int = 5
    num_negatives: int = 4
    candidates: int = 256
    passes: float = 0.0
    test_relations: int = 0
    negatives: tuple[int, ...] = (1, 2, 4, 8)
    degrees: tuple[int, ...] = (2, 5, 10, 20)
    noises: tuple[float, ...] = (0.3, 0.45, 0.6, 0.9, 1.2)


PAPER = Sizes()
RULES: dict[str, dict[str, Any]] = {
    "standard clipping, as the paper accounts it": {
        "clipping": "tuple", "analysis": "replacement", "accountant": "rdp",
    },
    "the paper's rule (its claim is refuted)": {"clipping": "frequency", "accountant": "rdp"},
    "per tuple, our analysis (proven)": {"clipping": "tuple"},
}  # fmt: skip
ABLATED_RULE = "the paper's rule (its claim is refuted)"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a table and its cells, by the column's label."""

    table: str
    label: str
    cells: dict[str, Cell] = field(default_factory=dict)


class Suite:
    """The lines of all tables for one model, on the graphs that are there.

    Args:
        inputs: Graphs and model folders.
        model: Name of the encoder, one of `MODELS`.
        sizes: Sizes of the runs.
        seed: Seed of the new weights.
    """

    def __init__(self, inputs: Inputs, model: str, sizes: Sizes, seed: int = 0) -> None:
        self.inputs, self.model, self.sizes, self.seed = inputs, model, sizes, seed
        self.directions = [d for d in DIRECTIONS if self._has(d.train) and self._has(d.test)]
        if not self.directions:
            wanted = ", ".join(d.train for d in DIRECTIONS)
            raise ConfigError(
                f"`data` must hold two of the folders {wanted} (both of MAG or both of AMAZ), got none. "
                "See docs/data.md for how to make them."
            )

    def _has(self, name: str) -> bool:
        return self.inputs.data is not None and (self.inputs.data / name).is_dir()

    def lines(self, tables: Sequence[str] = TABLES) -> list[Line]:
        """Return the lines of some tables, cheapest first within each."""
        made = {"table1": self._table1, "capping": self._capping, "ablations": self._ablations}
        return [line for name in TABLES if name in tables for line in made[name]()]

    def _table1(self) -> list[Line]:
        lines = [
            self._line("table1", "without fine-tuning", method="base"),
            self._line("table1", "without privacy", method="nonprivate", max_degree=0),
        ]
        for epsilon in EPSILONS:
            for label, rule in RULES.items():
                lines.append(
                    self._line("table1", f"epsilon {epsilon:g}, {label}", epsilon=epsilon, **rule)
                )
        return lines

    def _capping(self) -> list[Line]:
        bound = self.sizes.max_degree
        return [
            self._line("capping", "without privacy, no capping", method="nonprivate", max_degree=0),
            self._line("capping", f"without privacy, K = {bound}", method="nonprivate"),
        ]

    def _ablations(self) -> list[Line]:
        rule, at = RULES[ABLATED_RULE], f"at epsilon {ABLATED_AT:g}"
        axes: list[tuple[str, dict[str, Any]]] = [
            *((f"k = {k}, {at}", {"num_negatives": k}) for k in self.sizes.negatives),
            *((f"K = {bound}, {at}", {"max_degree": bound}) for bound in self.sizes.degrees),
        ]
        lines = [self._line("ablations", n, epsilon=ABLATED_AT, **rule, **c) for n, c in axes]
        noises = self.sizes.noises
        return lines + [
            self._line("ablations", f"noise multiplier {n:g}", noise=n, **rule) for n in noises
        ]

    def _line(self, table: str, label: str, **changes: Any) -> Line:
        chosen = [d for d in self.directions if d.ablated or table != "ablations"]
        return Line(
            table=table, label=label, cells={d.label: self._cell(d, **changes) for d in chosen}
        )

    def _cell(self, direction: Direction, **changes: Any) -> Cell:
        """Return the cell of a line in a column; its number of steps follows from the capped graph."""
        sizes = self.sizes
        bound = changes.get("max_degree", sizes.max_degree)
        steps = self.steps(direction, bound)
        fields = {
            "method": "private",
            "max_degree": bound,
            "num_negatives": sizes.num_negatives,
            "batch": sizes.batch,
            "steps": steps,
            "learning_rate": 5e-5,
            "warmup": steps // 20,
            "temperature": 1.0,
            "lora_rank": direction.lora_rank,
            "lora_scale": 16 / direction.lora_rank,
            "candidates": sizes.candidates,
            "max_relations": sizes.test_relations or direction.test_relations,
            "seed": self.seed,
            **MODELS[self.model].fields,
            **changes,
        }
        if fields["method"] == "base":  # one cell, whatever training would have been
            fields |= {"steps": 1, "warmup": 0, "max_degree": sizes.max_degree, "seed": 0}
        return Cell(train=direction.train, tests=(direction.test,), encoder=self.model, **fields)

    @lru_cache(maxsize=64)  # noqa: B019 # one instance per process
    def steps(self, direction: Direction, max_degree: int) -> int:
        """Return the number of steps: whole passes over the relations that capping keeps."""
        num_relations = self.inputs.capped(direction.train, max_degree).num_relations
        return math.ceil((self.sizes.passes or direction.passes) * num_relations / self.sizes.batch)

    def num_shared(self, direction: Direction) -> int:
        """Return how many ids the training and the test graph share."""
        graphs = (self.inputs.graph(name) for name in (direction.train, direction.test))
        first, second = (np.asarray(graph.ids.to_pylist()) for graph in graphs)
        return int(np.isin(first, second).sum())


def unique_cells(lines: Iterable[Line]) -> list[Cell]:
    """Return the cells of some lines, each once."""
    return list({cell.id: cell for line in lines for cell in line.cells.values()}.values())


def plan_lines(suite: Suite, lines: Sequence[Line], done: set[str]) -> list[str]:
    """Return what will be run: graphs, cells, steps and estimated hours."""
    said = []
    for direction in suite.directions:
        num_shared = suite.num_shared(direction)
        shared = f"; {num_shared:,} ids are in both graphs" if num_shared else ""
        steps = suite.steps(direction, suite.sizes.max_degree)
        said.append(f"{direction.label}: {steps:,} steps at K = {suite.sizes.max_degree}{shared}")
    missing = [d.label for d in DIRECTIONS if d not in suite.directions]
    said += [f"left out, no graphs: {', '.join(missing)}"] if missing else []
    counted: set[str] = set()
    for table in dict.fromkeys(line.table for line in lines):
        cells = unique_cells(line for line in lines if line.table == table)
        cells = [cell for cell in cells if cell.id not in done | counted]
        counted |= {cell.id for cell in cells}
        total = sum(cell_hours(cell) for cell in cells)
        said.append(f"{table}: {len(cells)} cells to run, about {total:.1f} hours on an H200")
    return [
        *said,
        f"Hours are estimated from {MEASURED.name}: private steps of random weights of these shapes, scaled by rows. "
        "No full run was made to check the estimate.",
    ]


def result_lines(lines: Sequence[Line], results: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the tables in Markdown, as far as there are results: PREC@1 / MRR in percent, and epsilon."""
    by_id = {result["id"]: result for result in results}
    said = []
    for table in dict.fromkeys(line.table for line in lines):
        part = [line for line in lines if line.table == table]
        columns = list(dict.fromkeys(label for line in part for label in line.cells))
        if not columns:
            continue
        said += ["", f"{table}: PREC@1 / MRR", "", f"| | {' | '.join(columns)} |"]
        said.append("|---" * (len(columns) + 1) + "|")
        for line in part:
            shown = [_shown(line.cells[label], by_id) for label in columns]
            said.append(f"| {line.label} | {' | '.join(shown)} |")
    return said


def _shown(cell: Cell, results: Mapping[str, Mapping[str, Any]]) -> str:
    result = results.get(cell.id)
    if result is None:
        return "open"
    values = result["evaluations"][cell.tests[0]]
    words = f"{100 * values['prec@1']:.2f} / {100 * values['mrr']:.2f}"
    return f"{words} (epsilon {result['epsilon']:.2f})" if cell.noise else words


def run(arguments: argparse.Namespace, command: str) -> int:
    """Run the suite from the command line; return the exit status."""
    try:
        return _run(arguments, command)
    except ReldpError as error:
        print(error, file=sys.stderr)
        return 2


def _run(arguments: argparse.Namespace, command: str) -> int:
    tables = arguments.table or TABLES
    for name, value, known in (
        ("model", arguments.model, tuple(MODELS)),
        *(("table", t, TABLES) for t in tables),
    ):
        if value not in known:
            raise ConfigError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.")
    inputs = Inputs(arguments.data, arguments.models)
    suite = Suite(inputs, arguments.model, PAPER, arguments.seed or 0)
    lines = suite.lines(tables)
    done = {result["id"] for result in read_lines(arguments.output) if "evaluations" in result}
    print("\n".join(plan_lines(suite, lines, done)), flush=True)
    todo = [cell for cell in unique_cells(lines) if cell.id not in done]
    path = arguments.output.with_suffix(".levels.json")
    Levels(path).calibrate(todo, inputs)
    place = Place(
        levels=path, data=arguments.data, models=arguments.models, device=arguments.device
    )
    settings = RunSettings(
        workers=arguments.workers,
        seconds=math.inf if arguments.minutes is None else 60.0 * arguments.minutes,
        output=arguments.output,
        command=command,
    )
    failed = run_cells(todo, place, settings)
    print("\n".join(result_lines(lines, read_lines(arguments.output))))
    return 1 if failed else 0
