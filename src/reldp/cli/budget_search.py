"""``reldp budget search``: makes a search for settings, and releases its best run and nothing else."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import Integer, Number, Word, json_option, show_ids_option
from reldp.cli.output import print_json, round_up, say, shell_word
from reldp.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reldp.accounting.search import SearchSize
    from reldp.plan import PrivacyPlan
    from reldp.training.recipe import Recipe

__all__ = ["search"]

_MAIN = "Main options"


@click.command(
    "search",
    cls=Command,
    examples=[
        "reldp budget search GRAPH --mean 10 --eval-graph wordnet-verbs --set privacy.target_epsilon=2 \\\n"
        "    --vary learning.learning_rate=[0.001,0.002,0.005] -o SEARCH",
        "reldp budget search GRAPH --runs 4 --config recipe.toml --vary encoder.lora_rank=[4,8] --dry-run",
    ],
)
@click.argument("graph")
@option("--mean", type=Number(), group=_MAIN, metavar="N", help="Expected number of runs, above 1.")
@option(
    "--runs",
    type=Integer(),
    group=_MAIN,
    metavar="N",
    help="Fixed number of runs instead, whose epsilons are composed.",
)
@option(
    "--distribution",
    type=Word(("logarithmic", "geometric")),
    default="logarithmic",
    show_default=True,
    group=_MAIN,
    help="Distribution of the number of runs; logarithmic costs less, geometric has fewer very long searches.",
)
@option(
    "--vary",
    multiple=True,
    group=_MAIN,
    metavar="SECTION.NAME=LIST",
    help="Values of a setting of [learning] or [encoder] to draw from, as a TOML list; may be repeated.",
)
@option(
    "--eval-graph",
    group=_MAIN,
    metavar="GRAPH",
    help="Public graph by which the best run is chosen.",
)
@option(
    "-o",
    "--output",
    group=_MAIN,
    type=click.Path(path_type=Path),
    metavar="SEARCH",
    help="Folder of the search; the same command goes on with it. The released run is SEARCH/best.",
)
@option(
    "--config",
    group=_MAIN,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Recipe with the settings that all runs have in common, as for reldp train.",
)
@option(
    "--set",
    "changes",
    multiple=True,
    metavar="SECTION.NAME=VALUE",
    help="Set any setting of the recipe; may be repeated.",
)
@option(
    "--budget",
    group=_MAIN,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder of the budget, for a graph without one (default: the graph's).",
)
@option(
    "--dry-run",
    is_flag=True,
    group=_MAIN,
    help="Show the epsilon of the search and how many runs it may have; enter nothing.",
)
@show_ids_option
@json_option
def search(
    graph: str,
    mean: float | None,
    runs: int | None,
    distribution: str,
    vary: tuple[str, ...],
    eval_graph: str | None,
    output: Path | None,
    config: Path | None,
    changes: tuple[str, ...],
    budget: Path | None,
    dry_run: bool,
    show_ids: bool,
    as_json: bool,
) -> None:
    """Search for settings on the private relations of GRAPH, and release the best run and nothing else.

    With --mean, the number of runs is drawn secretly, and the epsilon of the released run is that of the search
    (theory.md 3.5): less than that of many runs, more than that of one. The search is entered in the budget of the
    graph before its first run. All runs are made by this command; nothing is shown about those that lose, not even
    their number, which you must not publish either. A search that is not carried out to its end releases nothing, and
    stays spent. With --runs, the number is known, and epsilon is that of all runs composed.
    """
    from reldp.accounting.search import SearchSize
    from reldp.training.searching import Search, candidates

    size = SearchSize(mean=mean, distribution=distribution, runs=runs)
    settings = candidates(_varied(vary))
    common = _common(graph, eval_graph, changes)
    recipe = _recipe(config, common, {})
    if dry_run:
        _show(_plan(recipe, budget, show_ids), size, as_json)
        return
    if output is None:
        raise ConfigError("`output` must be given for a search, got none. Use -o SEARCH.")

    def make(candidate: "Mapping[str, Any]") -> Any:
        recipe = _recipe(config, common, candidate)
        return recipe.trainer(show_ids=show_ids, resumed=made.is_complete, budget=budget)

    from reldp.runs.certificate import Certificate
    from reldp.runs.plain_files import read_plain
    from reldp.runs.release_entry import named_budget
    from reldp.runs.run_folder import RunFolder

    made = Search(output, size, settings, make, budget=budget)
    if made.is_complete:
        click.echo(f"reldp: the search in {output} is complete: nothing was left to do.", err=True)
    elif not output.exists():
        _refuse_early(recipe, budget, show_ids)
    with named_budget(budget):
        best = made.run()
    certificate = Certificate.from_json(read_plain(RunFolder(best).certificate, limit=2**24))
    if as_json:
        print_json(
            {
                "epsilon": certificate.epsilon,
                "delta": certificate.delta,
                "given": certificate.given,
                **_basis(size, certificate.values["plan"]["sizes"]),
                "folder": str(best),
            }
        )
        return
    say(certificate.summary)
    _note_sizes(certificate.values["plan"]["sizes"])
    click.echo(f"\nrun          {best}\n\nCheck it: reldp verify {shell_word(best)}")


def _varied(vary: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return the values of every setting that varies."""
    from reldp.training.toml_text import UnsafeToml, parse_toml

    varied: dict[str, list[Any]] = {}
    for text in vary:
        name, equals, values = text.partition("=")
        try:
            parsed = parse_toml(f"values = {values}")["values"]
        except UnsafeToml as error:
            raise ConfigError(f"`vary` must be section.name=[values]: {error}.") from None
        except (ValueError, RecursionError):
            parsed = None
        if not equals or not isinstance(parsed, list):
            raise ConfigError(f"`vary` must be section.name=[values], got {text[:80]!r}.")
        varied[name.strip()] = parsed
    return varied


