"""Pins the names that the world sees."""

import importlib
import inspect
import re

import pytest

import reldp

PUBLIC = [
    "CappedGraph",
    "Certificate",
    "EntityGraph",
    "FeatureEncoder",
    "ModuleEncoder",
    "PrivacyPlan",
    "PrivateStep",
    "ReldpError",
    "TextEncoder",
    "Trainer",
    "__version__",
    "audit",
    "evaluate",
    "verify",
]


def test_the_public_names_are_these():
    assert reldp.__all__ == PUBLIC


def test_there_are_at_most_fifteen():
    assert len(PUBLIC) == len(set(PUBLIC)) <= 15


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_imported(name):
    value = getattr(importlib.import_module("reldp"), name)
    if name == "__version__":
        assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", value)
    else:
        assert inspect.getdoc(value)


def test_star_import_gives_the_public_names_and_nothing_else():
    names = {}
    exec("from reldp import *", names)
    assert set(names) - {"__builtins__"} == set(PUBLIC)


def test_dir_shows_the_public_names():
    assert dir(reldp) == sorted(PUBLIC)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Trainr"):
        _ = reldp.Trainr
