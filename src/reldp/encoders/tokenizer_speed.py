"""A tokenizer that takes time without bound for a text is refused before it sees one of the user's.

The pattern of a step may be any regular expression, and the time of some grows with a power of the length of a text. So
public text is split first, a little more of it each time, until the time shows.

Private to the package: `refuse_slow_tokenizer`.

>>> import time
>>> refuse_slow_tokenizer(lambda text: time.sleep(0), seconds=1.0)
"""

from collections.abc import Callable
from functools import partial

from reldp.encoders.bounded import within_bounds
from reldp.encoders.soundness import PUBLIC_TEXTS
from reldp.errors import EncoderError

__all__ = ["refuse_slow_tokenizer"]

_LENGTHS = [2**power for power in range(4, 13)]  # characters; ordinary tokenizers take milliseconds
_TEXT = " ".join(PUBLIC_TEXTS)


def refuse_slow_tokenizer(encode: Callable[[str], object], *, seconds: float = 1.0) -> None:
    """Refuse a tokenizer that takes long for a short text.

    Args:
        encode: Makes tokens of a text.
        seconds: Processor time that one text may take at most.

    Raises:
        EncoderError: It takes longer.
    """
    text = _TEXT * (1 + _LENGTHS[-1] // len(_TEXT))
    for length in _LENGTHS:
        refusal = EncoderError(
            f"`source` must have a tokenizer that splits texts in little time, got one that takes more than "
            f"{seconds:g} seconds for {length:,} characters, mostly because of a slow regular expression. Copy the "
            "tokenizer's files from the original model."
        )
        within_bounds(partial(encode, text[:length]), seconds=seconds, refusal=refusal)
