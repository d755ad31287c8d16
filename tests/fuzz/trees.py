"""Edits of JSON values at any depth: what a reader meets after the text has parsed."""

import contextlib
import copy
import itertools
import json
from functools import partial

from tests.fuzz.damage import is_undamaged

ODD = (
    None, True, False, "", "a", "\ud800", "a" * 5000, "../..", "[UNK]", -1, 0, 1, 2, 3, 7, 255, 2**16, 2**31, 2**40,
    2**63, 10**30, 0.0, -0.5, 0.5, 1.5, 1e-30, 1e30, 1e308, float("nan"), float("inf"), [], {}, [[]], [None], ["a"],
    [1, 2], {"a": 1}, [0] * 1000,
)  # fmt: skip


def places(value, path=()):
    """Yield the path of every value inside of a JSON value."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, inner in items:
        yield (*path, name)
        yield from places(inner, (*path, name))


def edited_tree(random, value, *, most=3):
    """Return a copy of a JSON object or list with one to `most` edits at any depth."""
    value = copy.deepcopy(value)
    if is_undamaged(random):
        return value
    for _ in range(random.randint(1, most)):
        found = list(places(value))
        if not found:
            return value
        path = random.choice(found)
        _edit(random, value, path, found)
    return value


def _edit(random, value, path, found):
    parent = inside(value, path[:-1])
    name, edit = path[-1], random.randrange(8)
    if edit == 0:
        del parent[name]
    elif edit == 1:  # the same value under another name, or once more
        if isinstance(parent, list):
            parent.insert(name, copy.deepcopy(parent[name]))
        else:
            parent[random.choice((f"{name}_", "a", "type", ""))] = parent.pop(name)
    elif edit == 2:  # a value of somewhere else
        parent[name] = copy.deepcopy(inside(value, random.choice(found)))
    elif edit == 3 and isinstance(parent[name], int) and not isinstance(parent[name], bool):
        parent[name] += random.choice((-1, 1, 10, 1000, 10**6))
    elif edit == 4 and isinstance(parent[name], list):
        parent[name] = parent[name] * random.choice((2, 20))
    elif edit == 5 and isinstance(parent[name], str):
        parent[name] = parent[name] * 2 + random.choice(("", "\x00", "é", " "))
    else:
        parent[name] = copy.deepcopy(random.choice(ODD))


def inside(value, path):
    """The value at a path."""
    for name in path:
        value = value[name]
    return value


def edit_json_file(random, path, *, most=3):
    """Edit the JSON value in a file."""
    if is_undamaged(random):
        return
    rewrite_json(path, edited_tree(random, json.loads(path.read_text("utf-8")), most=most))


_STYLES = (
    json.dumps,
    partial(json.dumps, indent=2),
    partial(json.dumps, indent=2, sort_keys=True),
    partial(json.dumps, indent=2, sort_keys=True, ensure_ascii=False),
    partial(json.dumps, indent=2, ensure_ascii=False),
)


def rewrite_json(path, value):
    """Write another value into a JSON file, in the style of the one before: readers compare bytes."""
    text = path.read_text("utf-8")
    for style, end in itertools.product(_STYLES, ("", "\n")):
        if style(json.loads(text)) + end == text:
            with contextlib.suppress(TypeError):  # names of several types cannot be sorted
                path.write_text(style(value) + end, encoding="utf-8", errors="surrogatepass")
                return
    path.write_text(json.dumps(value), encoding="utf-8")
