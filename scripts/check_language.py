#!/usr/bin/env python3
"""Check the language: report words that readers from outside the project do not know, and what to say instead.

The table "Words we do not use" of docs/language.md is the list. Words marked "anywhere" are searched in the whole text
of a file: prose, comments, strings and names. Words marked "names" are ordinary English in a sentence but say nothing
as the name of a function, class, argument, variable or module, so they are searched in the syntax tree only. British
spellings are searched everywhere.

    python scripts/check_language.py                   # everything in COVERED, as scripts/test does
    python scripts/check_language.py src/reldp/graph   # files or folders

Prints one line per hit and exits with 1 if there are any. Needs the standard library only.

>>> [hit.word for hit in hits_in_text("Coins are thrown.", read_word_list())]
['coins']
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
WORD_LIST = REPOSITORY / "docs" / "language.md"
HEADING = "## Words we do not use"
SUFFIXES = {".py", ".md", ".ipynb", ".toml", ".html", ".sh", ".txt"}

COVERED = ("README.md", "CONTRIBUTING.md", "benchmarks", "docs", "examples", "scripts", "src")
"""Files and folders that are checked when none are named."""

EXCLUDED = {
    "docs/language.md": "the list itself",
    "docs/migrating.md": "says what old names have become",
    "scripts/check_language.py": "talks about the words",
    "scripts/constraints.txt": "names of packages",
}
"""Files that are not checked, each with the reason."""

ALLOWED = {
    "--price-list": "hidden alias of an option, kept for scripts that use it",
    "plan.price(": "hidden alias of a method, kept for programs that use it",
    "price = privacy_cost": "the same, where it is defined",
}
"""Phrases in which a word is allowed, each with the reason."""

_STEMS = (
    "categor|character|custom|discret|final|general|initial|local|material|maxim|memor|minim|normal|optim|organ"
    "|parallel|parameter|quant|random|real|recogn|regular|serial|special|standard|summar|symbol|synchron|token"
    "|vector|visual"
)
SPELLINGS = {
    rf"(?:\w*)(?:{_STEMS})is(?:e|ed|es|er|ers|ing|ation|ations)": "-ize, -ization",
    r"\w*(?:colour|behaviour|neighbour|favour|honour|labour|flavour)\w*": "-or",
    r"(?:centre|metre|fibre|theatre)[sd]?": "-er",
    r"(?:analys|paralys|catalys)(?:e[drs]?|ing)(?<!analyses)": "-yze",
    r"(?:model|label|cancel|travel|signal|marshal|total)l(?:ed|ing|er)": "one l",
    r"(?:licence|defence|offence|grey|programme)s?": "license, defense, offense, gray, program",
}
"""Patterns of British spellings and the American ending."""


@dataclass(frozen=True)
class WordList:
    """Words to avoid and what to say instead: in any text, and as whole names or as prefixes of names."""

    anywhere: dict[str, str]
    names: dict[str, str]
    prefixes: dict[str, str]


@dataclass(frozen=True)
class Hit:
    """One word that must go: its line, the word itself, and what to say instead."""

    line: int
    word: str
    instead: str


def read_word_list(path: Path = WORD_LIST) -> WordList:
    """Return the table of words to avoid; a table that is missing or misshapen is an error."""
    table = path.read_text(encoding="utf-8").partition(HEADING)[2]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (anywhere|names) \|$", table, flags=re.MULTILINE)
    lines = [line for line in table.splitlines() if line.startswith("|")]
    if not rows or len(rows) != len(lines) - 2:
        raise SystemExit(f"{path}: the table below '{HEADING}' cannot be read.")
    places: dict[str, dict[str, str]] = {"anywhere": {}, "names": {}, "prefixes": {}}
    for words, instead, where in rows:
        for word in words.split(", "):
            place = "prefixes" if word.endswith("_") and where == "names" else where
            places[place][word.strip("`")] = instead
    return WordList(**places)


def hits_in_text(text: str, word_list: WordList) -> list[Hit]:
    """Words that must not stand anywhere in a text, and British spellings."""
    for phrase in ALLOWED:
        text = text.replace(phrase, " ")
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)  # CamelCase is several words
    lowered = text.lower()
    patterns = {
        re.escape(word).replace(r"\ ", r"[\s_#]+"): instead
        for word, instead in word_list.anywhere.items()
        if word.split()[0].lower() in lowered  # most are not, which is seen at once
    }
    return [
        Hit(text.count("\n", 0, match.start()) + 1, match.group().lower(), instead)
        for pattern, instead in {**patterns, **SPELLINGS}.items()
        for match in re.finditer(rf"(?i)(?<![a-z])(?:{pattern})(?![a-z])", text)
    ]


def names_in(code: str) -> Iterator[tuple[int, str]]:
    """Line and name of everything that Python code gives a name to; names that it only uses are left out."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node.lineno, alias.asname) for alias in node.names if alias.asname)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.lineno, node.name


def hits_in_names(names: Iterable[tuple[int, str]], word_list: WordList) -> list[Hit]:
    """Names that say nothing: the whole name, or its first word where the list has a prefix."""
    hits = []
    for line, name in names:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")
        instead = word_list.names.get(words)
        for prefix, other in word_list.prefixes.items():
            if words.startswith(prefix):
                instead = other
        if instead:
            hits.append(Hit(line, name, instead))
    return hits


def hits_in_file(path: Path, word_list: WordList) -> list[Hit]:
    """All hits of one file: its name, its text, and the names in its Python code."""
    text = path.read_text(encoding="utf-8")
    hits = [Hit(0, hit.word, hit.instead) for hit in hits_in_text(path.stem, word_list)]
    hits += hits_in_text(text, word_list)
    if path.suffix == ".py":
        hits += hits_in_names([(0, path.stem), *names_in(text)], word_list)
    if path.suffix == ".md":
        for block in re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
            start = text.count("\n", 0, block.start(1))
            names = ((start + line, name) for line, name in names_in(block.group(1)))
            hits += hits_in_names(names, word_list)
    return sorted(set(hits), key=lambda hit: (hit.line, hit.word))


def files_below(paths: Iterable[Path]) -> Iterator[Path]:
    """Files to check: those named, and those with a known ending in folders that are named."""
    for path in paths:
        if not path.exists():
            raise SystemExit(f"{path}: there is no such file or folder.")
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            hidden = "__pycache__" in file.parts
            if file.is_file() and (file.suffix in SUFFIXES or not file.suffix) and not hidden:
                yield file


def main(arguments: list[str]) -> int:
    """Check the named paths, or all that are covered; return the exit code."""
    word_list = read_word_list()
    paths = [Path(p) for p in arguments] or [REPOSITORY / p for p in COVERED]
    count = 0
    for file in files_below(paths):
        absolute = file.resolve()
        inside = absolute.is_relative_to(REPOSITORY)
        name = absolute.relative_to(REPOSITORY).as_posix() if inside else str(file)
        for hit in [] if name in EXCLUDED else hits_in_file(file, word_list):
            print(f"{name}:{hit.line}: '{hit.word}'; say {hit.instead}")
            count += 1
    if count:
        print(f"{count} words that readers do not know. The list is in docs/language.md.")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
