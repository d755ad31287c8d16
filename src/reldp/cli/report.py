"""``reldp report``: HTML pages about a run, which is verified first."""

from pathlib import Path

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import json_option
from reldp.cli.output import print_json
from reldp.cli.progress import show_progress

__all__ = ["command"]


@click.command(cls=Command, examples=["reldp report RUN --public"])
@click.argument("run", type=click.Path(path_type=Path))
@option(
    "--public",
    is_flag=True,
    group="Main options",
    help="Omit sensitive values (training curves and evaluations), so that the page may be published.",
)
@json_option
def command(run: Path, public: bool, as_json: bool) -> None:
    """Write report.html and certificate.html into RUN.

    The report shows what an attacker could do, who is protected how well, evaluations and training curves, audits,
    assumptions, and how to verify all of it; that of a published bundle has nothing sensitive. certificate.html is the
    certificate on one page, with places to sign. The run is verified first. Exit code 3 means that verification failed
    and no page was written.
    """
    from reldp.reporting.publishing import write_report
    from reldp.runs.run_folder import RunFolder

    public = public or RunFolder(run).is_bundle  # nothing sensitive goes into what was published
    with show_progress(is_sensitive=False):
        page = write_report(run, public=public)
    if as_json:
        print_json(
            {"report": str(page), "form": str(RunFolder(run).certificate_form), "public": public}
        )
        return
    click.echo(f"wrote {page}")
    click.echo(f"wrote {RunFolder(run).certificate_form}")
