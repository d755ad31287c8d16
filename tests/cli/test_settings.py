"""``--set`` takes TOML values and bare words, and refuses what names no setting."""

import pytest

from reldp.cli.settings import parsed_changes
from reldp.errors import ConfigError


def test_changes_are_added_to_what_is_given():
    given = {"learning": {"schedule": "linear"}}
    changed = parsed_changes(("learning.learning_rate=0.5", "data.drop=['x']", "a.b= word "), given)
    assert changed["learning"] == {"schedule": "linear", "learning_rate": 0.5}
    assert changed["data"] == {"drop": ["x"]}
    assert changed["a"] == {"b": "word"}


@pytest.mark.parametrize("change", ["x", "x=1", "learning.rate", "=", ""])
def test_what_names_no_setting_is_refused(change):
    with pytest.raises(ConfigError, match=r"must be section\.name=value"):
        parsed_changes((change,))


@pytest.mark.parametrize("value", ["{ " + "a." * 20 + "a = 1 }", "1\n" + "a." * 20 + "a = 1"])
def test_long_dotted_keys_are_refused_unparsed(value):
    with pytest.raises(ConfigError, match=r"`set` must be .*: keys must have at most 8 dots"):
        parsed_changes((f"learning.rate={value}",))
