import click
import pytest

from reldp._validate import ACCOUNTANTS, ANALYSES, CLIPPING_RULES, NEGATIVE_POOLS, UNITS
from reldp.cli.options import (
    HINTS,
    Integer,
    Number,
    Word,
    accountant_option,
    device_option,
    json_option,
    make_plan,
    plan_options,
    with_hint,
)
from reldp.errors import PlanError
from reldp.plan import PrivacyPlan

PLAN = {
    "num_entities": 1000,
    "num_relations": 2000,
    "max_degree": 5,
    "num_negatives": 4,
    "sample_rate": 0.005,
    "num_steps": 10,
    "noise_multiplier": 1.0,
    "delta": 1e-4,
}


@click.command()
@plan_options
@accountant_option
@json_option
def with_all_options(**_):
    """A command with all shared options."""


def options():
    return {option.name: option for option in with_all_options.params}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("-3", -3),
        ("1e6", 10**6),
        ("2.0", 2),
        (" 7 ", 7),
        ("9" * 30, int("9" * 30)),
    ],
)
def test_whole_numbers_are_read_as_people_write_them(text, number):
    value = Integer().convert(text, None, None)
    assert value == number
    assert isinstance(value, int)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "2.5",
        "nan",
        "inf",
        "1e300",
        "0x10",
        "1,000",
        "1_0",
        "1_000",
        "1_0e2",
        "\u0661\u0660",
        "\uff11e2",
        "9" * 9999,
    ],
)
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(click.BadParameter, match="must be a whole number") as caught:
        Integer().convert(text, None, None)
    assert len(caught.value.message) < 150


def test_numbers_are_read_and_letters_refused():
    assert Number().convert("1e-7", None, None) == 1e-7
    for text in ("abc", "1_0", "1_0.5", "\u0661", "\uff11.5", ""):
        with pytest.raises(click.BadParameter, match=rf"must be a number such as .*, got '{text}'"):
            Number().convert(text, None, None)


def test_a_near_miss_of_a_word_is_named():
    word = Word(["tuple", "pair", "frequency"])
    assert word.convert("pair", None, None) == "pair"
    with pytest.raises(click.BadParameter, match=r"Did you mean frequency\?"):
        word.convert("Frequenzy", None, None)
    with pytest.raises(click.BadParameter) as caught:
        word.convert("zzz", None, None)
    assert "Did you mean" not in caught.value.message


def test_words_are_those_of_the_plan():
    assert tuple(options()["clipping"].type.choices) == CLIPPING_RULES
    assert tuple(options()["negatives"].type.choices) == NEGATIVE_POOLS
    assert tuple(options()["unit"].type.choices) == UNITS
    assert tuple(options()["analysis"].type.choices) == ANALYSES
    assert tuple(options()["accountant"].type.choices) == ACCOUNTANTS


def test_defaults_are_those_of_the_plan():
    plan = make_plan(PLAN)
    for name in ("clipping", "negatives", "unit", "analysis"):
        assert options()[name].default == plan.to_dict()[name]


def test_every_field_of_a_plan_that_changes_epsilon_is_a_flag():
    of_a_release = {"sizes", "sizes_epsilon", "sizes_delta"}
    free = {"clip_norm", "num_relation_types"}  # they do not change epsilon
    fields = set(PrivacyPlan.__dataclass_fields__) - free - of_a_release
    assert fields == set(options()) - {"accountant", "as_json"}


def test_every_flag_says_what_it_is():
    assert all(option.help for option in with_all_options.params)


def test_a_device_is_chosen_later_unless_given(capsys):
    @click.command()
    @device_option
    def command(device):
        """Print the device."""
        print(device)

    command.main([], standalone_mode=False)
    command.main(["--device", "cuda:1"], standalone_mode=False)
    assert capsys.readouterr().out == "None\ncuda:1\n"


def test_a_plan_is_made_from_what_was_given():
    plan = make_plan({**PLAN, "expected_batch_size": None, "pool_size": None})
    assert plan == PrivacyPlan(**PLAN)


def test_all_missing_flags_are_named_at_once():
    with pytest.raises(PlanError, match="`max_degree`, `delta` must be given"):
        make_plan({**PLAN, "max_degree": None, "delta": None})


def test_one_missing_flag_comes_with_its_hint():
    with pytest.raises(PlanError, match=r"`delta` must be given\. Take it"):
        make_plan({**PLAN, "delta": None})


def test_rate_and_batch_size_exclude_one_another_even_where_they_agree():
    with pytest.raises(PlanError, match="exclude one another, got both"):
        make_plan({**PLAN, "expected_batch_size": 10.0})
    with pytest.raises(PlanError, match="`sample_rate` or `expected_batch_size` must be given"):
        make_plan({**PLAN, "sample_rate": None})


def test_the_relation_unit_needs_no_degree():
    assert make_plan({**PLAN, "max_degree": None, "unit": "relation"}).event.max_degree == 1


@pytest.mark.parametrize("pool", ["unprotected", "public"])
def test_another_pool_needs_its_size(pool):
    with pytest.raises(PlanError, match="`pool_size` must be given"):
        make_plan({**PLAN, "negatives": pool})
    assert make_plan({**PLAN, "negatives": pool, "pool_size": 300}).pool_size == 300


def test_the_pool_of_all_entities_cannot_be_made_larger():
    with pytest.raises(PlanError, match="`pool_size` must not be given"):
        make_plan({**PLAN, "pool_size": 10**9})


@pytest.mark.parametrize(("name", "value"), [("noise_multiplier", 1.0), ("num_steps", 1000)])
def test_what_is_searched_for_may_be_missing(name, value):
    plan = make_plan({**PLAN, name: None}, optional=(name,))
    assert getattr(plan, name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_entities", 0),
        ("num_relations", -1),
        ("max_degree", 0),
        ("num_negatives", -1),
        ("sample_rate", 2.0),
        ("noise_multiplier", -1.0),
        ("num_steps", -1),
        ("delta", 1.0),
    ],
)
def test_every_broken_rule_ends_with_what_to_do(name, value):
    with pytest.raises(PlanError) as caught:
        make_plan({**PLAN, name: value})
    assert with_hint(str(caught.value)) == f"{caught.value} {HINTS[name]}"


def test_a_message_that_says_what_to_do_is_left_alone():
    with pytest.raises(PlanError) as caught:
        make_plan({**PLAN, "num_negatives": 400})
    assert "use fewer negatives" in str(caught.value)
    assert with_hint(str(caught.value)) == str(caught.value)
    assert with_hint("no flag here") == "no flag here"
