"""``--drop`` has one help text, that of the recipe."""

import click

from reldp.cli.graph_options import drop_option


def test_the_option_may_be_repeated():
    @click.command()
    @drop_option
    def command(drop):
        click.echo(" ".join(drop))

    from click.testing import CliRunner

    shown = CliRunner().invoke(command, ["--drop", "a", "--drop", "b"])
    assert shown.output == "a b\n"
    assert "may be repeated" in CliRunner().invoke(command, ["--help"]).output
