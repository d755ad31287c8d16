"""Checks of arguments: what they let through, what they refuse, and in which words."""

import ast
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reldp import _validate
from reldp._validate import (
    as_integer,
    check,
    check_choice,
    check_flag,
    check_integer,
    check_name,
    check_number,
    check_path,
    check_text,
    default_of,
    did_you_mean,
    is_finite_number,
    shown,
)
from reldp.errors import ConfigError, EncoderError, InputError, PlanError

CHOICES = sorted(
    name
    for name in vars(_validate)
    if name.isupper() and not name.startswith("_") and name != "MISSING"
)


def says(call, error=ConfigError):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("error", [ConfigError, EncoderError, PlanError, InputError])
def test_the_caller_decides_the_class_of_the_error(error):
    for refused in (
        lambda: check(False, "x", "true", 0, error=error),
        lambda: check_choice("x", "c", ("a", "b"), error=error),
        lambda: check_integer("x", "1", error=error),
        lambda: check_integer("x", as_integer(1.5), error=error),
        lambda: check_number("x", "1", error=error),
        lambda: check_flag("x", 1, error=error),
        lambda: check_text("x", 1, error=error),
        lambda: check_name("x", ["y"], "known", error=error),
    ):
        with pytest.raises(error) as caught:
            refused()
        assert type(caught.value) is error


def test_a_message_has_the_name_the_rule_the_value_and_the_fix():
    assert says(lambda: check(False, "rate", "small", 7, error=ConfigError)) == (
        "`rate` must be small, got 7."
    )
    fixed = says(lambda: check(False, "rate", "small", 7, error=ConfigError, fix="Halve it."))
    assert fixed == "`rate` must be small, got 7. Halve it."
    check(True, "rate", "small", 7, error=ConfigError)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 0, 11, np.int64(3), [1]])
def test_only_python_integers_in_range_are_integers(value):
    message = says(lambda: check_integer("n", value, low=1, high=10, error=ConfigError))
    assert message == f"`n` must be an integer from 1 to 10, got {value!r}."


def test_an_integer_is_returned():
    assert check_integer("n", 1, low=1, high=1, error=ConfigError) == 1
    assert check_integer("n", 10**30, error=ConfigError) == 10**30
    open_end = says(lambda: check_integer("n", -1, error=ConfigError))
    assert open_end == "`n` must be an integer of at least 0, got -1."
    words = says(lambda: check_integer("n", -1, error=ConfigError, rule="a count", fix="Count."))
    assert words == "`n` must be a count, got -1. Count."


def test_integers_of_numpy_become_those_of_python():
    number = check_integer("n", as_integer(np.int32(3)), error=ConfigError)
    assert (number, type(number)) == (3, int)
    for refused in (True, np.bool_(True), 3.0, "3", np.int64(-1)):
        with pytest.raises(ConfigError, match="integer of at least 0"):
            check_integer("n", as_integer(refused), error=ConfigError)


@pytest.mark.parametrize(
    "value", [True, "1", None, float("nan"), float("inf"), 10**400, 2**63, -(2**63), 1j]
)
def test_only_finite_numbers_are_numbers(value):
    assert not is_finite_number(value)
    assert "`x` must be a finite number, got" in says(
        lambda: check_number("x", value, error=ConfigError)
    )


@pytest.mark.parametrize(
    ("limits", "inside", "outside", "words"),
    [
        ({"above": 0}, 1e-300, 0, "a finite number above 0"),
        ({"low": 0}, 0, -1e-9, "a finite number of at least 0"),
        ({"above": 0, "below": 1}, 0.5, 1.0, "a number strictly between 0 and 1"),
        ({"above": 0, "below": 1}, 0.5, 0, "a number strictly between 0 and 1"),
        ({"low": 0, "high": 1}, 1, 1.5, "a number from 0 to 1"),
        ({"above": 0, "high": 1}, 1, 0, "a finite number above 0 and at most 1"),
        ({"below": 2}, -5, 2, "a finite number below 2"),
    ],
)
def test_a_number_is_checked_against_its_range(limits, inside, outside, words):
    number = check_number("x", inside, error=ConfigError, **limits)
    assert (number, type(number)) == (inside, float)
    message = says(lambda: check_number("x", outside, error=ConfigError, **limits))
    assert message == f"`x` must be {words}, got {outside!r}."


def test_flags_and_texts_are_of_their_type():
    assert check_flag("f", False, error=ConfigError) is False
    assert says(lambda: check_flag("f", 1, error=ConfigError)) == (
        "`f` must be true or false, got 1."
    )
    assert check_text("t", "", error=ConfigError) == ""
    assert says(lambda: check_text("t", b"", error=ConfigError)) == "`t` must be text, got b''."


def test_a_wrong_choice_is_answered_with_the_nearest():
    assert check_choice("c", "b", ("a", "b"), error=ConfigError) == "b"
    near = says(lambda: check_choice("c", "cosin", ("cosine", "dot"), error=ConfigError))
    assert near == "`c` must be one of cosine, dot, got 'cosin'. Did you mean cosine?"
    far = says(lambda: check_choice("c", "xyz", ("cosine", "dot"), error=ConfigError))
    assert far == "`c` must be one of cosine, dot, got 'xyz'."
    fixed = says(lambda: check_choice("c", "dott", ("dot",), error=ConfigError, fix="Use dot."))
    assert fixed.endswith("got 'dott'. Use dot.")
    for value in (None, ["a"], {}, 1):  # what cannot be hashed is refused like the rest
        with pytest.raises(ConfigError, match="one of a, b"):
            check_choice("c", value, ("a", "b"), error=ConfigError)


