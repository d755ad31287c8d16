import click
import pytest

from reldp.cli.commands import Command, Option, option
from reldp.cli.main import main


@click.command(cls=Command, examples=["tool --size 3 \\\n  --color red", "tool --json"])
@click.argument("place")
@option("--json", is_flag=True, help="Print JSON.")
@option("--size", group="Main options", help="Size in meters.")
@option("--color", group="Paint", help="Color.")
@option("--old", hidden=True, help="Never shown.")
@option("--width", group="Main options", help="Width in meters.")
def tool(**_):
    """Make something."""


def page(width=80):
    return tool.get_help(click.Context(tool, info_name="tool", terminal_width=width))


def test_options_stand_under_headings_and_the_rest_comes_last():
    lines = page().splitlines()
    headings = [line for line in lines if line.endswith(":")]
    assert headings == ["Main options:", "Paint:", "Other options:", "Examples:"]
    main = lines[lines.index("Main options:") + 1 : lines.index("Paint:") - 1]
    assert [line.split()[0] for line in main] == ["--size", "--width"]
    other = lines[lines.index("Other options:") + 1 : lines.index("Examples:") - 1]
    assert [line.split()[0] for line in other] == ["--json", "--help"]
    assert "--old" not in page()


def test_examples_are_never_wrapped():
    assert page(30).endswith("Examples:\n  tool --size 3 \\\n    --color red\n  tool --json")


def test_defaults_end_the_sentence():
    context = click.Context(tool)
    steps = Option(["--steps"], default=3, show_default=True, help="Number of steps.")
    assert steps.get_help_record(context)[1] == "Number of steps (default: 3)."
    graph = Option(["--graph"], required=True, help="Graph folder.")
    assert graph.get_help_record(context)[1] == "Graph folder (required)."


def test_an_option_has_a_group():
    assert Option(["--x"]).group == "Other options"
    assert Option(["--x"], group="Main options").group == "Main options"


@pytest.mark.parametrize(
    "words", [[""], ["here", "--size", ""], ["here", "--color="], ["--size=", "x"]]
)
def test_empty_words_are_refused(words):
    with pytest.raises(click.UsageError, match="must not be empty, got ''"):
        tool.main(words, standalone_mode=False)


def test_words_that_end_like_an_option_are_taken():
    tool.main(["place=", "--color", "--x", "--size=a="], standalone_mode=False)


@pytest.mark.parametrize("group", ["budget", "prepare"])
def test_a_group_without_a_command_shows_its_help_as_it_is(capsys, group):
    assert main([group]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith(f"Usage: reldp {group}")
    assert "\nCommands:\n" in shown.out
