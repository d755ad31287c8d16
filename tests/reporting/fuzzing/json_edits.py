"""Edits of JSON: of one value, of its place, and of the way in which it is written."""

import json
import math
import re
import unicodedata

_NUMBER = re.compile(r"(?<=[\s:,\[])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?=[\s,\]}])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
# What a value may be replaced by; texts are put in as they are.
_TOKENS = (
    *("null", "true", "false", "0", "-0", "-0.0", "1", "-1", "0.5", "1e-320", "1e308", "1e999"),
    *("-1e999", "NaN", "Infinity", "-Infinity", "9223372036854775808", "9" * 400, "9" * 5000),
    *('""', '" "', '"\\u0000"', '"\\ud800"', '"Infinity"', '"NaN"', '"x" : "y"', "[]", "{}"),
    *("[[]]", '{"": null}', "[" * 200 + "]" * 200, "[" * 20000, '{"a":' * 3000, "undefined"),
    *("'x'", "True", "None", "0x10", "01", "+1", ".5", "5.", "1_000", "1,", "/* */ 1", ""),
)
_LOOKALIKES = {
    "a": "\u0430",
    "e": "\u0435",
    "o": "\u043e",
    "p": "\u0440",
    "-": "\u2010",
    " ": "\u00a0",
}


def places(values, path=()):
    """Paths of all values below, containers included."""
    if path:
        yield path
    items = ()
    if isinstance(values, dict):
        items = values.items()
    elif isinstance(values, list):
        items = enumerate(values)
    for name, value in items:
        yield from places(value, (*path, name))


def edited_text(random, text, dump):
    """The text with one edit.

    Args:
        random: A `random.Random`.
        text: JSON.
        dump: Writes values as the file's writer does.
    """
    kind = random.choice((_change_value, _change_value, _change_place, _rewrite, _rewrite))
    return kind(random, text, dump)


def edited_value(random, values):
    """The values with one of them changed, gone or added."""
    kind = random.choice((_change_value, _change_value, _change_place))
    return json.loads(kind(random, json.dumps(values), json.dumps))


def _change_value(random, text, dump):
    """One value is another, everything else written as before."""
    values = json.loads(text)
    path = random.choice(list(places(values)) or [()])
    if not path:
        return random.choice(_TOKENS)
    mark = "a mark that is nowhere else"
    parent = values
    for name in path[:-1]:
        parent = parent[name]
    old = parent[path[-1]]
    parent[path[-1]] = mark
    return dump(values).replace(json.dumps(mark), _another(random, old), 1)


def _another(random, old):
    """JSON text of a value near an old one, or far from it."""
    near = [lambda: random.choice(_TOKENS), lambda: json.dumps([old]), lambda: json.dumps(str(old))]
    if isinstance(old, bool):
        near += [lambda: json.dumps(not old), lambda: str(int(old))]
    elif isinstance(old, int | float):
        near += [
            lambda: json.dumps(-old),
            lambda: json.dumps(old + random.choice((-1, 1))),
            lambda: json.dumps(old * random.choice((2, 0.5, 1 + 1e-12, 1 + 1e-7, 1 - 1e-7))),
            lambda: json.dumps(math.nextafter(old, random.choice((-math.inf, math.inf)))),
            lambda: json.dumps(float(old)),
            lambda: json.dumps(int(old)),
        ]
    elif isinstance(old, str):
        near += [lambda: json.dumps(_another_text(random, old), ensure_ascii=False)] * 4
        near += [lambda: json.dumps(_another_text(random, old))]
    return random.choice(near)()


def _another_text(random, old):
    position = random.randrange(len(old) + 1)
    letter = old[position : position + 1]
    return random.choice(
        (
            old[:position] + old[position + 1 :],
            old[:position]
            + random.choice("\u200b\u200f\u0301\x00\x7f\t\ufeff ax0")
            + old[position:],
            old[:position] + _LOOKALIKES.get(letter, "?") + old[position + 1 :],
            old[:position] + letter.swapcase() + old[position + 1 :],
            old[::-1],
            old + " ",
            unicodedata.normalize("NFKD", old) + "\u0307",
            old.upper(),
            "",
        )
    )


def _change_place(random, text, dump):
    """A value is gone, is there twice, or is somewhere else."""
    values = json.loads(text)
    containers = [()] + [p for p in places(values) if isinstance(_at(values, p), dict | list)]
    full = [p for p in containers if _at(values, p)]
    inside = _at(values, random.choice(full or [()]))
    if isinstance(inside, dict):
        _change_object(random, inside)
    elif isinstance(inside, list):
        _change_list(random, inside)
    twice = dump(values)
    return twice.replace('"a name that is there twice"', json.dumps(random.choice(_names(values))))


def _change_object(random, inside):
    name = random.choice(list(inside))
    action = random.randrange(5)
    value = inside[name]
    if action == 0:
        del inside[name]
    elif action == 1:
        inside["a name that is there twice"] = value
    elif action == 2:
        del inside[name]
        inside[name] = value
    elif action == 3:
        del inside[name]
        inside[name + random.choice(("", "_", " ", "\u200b", "x"))] = value
    else:
        inside[random.choice(("", "x", "__proto__", "format", name.upper()))] = value


def _change_list(random, inside):
    position = random.randrange(len(inside))
    action = random.randrange(4)
    if action == 0:
        del inside[position]
    elif action == 1:
        inside.insert(position, inside[position])
    elif action == 2:
        inside.reverse()
    else:
        inside.append(None)


def _names(values):
    return [p[-1] for p in places(values) if isinstance(p[-1], str)] or [""]


def _at(values, path):
    for name in path:
        values = values[name]
    return values


def _rewrite(random, text, dump):
    """The same values, or nearly, in other characters."""
    action = random.randrange(7)
    if action == 0:
        return _replaced(random, text, _NUMBER, _other_number)
    if action == 1:
        return _replaced(random, text, _STRING, _other_string)
    position = random.randrange(len(text) + 1)
    if action == 2:
        added = random.choice(
            (" ", "\n", "\t", "\r", "\u00a0", "\x00", "//", ",", "\ufeff", "\x0b")
        )
        return text[:position] + added + text[position:]
    if action == 3:
        return text + random.choice((" ", "\n", "\n\n", "\x00", "{}", "null", "//"))
    if action == 4:
        return random.choice(("\ufeff", " ", "\n", "[", "//\n")) + text
    if action == 5:
        return random.choice(
            (text.replace("\n", "\r\n"), text.rstrip("\n"), json.dumps(json.loads(text)))
        )
    return text[:position]


def _replaced(random, text, pattern, other):
    found = list(pattern.finditer(text))
    if not found:
        return text + " "
    one = random.choice(found)
    return text[: one.start()] + other(random, one.group()) + text[one.end() :]


def _other_number(random, old):
    value = float(old)
    return random.choice(
        (
            *(old + ".0", old + "e0", old + "E+0", "0" + old, "+" + old, " " + old, old + "0"),
            *(
                f"{value:.20e}",
                f"{value:.25f}",
                repr(value),
                f'"{old}"',
                "-" + old,
                old + "00000001",
            ),
        )
    )


def _other_string(random, old):
    position = random.randrange(1, len(old))
    letter = old[position]
    escaped = f"\\u{ord(letter):04x}" if letter not in '"\\' else letter
    return random.choice(
        (
            old[:position] + escaped + old[position + 1 :],
            old[:position] + "\\/" + old[position:],
            old[:position] + "\\x" + old[position:],
            old.replace('"', "'"),
            old[:-1],
            old.replace("/", "\\/"),
        )
    )
