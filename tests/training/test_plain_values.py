"""Values that compute differently have different JSON; equal values have equal JSON anywhere."""

import copy
import functools
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from reldp.losses.infonce import InfoNCELoss
from reldp.training.plain_values import code_of, counts, digest_of, name_of, plain


def scaled(by):
    return lambda x: by * x


def with_default(x, by=2):
    return by * x


def with_other_default(x, by=3):
    return by * x


class Doubles:
    """A class that a test compares with others."""

    factor = 2

    def run(self, x):
        return self.factor * x


class Unlike(Doubles):
    """Another constant, the same code."""

    factor = 3


class Adds(Doubles):
    """Other code."""

    def run(self, x):
        return self.factor + x


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, True),
        (0.1, 0.1 + 1e-17 + 1e-16),
        ("a", "b"),
        (None, "None"),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (torch.float32, torch.float64),
        (torch.zeros(2), torch.zeros(3)),
        (np.zeros(2), np.zeros(2, np.float32)),
        (scaled(2), scaled(3)),
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: x.sin(), lambda x: x.cos()),
        (functools.partial(with_default, by=1), functools.partial(with_default, by=2)),
        (Doubles, Unlike),
        (Doubles, Adds),
        (Doubles(), Unlike()),
    ],
)
def test_different_values_are_told_apart(one, other):
    texts = [json.dumps(plain(value), sort_keys=True) for value in (one, one, other)]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_defaults_of_functions_count():
    one, other = plain(with_default), plain(with_other_default)
    assert one[1] != other[1]


def test_code_counts_and_its_place_in_the_source_does_not():
    def class_of(source):
        found = {}
        exec(source, found)
        return found["A"]

    same = "class A:\n    def f(self, x):\n        return x + 1\n"
    moved = "\n\n\n" + same
    other = same.replace("+ 1", "+ 2")
    assert code_of(class_of(same)) == code_of(class_of(moved))
    assert code_of(class_of(same)) != code_of(class_of(other))


def test_nested_and_decorated_functions_count():
    def outer(inner):
        @functools.wraps(inner)
        def wrapper(x):
            return inner(x)

        return wrapper

    assert plain(outer(lambda x: x + 1)) != plain(outer(lambda x: x + 2))
    assert plain(outer(lambda x: [y + 1 for y in x])) != plain(outer(lambda x: [y + 2 for y in x]))


def test_cycles_end():
    value = {"self": None}
    value["self"] = value
    json.dumps(plain(value))


def test_places_and_versions_do_not_count():
    assert plain({"name_or_path": "a", "transformers_version": "5"}) == {}
    assert counts("pooling")
    assert not counts("_attn_implementation")


def test_what_a_library_caches_on_a_class_does_not_count():
    """transformers does, when a model's attention implementation is switched."""

    class Model:
        factor = 2

    before = code_of(Model)
    Model._can_set_attn_implementation_cached_value = True
    assert code_of(Model) == before
    Model.factor = 3
    assert code_of(Model) != before


@pytest.mark.parametrize(
    "use",
    [copy.deepcopy, pickle.dumps, lambda value: type(value).__annotations__],
    ids=["copy", "pickle", "annotations"],
)  # fmt: skip
@pytest.mark.parametrize("kind", [Doubles, InfoNCELoss])
def test_what_python_adds_to_a_class_does_not_count(kind, use):
    """A copy of an object leaves the names of slots with its class, also where a run goes on without one."""
    for base in kind.__mro__[:-1]:
        if "__slotnames__" in vars(base):
            del base.__slotnames__
    before, held = code_of(kind), set(vars(kind))
    use(kind())
    assert code_of(kind) == before
    assert set(vars(kind)) >= held


def test_names_say_where_something_comes_from():
    assert name_of(Doubles) == f"{__name__}.Doubles"
    assert name_of(functools.partial(with_default)) == f"{__name__}.with_default"


def test_equal_values_are_equal_in_another_process():
    code = (
        "import torch; from reldp.training.plain_values import digest_of\n"
        "print(digest_of({'f': lambda x: x + 1, 's': {'a', 'b', 'c'}, 'c': torch.nn.Linear}).hex())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(found) == 1
    assert len(digest_of({"a": 1})) == 32
