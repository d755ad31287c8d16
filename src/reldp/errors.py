"""Every error that reldp raises on purpose.

    ReldpError
    ├── InputError (ValueError)            a value given by the caller breaks a stated rule
    │   ├── PlanError                      sizes, rates, noise or delta of a privacy plan
    │   │   └── UnreachableTarget          no noise (or no step) meets the target epsilon
    │   ├── GraphError                     entities or relations that do not form a graph
    │   ├── EncoderError                   a model that cannot be loaded or trained here
    │   └── ConfigError                    a run configuration
    ├── UnsupportedEvent (TypeError)       an accountant got an event that it does not know
    ├── UnsupportedParameter (TypeError)   a trainable parameter without a per-unit gradient
    ├── MissingDependency (ImportError)    an optional package is needed for what was asked
    └── RunError (RuntimeError)            a run folder that cannot go on
        ├── ResumeError                    what is on disk and what was asked for differ
        ├── LedgerError                    the record of steps is damaged or impossible
        └── VerificationError              a certificate does not follow from its ledger

Messages read: `` `name` rule, got value. Reason or fix. `` The command line turns the backticked name into
its flag, prints the one line and exits with 2, for a `VerificationError` with 3.

>>> raise PlanError("`delta` must lie strictly between 0 and 1, got 2.")
Traceback (most recent call last):
reldp.errors.PlanError: `delta` must lie strictly between 0 and 1, got 2.
"""

__all__ = [
    "ConfigError",
    "EncoderError",
    "GraphError",
    "InputError",
    "LedgerError",
    "MissingDependency",
    "PlanError",
    "ReldpError",
    "ResumeError",
    "RunError",
    "UnreachableTarget",
    "UnsupportedEvent",
    "UnsupportedParameter",
    "VerificationError",
]


class ReldpError(Exception):
    """Root of every error that reldp raises on purpose."""


class InputError(ReldpError, ValueError):
    """A value given by the caller breaks a stated rule."""


class PlanError(InputError):
    """Sizes, rates, noise or delta do not form a privacy plan."""


class UnreachableTarget(PlanError):
    """No noise, or not even one step, meets the target epsilon."""


class GraphError(InputError):
    """Entities or relations do not form a graph."""


class EncoderError(InputError):
    """A model cannot be loaded or trained here."""


class ConfigError(InputError):
    """A run configuration contradicts itself or names something unknown."""


class UnsupportedEvent(ReldpError, TypeError):
    """An accountant got an event that it does not know."""


class UnsupportedParameter(ReldpError, TypeError):
    """A trainable parameter has no per-unit gradient in this engine."""


class MissingDependency(ReldpError, ImportError):
    """An optional package is needed for what was asked."""


class RunError(ReldpError, RuntimeError):
    """A run folder cannot go on."""


class ResumeError(RunError):
    """What is on disk and what was asked for differ."""


class LedgerError(RunError):
    """The record of steps is damaged or impossible."""


class VerificationError(RunError):
    """A certificate does not follow from its plan and ledger."""
