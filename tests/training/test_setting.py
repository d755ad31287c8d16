"""One setting of a recipe: values of another kind are refused."""

import pytest

from reldp.errors import ConfigError
from reldp.training.setting import Setting


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("text", "a", 1),
        ("whole number", 3, 3.0),
        ("whole number", 3, True),
        ("number", 3, "3"),
        ("number", 0.5, False),
        ("true or false", False, 0),
        ("list", [1], "1"),
        ("list or text", "all-linear", 1),
        ("table", {"a": 1}, [1]),
    ],
)
def test_a_value_of_another_kind_is_refused(kind, good, bad):
    setting = Setting(kind, "")
    setting.check("name", good)
    with pytest.raises(ConfigError, match=f"`name` must be (a )?{kind}, got"):
        setting.check("name", bad)
