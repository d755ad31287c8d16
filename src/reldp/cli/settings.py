"""Settings of a recipe on the command line: ``--set section.name=value``.

>>> parsed_changes(("learning.learning_rate=0.1", "encoder.model=minilm"))
{'learning': {'learning_rate': 0.1}, 'encoder': {'model': 'minilm'}}
"""

from typing import Any

from reldp.errors import ConfigError

__all__ = ["parsed_changes"]


def parsed_changes(
    changes: tuple[str, ...], settings: dict[str, dict[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """Return settings by section and name, with changes applied to those that are given."""
    changed = {} if settings is None else settings
    for change in changes:
        place, equals, text = change.partition("=")
        section, dot, name = place.strip().partition(".")
        if not (equals and dot):
            raise ConfigError(f"`set` must be section.name=value, got {change!r}.")
        changed.setdefault(section, {})[name] = _toml_value(text)
    return changed


def _toml_value(text: str) -> Any:
    """Return the value as TOML reads it; a bare word is text."""
    from reldp.training.toml_text import UnsafeToml, parse_toml

    try:
        return parse_toml(f"value = {text}")["value"]
    except UnsafeToml as error:
        raise ConfigError(f"`set` must be section.name=value: {error}.") from None
    except (ValueError, RecursionError):  # not TOML, or digits or brackets by the thousand
        return text.strip()
