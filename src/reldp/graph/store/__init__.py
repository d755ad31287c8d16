"""Graph stores: graphs on disk that are built, capped and trained on without being loaded into memory.

    files of any size -> build_store -> a folder of mapped arrays -> EntityGraph.read -> everything else

DuckDB joins ids, numpy maps arrays, Arrow holds columns. Public: `build_store`, which
`reldp prepare store` calls.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reldp.graph.store.build import build_store
    from reldp.graph.store.settings import BuildSettings

__all__ = ["BuildSettings", "build_store"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name == "build_store":
        from reldp.graph.store.build import build_store

        return build_store
    if name == "BuildSettings":
        from reldp.graph.store.settings import BuildSettings

        return BuildSettings
    raise AttributeError(f"module 'reldp.graph.store' has no attribute {name!r}")
