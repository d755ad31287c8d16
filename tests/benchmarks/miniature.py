"""A laboratory small enough for a test: two tiny graphs and a tiny encoder."""

from pathlib import Path

import numpy as np
from benchmarks.cross_domain import Column
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.inputs import Inputs
from benchmarks.experiments.levels import Levels
from benchmarks.experiments.training import Place

from reldp.graph import EntityGraph
from tests.encoders.tiny import SENTENCE, write_model

NUM_ENTITIES = 240


def start(**changes):
    """A cell that takes about a second."""
    fields = {
        "train": "little-train",
        "tests": ("little-test",),
        "encoder": "tiny",
        "method": "base",
        "max_degree": 4,
        "num_negatives": 2,
        "batch": 8,
        "steps": 6,
        "max_length": 16,
        "candidates": 32,
        "max_relations": 64,
        "lora_rank": 2,
        **changes,
    }
    return Cell(**fields)


def private(**changes):
    return start(**{"method": "private", "noise": 2.0, **changes})


class LittleColumn(Column):
    """A column of the table whose cells take about a second."""

    @property
    def start(self) -> Cell:
        return start()


def write_graph(folder: Path, name: str, seed: int) -> EntityGraph:
    """Entities of five words each; neighbors on a line share words, and one hub has many."""
    generator = np.random.default_rng(seed)
    words = SENTENCE.split()
    texts = [" ".join(generator.choice(words, 5)) for _ in range(NUM_ENTITIES)]
    for i in range(1, NUM_ENTITIES):
        texts[i] = " ".join([*texts[i - 1].split()[2:], *texts[i].split()[3:]])
    line = [(i, i + 1) for i in range(NUM_ENTITIES - 1)]
    hub = [(0, i) for i in range(2, 12)]
    graph = EntityGraph.from_lists(list(range(NUM_ENTITIES)), line + hub, text=texts)
    graph.write(folder / name)
    return graph


def prepare_place(folder: Path, cells: list[Cell]) -> Place:
    """Everything that the cells need, in a folder."""
    for seed, name in enumerate(("little-train", "little-test")):
        if not (folder / "data" / name).exists():
            write_graph(folder / "data", name, seed)
    if not (folder / "models").exists():
        write_model("bert", folder / "models" / "tiny")
    place = Place(levels=folder / "levels.json", data=folder / "data", models=folder / "models")
    levels, inputs = Levels(place.levels), Inputs(place.data, place.models)
    for cell in cells:
        levels.calibrate([cell], inputs)
    return place
