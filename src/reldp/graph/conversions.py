"""Constructors and results of `EntityGraph` for the libraries that people keep their data in.

The code for a library is in `reldp.integrations`. Every constructor validates as `EntityGraph.read` does.

Inside the package: `Conversions`, the base class of `EntityGraph`.

>>> from reldp.graph import EntityGraph
>>> pairs = {"query": ["tent"], "product": ["sleeping mat"]}
>>> EntityGraph.from_pairs(pairs, left="query", right="product", ids="text")
EntityGraph(2 entities, 1 relations, text)
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from reldp.graph.columns import vectors
from reldp.graph.disclosure import guarded
from reldp.graph.list_values import checked_pairs, refuse_incomplete
from reldp.graph.pairs import pair_columns, pair_files
from reldp.graph.sources import drop_kinds

if TYPE_CHECKING:
    from reldp.graph.entity_graph import EntityGraph
    from reldp.graph.reading import GraphFiles
    from reldp.graph.record import GraphRecord

__all__ = ["Conversions"]

_ENDPOINTS = {0: "source", 1: "target"}


class Conversions:
    """What `EntityGraph` can be made from, and what it can be turned into."""

    # Defined by `EntityGraph`.
    from_arrow: Any
    _checked: Callable[["GraphFiles", frozenset[str]], Any]

    @classmethod
    def from_lists(
        cls,
        ids: Sequence[str] | Sequence[int],
        relations: Sequence[tuple[Any, Any]],
        *,
        text: Sequence[str] | None = None,
        features: Any = None,
        protected: Sequence[bool] | None = None,
        owner: Sequence[Any] | None = None,
        types: Sequence[str] | None = None,
        drop: Iterable[str] = (),
        record: "GraphRecord | None" = None,
        show_ids: bool = False,
    ) -> "EntityGraph":
        """Return a graph from plain Python values.

        Args:
            ids: Ids of the entities.
            relations: Pairs of ids.
            text: One text per entity.
            features: (n, d) numbers.
            protected: Whether each entity is protected; all are by default.
            owner: Owner of each entity, None for an entity that is its own.
            types: One type per relation; then a relation leads from its first id to its second.
            drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
            record: Where the data comes from.
            show_ids: Whether errors may show ids; by default they give counts and places only.
        """
        kinds = drop_kinds(drop)
        pairs = checked_pairs(
            ids,
            relations,
            types=types,
            text=text,
            features=features,
            protected=protected,
            owner=owner,
        )
        has_content = text is not None or features is not None
        refuse_incomplete(ids, pairs, kinds, has_content=has_content)
        with guarded("entities", show_ids=show_ids):
            columns: dict[str, Any] = {"id": pa.array(ids)}
            if text is not None:
                columns["text"] = pa.array(text, pa.string())
            if features is not None:
                columns["features"] = vectors(features)
            if protected is not None:
                columns["protected"] = pa.array(protected, pa.bool_())
            if owner is not None:
                columns["owner"] = pa.array(owner)
            table = pa.table(columns)
        with guarded("relations", show_ids=show_ids):
            kind = columns["id"].type
            columns = {w: pa.array([p[i] for p in pairs], kind) for i, w in _ENDPOINTS.items()}
            if types is not None:
                columns["type"] = pa.array(types)
            endpoints = pa.table(columns)
        graph: EntityGraph = cls.from_arrow(
            table, endpoints, drop=kinds, record=record, show_ids=show_ids
        )
        return graph

    @classmethod
    def from_pairs(
        cls,
        pairs: Any,
        *,
        left: str,
        right: str,
        left_id: str | None = None,
        right_id: str | None = None,
        ids: str | None = None,
        prefixes: tuple[str, str] | None = None,
        type: str | None = None,
        left_owner: str | None = None,
        right_owner: str | None = None,
        protected: str = "both",
        drop: Iterable[str] = (),
        record: "GraphRecord | None" = None,
        show_ids: bool = False,
    ) -> Self:
        """Return a graph from one table of pairs: each row is a relation between two texts.

        *What an entity is.* The guarantee protects entities, so the table must say which texts
        belong to the same one, and ids are never guessed. With `left_id` and `right_id`, equal ids
        are one entity, on whichever side they stand; two ids with the same text are two entities.
        With ``ids="text"``, equal texts are one entity and the text is its id: a person whose name
        is spelled in two ways is then two entities, each protected on its own only.

        Args:
            pairs: Table of pandas, pyarrow, Polars or Hugging Face datasets, everything with
                `__arrow_c_stream__` or `__dataframe__`, or a dictionary of columns.
            left: Column of texts, such as "anchor".
            right: Column of texts, such as "positive".
            left_id: Column with the ids of the entities on the left: strings or integers.
            right_id: Column with the ids of the entities on the right.
            ids: "text" if equal texts are one entity; then there are no columns of ids.
            prefixes: Two strings to put before the ids of left and right, if the same id means
                different entities there: customer 7 and product 7.
            type: Column with the type of each relation; then a relation leads from left to right.
            left_owner: Column with the owners of the entities on the left, if they have some.
            right_owner: Column with the owners of the entities on the right.
            protected: Side whose entities are protected: "both", "left" or "right". An entity that
                occurs on both sides is protected.
            drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`), such
                as "duplicate_relations", or "other_texts" to use the first text of an id.
            record: Where the data comes from.
            show_ids: Whether errors may show ids; by default they give counts and places only.

        Returns:
            The graph; a column that is not named here is not in it.

        Raises:
            GraphError: The table does not form a graph, or does not say what an entity is.

        Warns:
            AmbiguousEntityWarning: Texts differ in case or spaces only (``ids="text"``), or no id
                occurs twice although texts do.
        """
        from reldp.integrations.tables import as_arrow

        kinds = drop_kinds(drop)
        optional = {"type": type, "left_owner": left_owner, "right_owner": right_owner}
        columns = pair_columns(left, right, left_id, right_id, ids, **optional)
        table = as_arrow(pairs, "pairs", columns=columns, show_ids=show_ids)
        with guarded("pairs", show_ids=show_ids):
            files = pair_files(
                table,
                left=left,
                right=right,
                left_id=left_id,
                right_id=right_id,
                ids=ids,
                prefixes=prefixes,
                optional_columns=optional,
                protected=protected,
                drop=kinds,
                record=record,
                show_ids=show_ids,
            )
        graph: Self = cls._checked(files, kinds)
        return graph

    @classmethod
    def from_pandas(
        cls,
        entities: Any,
        relations: Any,
        *,
        drop: Iterable[str] = (),
        record: "GraphRecord | None" = None,
        show_ids: bool = False,
    ) -> "EntityGraph":
        """Return a graph from two pandas data frames; an index named `id` counts as a column.

        Args:
            entities: Columns `id`, `text` and/or `features`, optionally `protected`, and further
                ones.
            relations: Columns `source` and `target`, ids of entities, and optionally `type`.
            drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
            record: Where the data comes from.
            show_ids: Whether errors may show ids; by default they give counts and places only.

        Raises:
            GraphError: The tables do not form a graph.
        """
        from reldp.integrations.pandas import from_pandas

        return from_pandas(entities, relations, drop=drop, record=record, show_ids=show_ids)

    @classmethod
    def from_networkx(
        cls,
        network: Any,
        *,
        drop: Iterable[str] = (),
        record: "GraphRecord | None" = None,
        show_ids: bool = False,
    ) -> "EntityGraph":
        """Return a graph from a networkx graph: nodes are ids, node attributes are columns.

        Args:
            network: The networkx graph. An attribute `type` of the edges of a directed network is
                the type of the relation. Other attributes of edges are relation columns, which are
                refused unless `drop` names "relation_columns".
            drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
            record: Where the data comes from.
            show_ids: Whether errors may show ids; by default they give counts and places only.

        Raises:
            GraphError: The network does not form a graph.
        """
        from reldp.integrations.networkx import from_networkx

        return from_networkx(network, drop=drop, record=record, show_ids=show_ids)

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        *,
        text: Sequence[str] | None = None,
        features: Any = None,
        ids: Any = None,
        protected: Any = None,
        drop: Iterable[str] = (),
        record: "GraphRecord | None" = None,
        show_ids: bool = False,
    ) -> "EntityGraph":
        """Return a graph from a square sparse matrix: every entry that is not zero is a relation.

        Args:
            adjacency: (n, n) SciPy sparse matrix or array of zeros and ones; symmetric, or each
                pair once.
            text: n texts.
            features: (n, d) numbers.
            ids: n ids; 0..n-1 by default.
            protected: n booleans; all true by default.
            drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
            record: Where the data comes from.
            show_ids: Whether errors may show ids; by default they give counts and places only.

        Raises:
            GraphError: The matrix and the columns do not form a graph.
        """
        from reldp.integrations.scipy import from_scipy

        return from_scipy(
            adjacency,
            text=text,
            features=features,
            ids=ids,
            protected=protected,
            drop=drop,
            record=record,
            show_ids=show_ids,
        )

    @classmethod
    def from_pyg(
        cls,
        data: Any,
        *,
        text: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        ids: Any = None,
        edge_types: Sequence[tuple[str, str, str]] | None = None,
        typed: bool = False,
        protected_types: Collection[str] | None = None,
        drop: Iterable[str] = (),
        record: "GraphRecord | None" = None,
        show_ids: bool = False,
    ) -> "EntityGraph":
        """Return a graph from a PyTorch Geometric `Data` or `HeteroData`.

        Features come from `x` and relations from `edge_index`; `text`, `ids`, `protected` and `owner`
        are taken if the object has them. An `edge_attr` is refused unless `drop` names
        "relation_columns". What else it holds is named in the record and left out.

        Args:
            data: The `Data` or `HeteroData`. The ids of a `HeteroData` get their type as a prefix
                ("user:7"), and the types become the column `node_type`.
            text: One text per node; for a `HeteroData` a dictionary of such lists by node type.
            ids: One id per node, as `text`; 0..n-1 by default.
            edge_types: Types of edges of a `HeteroData` that become relations. They must be given
                if there are several.
            typed: Whether relations keep their direction and type: of a `HeteroData` the type of
                the edge ("user__buys__item"), of a `Data` its `edge_type`, named by
                `edge_type_names` where it has such a list.
            protected_types: Types of nodes of a `HeteroData` that are protected; all by default.
            drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
            record: Where the data comes from.
            show_ids: Whether errors may show ids; by default they give counts and places only.

        Raises:
            GraphError: The object does not form a graph.
        """
        from reldp.integrations.pyg import from_pyg

        return from_pyg(
            data,
            text=text,
            ids=ids,
            edge_types=edge_types,
            typed=typed,
            protected_types=protected_types,
            drop=drop,
            record=record,
            show_ids=show_ids,
        )

    def to_pairs(
        self: Any,
        *,
        left: str = "left",
        right: str = "right",
        left_id: str = "left_id",
        right_id: str = "right_id",
        type: str = "type",
        left_owner: str = "left_owner",
        right_owner: str = "right_owner",
    ) -> Any:
        """Return the relations as an Arrow table of pairs: two columns of ids, two of texts.

        Types and owners are further columns (`type:`, `left_owner:`, `right_owner:`), where there are some.
        Entities without a relation are not in it. Pass the table to `pandas`, `polars.from_arrow` or
        `datasets.Dataset`.

        Raises:
            GraphError: The graph has no texts.
        """
        columns = {}
        for end, (name, text) in enumerate(((left_id, left), (right_id, right))):
            rows = self.relations[:, end]
            columns[name] = self.ids.take(pa.array(rows))
            columns[text] = pa.array(self.text(rows), pa.large_string())
            if self.owners is not None:
                owner = (left_owner, right_owner)[end]
                columns[owner] = self.entities.column("owner").take(pa.array(rows))
        if self.relation_types is not None:
            columns[type] = self.to_arrow()[1].column("type")
        return pa.table(columns)

    def to_pandas(self: Any) -> tuple[Any, Any]:
        """Return the entities and the relations (`source` and `target`, by id) as data frames."""
        from reldp.integrations.pandas import to_pandas

        return to_pandas(self)

    def to_polars(self: Any) -> tuple[Any, Any]:
        """Return the entities and the relations (`source` and `target`, by id) as Polars frames."""
        from reldp.integrations.polars import to_polars

        return to_polars(self)

    def to_datasets(self: Any) -> tuple[Any, Any]:
        """Return the entities and the relations (`source` and `target`, by id) as HF datasets."""
        from reldp.integrations.datasets import to_datasets

        return to_datasets(self)

    def to_networkx(self: Any) -> Any:
        """Return a `networkx.Graph`; columns become node attributes.

        Relations with types give a `networkx.MultiDiGraph` whose edges have the attribute `type`.
        """
        from reldp.integrations.networkx import to_networkx

        return to_networkx(self)

    def to_scipy(self: Any) -> Any:
        """Return the symmetric (n, n) `scipy.sparse.csr_array` of zeros and ones, without types."""
        from reldp.integrations.scipy import to_scipy

        return to_scipy(self)

    def to_pyg(self: Any, *, node_type: str | None = None) -> Any:
        """Return a PyTorch Geometric `Data` with both directions of every relation.

        Relations with types keep their one direction and have `edge_type` and `edge_type_names`.
        It holds `edge_index` and `num_nodes`; `x` where there are features; `ids`, and `text` where
        there is text, as lists.

        Args:
            node_type: Column of node types, such as "node_type"; then the result is a `HeteroData`
                with edges ``(type, "related_to", type)``, or the relations' own types in the middle.
        """
        from reldp.integrations.pyg import to_pyg

        return to_pyg(self, node_type=node_type)
