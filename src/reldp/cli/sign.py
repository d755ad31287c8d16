"""``reldp sign``: signs a published bundle with an Ed25519 key."""

from pathlib import Path

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import json_option
from reldp.cli.output import print_json
from reldp.errors import ConfigError

__all__ = ["command"]

_MAIN = "Main options"


@click.command(
    cls=Command, examples=["reldp sign --make-key my-key", "reldp sign BUNDLE --key my-key"]
)
@click.argument("bundle", type=click.Path(path_type=Path), required=False)
@option(
    "--key",
    group=_MAIN,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ed25519 private key in PEM or OpenSSH format.",
)
@option(
    "--make-key",
    group=_MAIN,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Make a new key pair, FILE and FILE.pub, and exit. Keep FILE secret; give FILE.pub to readers.",
)
@option("--password", is_flag=True, group=_MAIN, help="Ask for the password of the private key.")
@json_option
def command(
    bundle: Path | None, key: Path | None, make_key: Path | None, password: bool, as_json: bool
) -> None:
    """Sign BUNDLE, a folder that reldp publish made, and write its signature.json.

    The signature covers every file of the bundle. Readers check it with reldp verify BUNDLE --key FILE.pub, and must
    get FILE.pub from a place that they trust. The bundle is verified first: exit code 3 means that this failed and
    that nothing was signed.
    """
    from reldp.reporting import signing

    if make_key is not None:
        if bundle is not None or key is not None:
            raise ConfigError("`make_key` must be given alone, got a bundle or --key as well.")
        public = signing.make_key(make_key)
        if as_json:
            print_json({"private_key": str(make_key), "public_key": str(public)})
        else:
            click.echo(f"private key  {make_key} (keep it secret)\npublic key   {public}")
        return
    if bundle is None or key is None:
        raise ConfigError("BUNDLE and `key` must be given. reldp sign --make-key FILE makes a key.")
    secret = click.prompt("Password", hide_input=True, err=True).encode() if password else None
    signer = signing.sign(bundle, key, password=secret)
    if as_json:
        print_json({"bundle": str(bundle), "public_key": signer})
        return
    click.echo(f"signed {bundle}\npublic key {signer}")