def test_an_unknown_name_is_answered_with_the_nearest_or_with_all():
    check_name("loss", {"loss": 1}, "a setting", error=ConfigError)
    assert says(lambda: check_name("los", {"loss": 1}, "a setting", error=ConfigError)) == (
        "`los` must be a setting. Did you mean loss?"
    )
    assert says(lambda: check_name("qqq", ["a", "b"], "a setting", error=ConfigError)) == (
        "`qqq` must be a setting. There are: a, b."
    )


def test_the_case_of_letters_does_not_hide_the_nearest():
    assert did_you_mean("CUDA", ["cpu", "cuda"]) == "Did you mean cuda?"
    assert did_you_mean("Adam", ["Adam", "adam"]) == "Did you mean Adam?"
    assert did_you_mean(7, ["cpu"]) == ""


def test_long_values_are_cut():
    assert shown("a") == "'a'"
    assert len(shown("a" * 10**6)) == 80
    assert shown("a" * 10**6).endswith("...")
    assert shown(10**5000) == "an integer of thousands of digits"


def test_defaults_are_read_from_the_class_that_states_them():
    @dataclass
    class Settings:
        needed: int
        loss: str = "infonce"
        options: dict = field(default_factory=dict)

    assert default_of(Settings, "loss") == "infonce"
    first = default_of(Settings, "options")
    first["changed"] = True
    assert default_of(Settings, "options") == {}

    def train(model, *, rank=8): ...

    assert default_of(train, "rank") == 8
    with pytest.raises(AttributeError, match="train has no default for 'model'"):
        default_of(train, "model")
    for name in ("needed", "absent"):
        with pytest.raises(AttributeError, match=name):
            default_of(Settings, name)


@pytest.mark.parametrize("name", CHOICES)
def test_lists_of_choices_hold_different_words(name):
    words = getattr(_validate, name)
    assert isinstance(words, tuple)
    assert len(set(words)) == len(words) > 1
    assert all(word == word.strip() != "" for word in words)


def test_every_proof_can_be_asked_for():
    assert set(_validate.ANALYSES) == {"best", *_validate.PROOFS}


def test_only_errors_are_imported_with_it():
    code = "import sys, reldp._validate; print(*(m for m in sys.modules if 'reldp' in m or 'numpy' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"reldp", "reldp._validate", "reldp.errors"}


def test_what_is_looked_up_by_name_has_the_names_of_the_lists():
    from reldp.clipping.rules import RULES
    from reldp.encoders.features import ACTIVATIONS
    from reldp.encoders.loading import DTYPES

    assert tuple(RULES) == _validate.CLIPPING_RULES
    assert tuple(ACTIVATIONS) == _validate.ACTIVATIONS
    assert tuple(DTYPES) == _validate.PRECISIONS


def literal_words(tree):
    """Yield every tuple, list or set of strings that is written out, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set) and len(node.elts) > 1:
            words = [item.value for item in node.elts if isinstance(item, ast.Constant)]
            if len(words) == len(node.elts) and all(isinstance(word, str) for word in words):
                yield node.lineno, frozenset(words)


def restated_choices(source, path="example.py"):
    # A loop over cpu and cuda is no list of choices.
    known = {frozenset(getattr(_validate, name)): name for name in CHOICES if name != "DEVICES"}
    return [
        f"{path}:{line}: {known[words]}"
        for line, words in literal_words(ast.parse(source))
        if words in known
    ]


def test_a_list_of_choices_that_is_stated_twice_is_seen():
    assert restated_choices("x = ('dot', 'cosine')\n") == ["example.py:1: SCORES"]
    assert restated_choices("x = ('dot', 'sine')\ny = ['dot']\n") == []


def test_no_list_of_choices_is_stated_twice():
    source = Path(_validate.__file__).parent
    restated = [
        hit
        for path in sorted(source.rglob("*.py"))
        if path.name != "_validate.py"
        for hit in restated_choices(path.read_text(), str(path.relative_to(source)))
    ]
    assert restated == []


def test_near_misses_come_from_one_place():
    source = Path(_validate.__file__).parent
    users = [path.name for path in source.rglob("*.py") if "difflib" in path.read_text()]
    assert users == ["_validate.py"]


def test_a_name_that_is_not_printable_is_shown_on_one_line():
    with pytest.raises(PlanError) as caught:
        check_name("a\nb" + "c" * 500, ["size"], "a setting", error=PlanError)
    assert str(caught.value).startswith(r"`a\nbccc")
    assert len(str(caught.value)) < 200


class Secret:
    def __repr__(self):
        return "alice has a diagnosis"


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame({"text": ["a diagnosis"], "name": ["alice"]}),
        pd.Series(["alice"]),
        np.array(["alice"]),
        {"alice": 1},
        ["alice", "bob"],
        ("alice",),
        {"alice"},
        [["alice"]],
        [Secret()],
        Secret(),
        [0.25] * 5,
    ],
)
def test_rows_of_a_table_given_for_another_argument_stay_out_of_messages(value):
    """Messages end in logs, and may show no content."""
    for refused in (
        lambda: check_choice("x", value, ("a", "b"), error=ConfigError),
        lambda: check_integer("x", value, error=ConfigError),
        lambda: check_path("x", value, error=ConfigError),
        lambda: check_flag("x", value, error=ConfigError),
    ):
        said = says(refused)
        assert type(value).__name__ in said
        assert not any(word in said for word in ("alice", "bob", "diagnosis", "0.25"))


def test_what_a_user_writes_by_hand_is_shown():
    for value in (None, 7, -0.5, True, "entitty", b"x", Path("a/b"), (8, 0), [1.5], [], {}, int):
        assert shown(value) == repr(value)
