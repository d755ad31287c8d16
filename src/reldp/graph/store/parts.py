"""Parts of a store: some of its relations or entities, or other codes of types, written beside it.

A part that is there already may be somebody else's, so it is compared with the store.

Inside the package: `StoreParts`, a base class of `StoredGraph`.

>>> StoreParts.__name__
'StoreParts'
"""

import dataclasses
import hashlib
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reldp.graph.budget_link import carry_budget
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.record import GraphRecord
from reldp.graph.relation_types import declared_names
from reldp.graph.store.contents import trust
from reldp.graph.store.derived import Derived, derived, require_whole
from reldp.graph.store.manifest import Manifest
from reldp.graph.store.part_values import check_kept, check_recoded, check_selected
from reldp.graph.store.relation_pass import DEGREES, RELATIONS, TYPES
from reldp.graph.store.selection import make_entities, make_relations, make_types
from reldp.graph.validation import check_mask

if TYPE_CHECKING:
    from reldp.graph.store.stored_graph import StoredGraph

__all__ = ["StoreParts"]


class StoreParts:
    """Parts of `StoredGraph`, each kept beside the store."""

    def with_types(self: Any, names: Iterable[str], *, show_names: bool = False) -> "StoredGraph":
        """Declare the list of types, which is public and fixed without looking at the data.

        See `EntityGraph.with_types`; the codes of types are written beside the store.
        """
        declared = declared_names(names)
        record = dataclasses.replace(self.record, relation_types=declared)
        if self.relation_types is None or declared == self.type_names:
            if self.relation_types is None:
                EntityGraph.with_types(self, declared)  # refuses it
            unchanged: StoredGraph = self.with_record(record)
            return unchanged
        depends_on = {"build_hash": self.build_hash, "types": list(declared)}
        make = partial(make_types, self, declared, show_names=show_names)
        part = require_whole(
            derived(self.folder, "parts", depends_on, make),
            {RELATIONS, TYPES, DEGREES},
            ("fingerprint",),
        )
        if not part.is_new:
            check_recoded(self, declared, part)
        manifest = dataclasses.replace(
            self.manifest,
            type_names=declared,
            fingerprint=part.values["fingerprint"],
            record=record,
            files=self.manifest.files | part.files,
        )
        return StoreParts._part_with(self, manifest, part)

    def keep_relations(
        self: Any, mask: npt.NDArray[np.bool_], *, record: GraphRecord
    ) -> "StoredGraph":
        """Return the same entities with the relations in a mask, (m,) bool, written beside the store."""
        digest = hashlib.sha256(np.ascontiguousarray(mask).data).hexdigest()
        depends_on = {"build_hash": self.build_hash, "relations": digest}
        part = require_whole(
            derived(self.folder, "parts", depends_on, partial(make_relations, self, mask)),
            set(self.manifest.files) & {RELATIONS, TYPES, DEGREES},
            ("num_relations", "fingerprint"),
        )
        if not part.is_new:
            check_kept(self, mask, part)
        manifest = dataclasses.replace(
            self.manifest,
            num_relations=part.values["num_relations"],
            fingerprint=part.values["fingerprint"],
            record=record,
            files=self.manifest.files | part.files,
        )
        return StoreParts._part_with(self, manifest, part)

    def select_entities(self: Any, mask: npt.NDArray[np.bool_]) -> "StoredGraph":
        """Return the entities in a mask and the relations among them, written as a store of its own.

        See `EntityGraph.select_entities`.
        """
        check_mask(mask, self.num_entities)
        digest = hashlib.sha256(np.ascontiguousarray(mask).data).hexdigest()
        depends_on = {"build_hash": self.build_hash, "entities": digest}
        part = require_whole(
            derived(self.folder, "parts", depends_on, partial(make_entities, self, mask)),
            set(self.manifest.files),
            ("num_relations", "num_cut"),
        )
        manifest = dataclasses.replace(
            self.manifest,
            num_entities=int(np.count_nonzero(mask)),
            num_relations=part.values["num_relations"],
            fingerprint="",
            record=self.record.with_drops({"relations_across_parts": part.values["num_cut"]}),
            files=part.files,
        )
        selected: StoredGraph = type(self)(part.folder, manifest)
        if not part.is_new:
            check_selected(self, mask, selected, part)
        value = selected.content_fingerprint()
        manifest = dataclasses.replace(manifest, fingerprint=value)
        if part.is_new:
            trust(manifest)
        carry_budget(self.folder, part.folder)
        opened: type[StoredGraph] = type(self)
        return opened(part.folder, manifest)

    def _part_with(self: Any, manifest: Manifest, part: Derived) -> "StoredGraph":
        """Return the same entities with the relations of a part."""
        if part.is_new:
            trust(manifest)
        opened: type[StoredGraph] = type(self)
        return opened(self.folder, manifest, part.folder)
