"""Bounds on the words of a tokenizer, before it is loaded.

The tokenizers library builds a tree with a node for each character of a word, and a search for each added token, in
memory of some hundred times the file; a tree that is 100,000 nodes deep ends the process when it is freed. Making the
tokenizer compares each added token with those before it. Real tokenizers have words of a few dozen characters and up to
some thousand added tokens.

Private to the package: `check_words`.

>>> refuse_words("tokenizer.json", ["a" * 5000])
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must have a tokenizer with words of at most 4,096 characters, got 5,000 in \
tokenizer.json. Copy the tokenizer's files from the original model.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from reldp.encoders.folders import check_size, read_json
from reldp.errors import EncoderError

__all__ = ["check_words", "refuse_added", "refuse_words"]

_MAX_FILE = 2**26  # bytes
_MAX_WORD = 4096  # characters
_MAX_WORDS = 2**23  # characters of all words
_MAX_ADDED, _MAX_ADDED_TEXT = 20_000, 2**20  # tokens, and their characters
_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_COPY = "Copy the tokenizer's files from the original model."
_TEMPLATE = "chat_template"  # text, and no token
_SENTENCEPIECE = (".model", ".spm")
_WORD_FIELD = 0x0A  # of such a model: the first field, with a length


def check_words(folder: Path) -> None:
    """Refuse a folder whose tokenizer has words, or added tokens, that take memory or time without bound.

    Args:
        folder: The folder of the model; it may have any of the files.
    """
    if (folder / "tokenizer.json").is_file():
        whole = _as_object(_read(folder / "tokenizer.json"))
        model = _as_object(whole.get("model"))
        refuse_words("tokenizer.json", _words(model.get("vocab")))
        added = whole.get("added_tokens")
        refuse_added("tokenizer.json", added if isinstance(added, list) else ())
    for name in _SETTINGS:
        if (folder / name).is_file():
            whole = _as_object(_read(folder / name))
            tokens = list(whole) if name == "added_tokens.json" else _listed(whole)
            refuse_added(name, tokens)
    for path in sorted(folder.iterdir()):
        if path.suffix in _SENTENCEPIECE and path.is_file():
            check_size(path, "source", _MAX_FILE)
            refuse_words(path.name, _words_of_model(path.read_bytes()))


def refuse_words(name: str, words: Iterable[Any]) -> None:
    """Refuse words that are too long, alone or together; what is no text is for the reader to refuse."""
    lengths = [len(word) for word in words if isinstance(word, str | bytes)]
    longest = max(lengths, default=0)
    if longest > _MAX_WORD:
        raise EncoderError(
            f"`source` must have a tokenizer with words of at most {_MAX_WORD:,} characters, got {longest:,} in "
            f"{name}. {_COPY}"
        )
    if sum(lengths) > _MAX_WORDS:
        raise EncoderError(
            f"`source` must have a tokenizer whose words have at most {_MAX_WORDS:,} characters, got "
            f"{sum(lengths):,} in {name}. {_COPY}"
        )


def refuse_added(name: str, tokens: Iterable[Any]) -> None:
    """Refuse more added tokens than any tokenizer has, or longer ones."""
    texts = [t.get("content") if isinstance(t, dict) else t for t in tokens]
    refuse_words(name, texts)
    size = sum(len(text) for text in texts if isinstance(text, str))
    if len(texts) > _MAX_ADDED or size > _MAX_ADDED_TEXT:
        raise EncoderError(
            f"`source` must have a tokenizer with at most {_MAX_ADDED:,} added tokens of {_MAX_ADDED_TEXT:,} "
            f"characters together, got {len(texts):,} of {size:,} in {name}. {_COPY}"
        )


def _read(path: Path) -> Any:
    return read_json(path, "source", _MAX_FILE, is_strict=False)


def _words(vocab: Any) -> Iterator[Any]:
    """Yield the words of a vocabulary: ids by word, or a list of words with scores."""
    if isinstance(vocab, dict):
        yield from vocab
    for entry in vocab if isinstance(vocab, list) else ():
        yield entry[0] if isinstance(entry, list) and entry else None


def _listed(value: dict[str, Any]) -> list[Any]:
    """Return every text in a list or an object in the settings, at any depth."""
    texts: list[Any] = []
    waiting = [part for name, part in value.items() if name != _TEMPLATE]
    while waiting:
        part = waiting.pop()
        inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        texts += [item for item in inside if isinstance(item, str)]
        waiting += [item for item in inside if isinstance(item, dict | list)]
    return texts


def _words_of_model(content: bytes) -> Iterator[bytes]:
    """Yield the words of a SentencePiece model, each with a few bytes for its score; other files have none."""
    place = 0
    while place < len(content) and content[place] == _WORD_FIELD:
        length, factor = 0, 1
        place += 1
        # Seven bits of the length in each byte, the lowest first.
        while place < len(content) and factor < 2**35:
            byte = content[place]
            length += (byte & 0x7F) * factor
            place, factor = place + 1, factor * 128
            if byte < 0x80:
                break
        yield content[place : place + length]
        place += length


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
