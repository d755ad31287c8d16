"""The table of settings: every setting says what it is."""

import pytest

from reldp._validate import default_of
from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.errors import ConfigError
from reldp.training.recipe import Recipe
from reldp.training.recipe_settings import SECTIONS, refuse_outside


def test_every_setting_says_what_it_is_in_lines_that_fit():
    for settings in SECTIONS.values():
        for setting in settings.values():
            assert setting.about.endswith(".")
            assert all(len(line) <= 96 for line in setting.lines())


def test_defaults_of_encoders_are_those_of_the_encoders():
    section = SECTIONS["encoder"]
    of_features = ("hidden", "dim", "activation", "seed")
    for name in of_features:
        default = default_of(FeatureEncoder, name)
        assert section[name].default == (list(default) if name == "hidden" else default), name
    for name in set(section) - {"model", "hidden", "dim", "activation"}:
        assert section[name].default == default_of(TextEncoder.load, name), name


def test_every_choice_is_named_in_its_description():
    for settings in SECTIONS.values():
        for setting in settings.values():
            assert all(choice in " ".join(setting.lines()) for choice in setting.choices)
            assert (
                setting.default is None or not setting.choices or setting.default in setting.choices
            )


def test_every_kind_that_can_be_dropped_is_named():
    from reldp.graph.sources import DROPPABLE

    assert all(kind in SECTIONS["data"]["drop"].about for kind in DROPPABLE)


def test_a_setting_outside_of_its_section_is_told_where_it_belongs():
    with pytest.raises(
        ConfigError, match=r"got num_steps outside of one\. Write it below \[privacy\]\."
    ):
        Recipe.from_values({"num_steps": 4})
    for name in [*SECTIONS, "nothing"]:
        refuse_outside(name)
