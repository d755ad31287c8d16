"""Whatever readers are given, the answer is a result or one line; hypothesis looks for what is not."""

import contextlib
import json
from pathlib import Path

import click
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.cli.options import Integer, Number
from reldp.errors import ReldpError
from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan
from reldp.runs.ledger import parse_ledger
from reldp.training.recipe import Recipe
from reldp.training.recipe_settings import SECTIONS
from tests.fuzz.damage import COMPRESSIONS, NUMBERS
from tests.fuzz.targets import PLAN

some = settings(max_examples=40, deadline=None)
odd = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.just(10**400), st.just([[]])
)  # fmt: skip
json_values = st.recursive(odd, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@contextlib.contextmanager
def one_line_at_most():
    said = "One line."
    try:
        yield
    except ReldpError as error:
        said = str(error)
    assert said.strip()
    assert "\n" not in said


@some
@given(
    st.lists(odd, max_size=5), st.lists(st.tuples(odd, odd), max_size=5), st.lists(odd, max_size=5)
)
def test_lists(ids, relations, text):
    with one_line_at_most():
        EntityGraph.from_lists(ids, relations, text=text)


@some
@given(st.dictionaries(st.sampled_from(sorted(json.loads(PLAN.to_json()))), odd, max_size=3))
def test_plans(changes):
    values = {**json.loads(PLAN.to_json()), **changes}
    with one_line_at_most():
        PrivacyPlan.from_dict(values)
    with one_line_at_most(), contextlib.suppress(TypeError):  # what JSON cannot hold
        PrivacyPlan.from_json(json.dumps(values))


@some
@given(st.sampled_from(sorted(SECTIONS)), json_values, st.data())
def test_settings_of_a_recipe(section, value, data):
    name = data.draw(st.sampled_from(sorted(SECTIONS[section])))
    with one_line_at_most():
        Recipe.from_values({section: {name: value}})
    with one_line_at_most():
        Recipe.from_values({section: value})


@some
@given(
    st.one_of(
        st.text(), st.sampled_from(["[" * 5000, "a = " + "9" * 5000, "[data]\ngraph = 1e999"])
    )
)
def test_recipes(text):
    with one_line_at_most():
        Recipe.from_toml(text)


@some
@given(
    st.binary(max_size=200),
    st.sampled_from(
        ["csv", "tsv", "jsonl", "parquet", "arrow", "csv.gz", "tsv.bz2", "csv.zst", "jsonl.zst"]
    ),
    st.booleans(),
)
def test_graphs(tmp_path_factory, data, kind, is_packed):
    folder = tmp_path_factory.mktemp("graph")
    pack = COMPRESSIONS.get(Path(kind).suffix, bytes) if is_packed else bytes
    (folder / f"entities.{kind}").write_bytes(pack(data))
    (folder / "relations.csv").write_text("source,target\na,b\n")
    with one_line_at_most():
        EntityGraph.read(folder)


@some
@given(st.binary(max_size=200))
def test_ledgers(data):
    with one_line_at_most():
        parse_ledger(data)


@some
@given(
    st.one_of(
        st.sampled_from(NUMBERS), st.text(max_size=9), st.floats().map(str), st.integers().map(str)
    )
)
def test_numbers_are_those_that_were_typed(text):
    for kind in (Integer(), Number()):
        with contextlib.suppress(click.BadParameter):
            number = kind.convert(text, None, None)
            mantissa = text.lower().partition("e")[0]
            assert number != 0 or not any(digit in mantissa for digit in "123456789")
