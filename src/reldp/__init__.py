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
    from reldp.auditing import audit_plan as audit
    from reldp.encoders import FeatureEncoder, ModuleEncoder, TextEncoder
    from reldp.errors import ReldpError
    from reldp.evaluation import evaluate
    from reldp.graph import CappedGraph, EntityGraph
    from reldp.plan import PrivacyPlan
    from reldp.reporting import Certificate, verify
    from reldp.training import PrivateStep, Trainer

__version__ = "0.11.0"

# Public name: the module and the name there.
_HOMES = {
    "CappedGraph": ("reldp.graph", "CappedGraph"),
    "Certificate": ("reldp.reporting", "Certificate"),
    "EntityGraph": ("reldp.graph", "EntityGraph"),
    "FeatureEncoder": ("reldp.encoders", "FeatureEncoder"),
    "ModuleEncoder": ("reldp.encoders", "ModuleEncoder"),
    "PrivacyPlan": ("reldp.plan", "PrivacyPlan"),
    "PrivateStep": ("reldp.training", "PrivateStep"),
    "ReldpError": ("reldp.errors", "ReldpError"),
    "TextEncoder": ("reldp.encoders", "TextEncoder"),
    "Trainer": ("reldp.training", "Trainer"),
    "audit": ("reldp.auditing", "audit_plan"),
    "evaluate": ("reldp.evaluation", "evaluate"),
    "verify": ("reldp.reporting", "verify"),
}

__all__ = [
    "CappedGraph",
    "Certificate",
    "EntityGraph",
    "FeatureEncoder",
    "ModuleEncoder",
    "PrivacyPlan",
    "PrivateStep",
    "ReldpError",
    "TextEncoder",
    "Trainer",
    "__version__",
    "audit",
    "evaluate",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reldp' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    from reldp._optional import text_packages

    with text_packages():
        value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
