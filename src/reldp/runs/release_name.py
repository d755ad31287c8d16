"""Names of releases of private sizes in a budget.

Public inside the package: `release_id`.

>>> len(release_id("0" * 32, "fingerprint", 900, 2000))
32
"""

import hashlib

__all__ = ["release_id"]


def release_id(budget: str, fingerprint: str, min_entities: int, max_relations: int) -> str:
    """Return a name for released sizes of a capped graph that shows nothing else about the graph."""
    text = f"{fingerprint} {min_entities} {max_relations}"
    return hashlib.blake2b(text.encode(), key=bytes.fromhex(budget), digest_size=16).hexdigest()