def _common(
    graph: str, eval_graph: str | None, changes: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Return the settings of all runs that options give; runs print nothing, so that no log shows their number."""
    from reldp.cli.settings import parsed_changes

    given = parsed_changes(changes)
    given.setdefault("data", {})["graph"] = graph
    if eval_graph is not None:
        given["data"]["eval_graph"] = eval_graph
    given.setdefault("logging", {})["progress"] = False
    return given


def _recipe(
    config: Path | None,
    common: "Mapping[str, Mapping[str, Any]]",
    candidate: "Mapping[str, Mapping[str, Any]]",
) -> "Recipe":
    from reldp.training.recipe import Recipe

    given = {
        name: {**common.get(name, {}), **candidate.get(name, {})}
        for name in {**common, **candidate}
    }
    return Recipe.from_values(given) if config is None else Recipe.read(config, given)


def _refuse_early(recipe: "Recipe", budget: Path | None, show_ids: bool) -> None:
    """Refuse a search that cannot start before private sizes are released for it."""
    from reldp.training.searching import require_eval_graph, required_budget

    require_eval_graph(recipe.values["data"]["eval_graph"])
    required_budget(recipe.capped(show_ids=show_ids), budget)


def _plan(recipe: "Recipe", budget: Path | None, show_ids: bool) -> "PrivacyPlan":
    """Return the plan of every run, if it needs no release of sizes and the graph has a budget."""
    from reldp.cli.dry_run import refuse_release
    from reldp.training.searching import required_budget

    capped, holdout = recipe._parts(show_ids)
    required_budget(capped, budget)
    recipe._selection(capped, holdout, show_ids)  # refuses what the search would refuse
    refuse_release(recipe, capped, declared="--set privacy.sizes=declared")
    return recipe.plan(capped, recipe.pool(show_ids))


def _basis(size: "SearchSize", sizes: str) -> dict[str, Any]:
    """Return what the epsilon of a search rests on: how it is computed, and what it is conditional on."""
    from reldp.runs.wording import SEARCH_METHOD

    is_drawn = size.runs is None
    return {
        "status": "computed" if is_drawn else "proven",
        "method": SEARCH_METHOD if is_drawn else "privacy-loss distributions of all runs composed",
        "holds_given": "the released bounds on sizes" if sizes == "private" else None,
    }


def _note_sizes(sizes: str) -> None:
    """Print the condition of an epsilon of a search with private sizes."""
    if sizes == "private":
        click.echo("sizes        epsilon holds given the released bounds (theory.md 2.4)")


def _show(plan: "PrivacyPlan", size: "SearchSize", as_json: bool) -> None:
    """Print what a search would cost, and how many runs it may have."""
    from reldp.accounting.search import SearchSize
    from reldp.runs.budget_cost import search_epsilon

    count = size.runs if size.runs is not None else round(size.mean or 1)
    fields: dict[str, Any] = {
        "epsilon": search_epsilon(plan, size, plan.delta),
        "one_run": plan.epsilon(),
        "composition": search_epsilon(plan, SearchSize(runs=count), plan.delta),
        "delta": plan.delta,
        **_basis(size, plan.sizes),
        "runs": {"half": size.quantile(0.5), "99 %": size.quantile(0.99)},
    }
    if as_json:
        print_json(fields)
        return
    click.echo(
        f"search       epsilon {round_up(fields['epsilon'])} at delta {round_up(plan.delta)}"
    )
    click.echo(f"status       {fields['status']} ({fields['method']})")
    click.echo(f"one run      epsilon {round_up(fields['one_run'])}")
    is_less = size.runs is None and fields["composition"] < fields["epsilon"]
    hint = f", which is less: --runs {count}" if is_less else ""
    click.echo(f"{count:,} known runs  epsilon {round_up(fields['composition'])}, composed{hint}")
    _note_sizes(plan.sizes)
    if size.runs is None:
        click.echo(
            f"runs         at most {fields['runs']['half']:,} in half of all searches, and {fields['runs']['99 %']:,} "
            "in 99 of 100; all of them must be made"
        )
