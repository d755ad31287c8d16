"""Learning from private relations: graph in; fine-tuned encoder, privacy certificate and report out.

The names below are the contract; everything else may move. They are imported on first use, so that
``import reldp`` is cheap and the data and accounting sides work without torch.

>>> import reldp
>>> "PrivacyPlan" in reldp.__all__
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reldp.errors import ReldpError
    from reldp.plan import PrivacyPlan

__version__ = "0.1.0"

_HOMES = {
    "PrivacyPlan": "reldp.plan",
    "ReldpError": "reldp.errors",
}

__all__ = [
    "PrivacyPlan",
    "ReldpError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Imports a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reldp' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
