"""Comparing a stated certificate with the one that follows from plan and ledger, byte for byte.

Sums of floating-point numbers may differ in their last digits between machines, so the numbers
for epsilon may differ by 1e-6 of their value. Everything else must have the same bytes.

Private to the package: `agreed_certificate`, `TOLERANCE`.

>>> list(_differences("", {"a": {"b": 1}}, {"a": {"b": 1.0}}))
['a.b is 1, but must be 1.0']
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from reldp.errors import VerificationError
from reldp.runs.certificate import NAME, Certificate

__all__ = ["TOLERANCE", "agreed_certificate"]

TOLERANCE = 1e-6
_MAX_NAMED = 8  # differences in an error message


def agreed_certificate(stated: bytes, made: Certificate) -> Certificate:
    """Return the stated certificate, if it is the recomputed one.

    Args:
        stated: The content of certificate.json.
        made: The certificate that follows from plan and ledger.

    Returns:
        The recomputed certificate, with the stated last digits of epsilon.

    Raises:
        VerificationError: They differ; the message names the places.
    """
    if stated == made.to_json().encode():
        return made
    parsed = Certificate.from_json(stated)
    now, then = (one.values["guarantee"]["epsilon"] for one in (made, parsed))
    if then.keys() == now.keys() and all(_close(then[name], now[name]) for name in now):
        agreed = made.with_epsilon(**{name: then[name] for name in now})  # in their order
        if stated == agreed.to_json().encode():
            return agreed
    differences = list(_differences("", parsed.values, made.values))
    shown = differences[:_MAX_NAMED] or ["its parts are in another order"]
    more = f"; and {len(differences) - _MAX_NAMED} more" if len(differences) > _MAX_NAMED else ""
    raise VerificationError(f"{NAME}: {'; '.join(shown)}{more}.")


def _close(stated: Any, made: Any) -> bool:
    if type(stated) is float and type(made) is float:
        return math.isclose(stated, made, rel_tol=TOLERANCE)
    return type(stated) is type(made) and bool(stated == made)


def _differences(place: str, stated: Any, made: Any) -> Iterator[str]:
    """Yield the places at which a stated certificate differs from the recomputed one."""
    if isinstance(stated, Mapping) and isinstance(made, Mapping):
        for name in sorted({*stated, *made}):
            yield from _differences(
                f"{place}.{name}" if place else name, stated.get(name), made.get(name)
            )
    elif repr(stated) != repr(made):  # 1, 1.0 and true are three values
        yield f"{place} is {_short(stated)}, but must be {_short(made)}"


def _short(value: Any) -> str:
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 70 else text[:67] + "..."
