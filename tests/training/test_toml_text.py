"""TOML that would cost too much to parse is refused before it is parsed."""

import tomllib

import pytest

from reldp.training import toml_text
from reldp.training.recipe import Recipe
from reldp.training.toml_text import MAX_BYTES, UnsafeToml, parse_toml, toml_sections

LONG = ".".join("a" * 20)


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG} = 1",
        f"[{LONG}]",
        f"[[{LONG}]]",
        f"x = {{ {LONG} = 1 }}",
        f"x = [1, {{ b = 2, {LONG} = 1 }}]",
        " . ".join(["'a'", '"b"'] * 10) + " = 1",
        f"x = 'it' # it's\n{LONG} = 1",
        f'x = """a" \\""" b"""\n{LONG} = 1',
        f'x = "open\n{LONG} = 1',
        f"x = '''a'''\n{LONG} = 1",
        f'x = [{{ a = """s"""", {LONG} = 1, b = "t" }}]',
        f"x = [{{ a = '''s''''', {LONG} = 1, b = 't' }}]",
    ],
)
def test_long_dotted_keys_never_reach_the_parser(monkeypatch, text):
    monkeypatch.setattr(toml_text.tomllib, "loads", lambda _: pytest.fail("parsed"))
    with pytest.raises(UnsafeToml, match="keys must have at most 8 dots, got more on line"):
        parse_toml(text)


def test_a_long_text_never_reaches_the_parser(monkeypatch):
    monkeypatch.setattr(toml_text.tomllib, "loads", lambda _: pytest.fail("parsed"))
    with pytest.raises(UnsafeToml, match="at most 65,536 bytes"):
        parse_toml("#" * (MAX_BYTES + 1))
    with pytest.raises(UnsafeToml, match="at most 65,536 bytes"):
        parse_toml("# " + "\u00e9" * (MAX_BYTES // 2))


@pytest.mark.parametrize(
    "text",
    [
        f"x = '{LONG}'",
        f'x = "{LONG}" # {LONG}',
        f'x = """\n{LONG}\n"""',
        f"x = '''\n{LONG}\n'''",
        f"'{LONG}' = 1",
        "x = [" + "0.5, " * 50 + "]",
        "a.b = 1.5\n" * 1 + "\n".join(f"c{i} = 0.{i}" for i in range(50)),
        Recipe.template(),
    ],
)
def test_dots_elsewhere_are_allowed(text):
    assert parse_toml(text) == tomllib.loads(text)


def test_what_is_written_is_read_back():
    values = {
        "data": {"graph": 'a "quoted" \\ folder\n\u00e9', "drop": {"bad": 2}},
        "learning": {"learning_rate": 1e-05, "hidden": [4, 8], "normalize": True},
    }
    assert parse_toml(toml_sections(values)) == values
