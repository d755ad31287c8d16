"""What the files of a store hold, against what its manifest states.

Public to the store: `check_files`.
"""

from collections.abc import Mapping

import numpy as np

from reldp.errors import GraphError
from reldp.graph.store.arrays import array_in
from reldp.graph.store.blocks import BlockChecker
from reldp.graph.store.column_file import ColumnFile
from reldp.graph.store.entity_pass import ENTITIES, FEATURES
from reldp.graph.store.manifest import MANIFEST, Manifest
from reldp.graph.store.relation_pass import DEGREES, RELATIONS, TYPES

__all__ = ["check_files"]


def check_files(
    manifest: Manifest, checkers: Mapping[str, BlockChecker], columns: ColumnFile
) -> None:
    """Refuse files that hold something else than the manifest states.

    Args:
        manifest: The manifest of the store.
        checkers: The array files, by name.
        columns: The columns of the entities.

    Raises:
        GraphError: Shape, type, rows or columns are others.
    """
    n, m = manifest.num_entities, manifest.num_relations
    forms = {
        RELATIONS: ((m, 2), np.int64),
        TYPES: ((m,), np.int32),
        DEGREES: ((n,), np.int64),
        FEATURES: ((n, manifest.feature_size), np.float32),
    }
    wrong = [
        name
        for name, (shape, dtype) in forms.items()
        if name in checkers
        and (checkers[name].shape() != shape or array_in(checkers[name].mapped).dtype != dtype)
    ]
    wrong += [ENTITIES] if columns.num_rows != n else []
    if wrong:
        raise GraphError(f"{wrong[0]} must be as it was built. Build the store again.")
    if not columns.holds([name for name in manifest.columns if name != "features"]):
        raise GraphError(
            f"{MANIFEST} must name the columns of {ENTITIES} in their order, got others. Build the "
            "store again."
        )
