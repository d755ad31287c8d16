"""Training data of sentence-transformers as a graph with bounded degrees.

*What an entity is.* The guarantee protects entities. In a dataset of pairs, equal texts are one entity, on
whichever side they stand: a person whose name is spelled in two ways is two entities, each protected on its
own. With ``id_columns``, equal ids are one entity, and that is better wherever there are ids.

*Negatives.* A column of negatives is refused. A mined negative ties a third entity to a pair because of
private relations, and the degree bound would not count it: removing that entity would change more tuples
than the bound says. Negatives are drawn at random from the entities (theory.md 1), or from a public pool.

Inside the package: `training_graph`, `evaluation_graph`.

>>> pairs = {"anchor": ["a red cat", "a dog"], "positive": ["a cat", "the dog"]}
>>> training_graph(graph=None, dataset=pairs, max_degree=None, seed=0).max_degree
5
>>> training_graph(graph=None, dataset={**pairs, "negative": ["x", "y"]}, max_degree=None, seed=0)
Traceback (most recent call last):
reldp.errors.ConfigError: `train_dataset` must hold pairs, got the column 'negative' too. ...
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reldp._validate import shown
from reldp.errors import ConfigError
from reldp.graph import CappedGraph, EntityGraph
from reldp.graph.bundled import open_graph
from reldp.integrations.tables import as_arrow

__all__ = ["evaluation_graph", "graph_folder", "training_graph"]

_MAX_DEGREE = 5
_SIDES = ("first", "second")
_DROPPED = ("duplicate_relations", "self_relations")
_NEGATIVES = re.compile(r"(hard_?)?neg(ative)?s?(_?\d+)?", re.IGNORECASE)
# Names of columns that an error may show: in a table without a header, another name may be a private text.
_NAMES = frozenset(
    {"anchor", "positive", "query", "question", "answer", "response", "document", "passage", "context", "sentence",
     "sentence1", "sentence2", "sentence_A", "sentence_B", "text", "text1", "text2", "premise", "hypothesis", "title"}
)  # fmt: skip
_LABELS = ("label", "labels", "score", "scores")


def training_graph(
    *,
    graph: Any,
    dataset: Any,
    max_degree: int | None,
    seed: int,
    id_columns: Sequence[str] | None = None,
    prompt: str | None = None,
) -> CappedGraph:
    """Return the capped training graph.

    Args:
        graph: A graph, a capped graph, or the path of one; or None.
        dataset: A table of pairs, if there is no graph.
        max_degree: Largest degree; 5 unless given, or that of a capped graph.
        seed: Seed of the choice of relations that are dropped.
        id_columns: Columns of the ids of anchor and positive.
        prompt: Put before every text of the dataset.

    Raises:
        ConfigError: Both or neither are given, or a column is not one of a pair.
        GraphError: They do not form a graph.
    """
    if (graph is None) == (dataset is None):
        got = "neither" if graph is None else "both"
        raise ConfigError(f"`graph` or `train_dataset` must be given, and not both, got {got}.")
    if graph is not None:
        for name, value in (("id_columns", id_columns), ("prompts", prompt)):
            if value is not None:
                raise ConfigError(
                    f"`{name}` must be left out beside a graph, got {shown(value)}. A graph has ids, and its texts "
                    "are trained as they are."
                )
    else:
        graph = _pairs(dataset, "train_dataset", id_columns, prompt)
    graph = open_graph(graph) if isinstance(graph, str | Path) else graph
    entities = graph.graph if isinstance(graph, CappedGraph) else graph
    if isinstance(entities, EntityGraph) and not entities.has_text:
        raise ConfigError(
            "`graph` must have texts for a SentenceTransformer, got features only. Train features with "
            "reldp.FeatureEncoder."
        )
    if isinstance(graph, CappedGraph):
        if max_degree not in (None, graph.max_degree):
            raise ConfigError(
                f"`max_degree` must be left out for a capped graph, got {max_degree} and a graph capped at "
                f"{graph.max_degree}."
            )
        return graph
    if not isinstance(graph, EntityGraph):
        raise ConfigError(
            f"`graph` must be an EntityGraph, a CappedGraph or a path, got {type(graph).__name__}."
        )
    return graph.cap_degrees(_MAX_DEGREE if max_degree is None else max_degree, seed=seed)


def evaluation_graph(
    dataset: Any, *, id_columns: Sequence[str] | None = None, prompt: str | None = None
) -> EntityGraph | CappedGraph | None:
    """Return the graph of an evaluation dataset: a graph as it is, or a table of pairs."""
    if dataset is None or isinstance(dataset, EntityGraph | CappedGraph):
        return dataset
    return _pairs(dataset, "eval_dataset", id_columns, prompt)


def graph_folder(graph: Any) -> Path | None:
    """Return the folder that a graph is read from, where private sizes are stored."""
    is_folder = isinstance(graph, str | Path) and Path(graph).is_dir()
    return Path(graph) if is_folder else None


def _pairs(
    dataset: Any, name: str, id_columns: Sequence[str] | None, prompt: str | None
) -> EntityGraph:
    """Return the graph of a table of pairs."""
    table = as_arrow(dataset, name)
    chosen = [*_text_columns(table.column_names, name, id_columns), *(id_columns or ())]
    _refuse_missing(table, name, chosen, id_columns)
    # Other names: without a header, a table has texts for names, and errors would quote them.
    names = ["anchor", "positive", "anchor_id", "positive_id"][: len(chosen)]
    columns = {new: table.column(old) for new, old in zip(names, chosen, strict=True)}
    if prompt:
        columns |= {side: _prompted(columns[side], prompt) for side in names[:2]}
    how: dict[str, Any] = {"ids": "text"}
    if id_columns is not None:
        how = {"left_id": "anchor_id", "right_id": "positive_id"}
    return EntityGraph.from_pairs(
        pa.table(columns), left="anchor", right="positive", drop=_DROPPED, **how
    )


def _refuse_missing(
    table: pa.Table, name: str, chosen: Sequence[str], id_columns: Sequence[str] | None
) -> None:
    """Refuse rows without a text or an id, which is an empty text too: such a table has no `drop`, unlike a graph."""
    for place, column in enumerate(chosen):
        values = table.column(column)
        missing = values.is_null()
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            missing = pc.or_kleene(missing, pc.fill_null(pc.equal(values, ""), True))
        if not (count := pc.sum(missing).as_py()):
            continue
        is_known = column in _NAMES or column in (id_columns or ())
        where = f"the column {column!r}" if is_known else f"the {_SIDES[place]} column of texts"
        raise ConfigError(
            f"`{name}` must have texts and ids in every row, got {count:,} missing in {where} (the first in row "
            f"{pc.index(missing, True).as_py() + 1}). Filter the data set: dataset.filter(...)."
        )


def _prompted(texts: Any, prompt: str) -> Any:
    """Return texts with a prompt before each of them; what is no text is left for the graph to refuse."""
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return texts
    put_before, nothing = (pa.scalar(text, texts.type) for text in (prompt, ""))
    return pc.binary_join_element_wise(put_before, texts, nothing)


def _text_columns(
    columns: Sequence[str], name: str, id_columns: Sequence[str] | None
) -> tuple[str, str]:
    """Return the columns of anchor and positive; refuse all others by what they are."""
    if id_columns is not None and (isinstance(id_columns, str) or len(id_columns) != 2):
        raise ConfigError(f"`id_columns` must name two columns, got {shown(id_columns)}.")
    ids = list(id_columns or ())
    for column in ids:
        if column not in columns:
            raise ConfigError(f"`id_columns` must name columns of {name}, got {shown(column)}.")
    texts = [column for column in columns if column not in ids]
    for column in texts:
        if _NEGATIVES.fullmatch(column):
            raise ConfigError(
                f"`{name}` must hold pairs, got the column {column!r} too. A mined negative ties a third entity "
                "to a pair, which the degree bound does not count: remove it; num_negatives are drawn at random, "
                "or from public_negatives."
            )
        if column in _LABELS:
            raise ConfigError(
                f"`{name}` must hold pairs, got the column {column!r} too. Relations have no label: keep the "
                "rows that are related, and remove it."
            )
    if len(texts) != 2:
        raise ConfigError(
            f"`{name}` must hold two columns of texts, anchor and positive, besides id_columns, got "
            f"{len(texts)}. Select them: dataset.select_columns([...])."
        )
    return texts[0], texts[1]
