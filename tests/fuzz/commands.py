"""Targets that go by way of the command line: its numbers, its options, and damaged folders given to its commands.

A command must end with a documented exit code and, unless it is well, one line per complaint that starts with
``reldp:`` and names only options that exist.
"""

import bz2
import gzip
import io
import json
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import click

from reldp.cli.main import COMMANDS, main
from tests.fuzz import templates
from tests.fuzz.damage import NUMBERS, WORDS, damage_file, damaged, damaged_value
from tests.fuzz.soak_child import train_words
from tests.fuzz.targets import write_graph
from tests.graph.recipes.records import PAPERS, PRODUCTS_2014, PRODUCTS_2018

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def call(*words, codes=(0, 2)):
    """Run a command in this process.

    Returns:
        Whether it was well, and what it printed.

    Raises:
        AssertionError: It ended with another code, or complained in a way that nobody understands.
    """
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = main([str(word) for word in words])
    said = errors.getvalue()
    problem = ""
    if code not in codes:
        problem = "exit code"
    elif code and not said.strip():
        problem = "no words"
    elif any(line and not line.startswith("reldp: ") for line in said.split("\n")):
        problem = "more than lines of reldp"
    else:
        typed = {part for word in words for part in OPTION.findall(str(word))}
        named = set(OPTION.findall(QUOTED.sub(" ", said))) - _options() - typed
        problem = f"no such option {sorted(named)}" if code and named else ""
    if problem:
        raise AssertionError(f"{problem}: {code} of {list(words)}: {said[-600:]!r}")
    return code == 0, out.getvalue()


@lru_cache
def _commands():
    """Every command and part of one, with its options."""
    found = {}
    for name in COMMANDS:
        whole = import_module(f"reldp.cli.{name}").command
        found[name,] = whole
        for part, command in getattr(whole, "commands", {}).items():
            found[name, part] = command
    return found


@lru_cache
def _options():
    parameters = [p for command in _commands().values() for p in command.params]
    names = [
        n
        for p in parameters
        if not getattr(p, "hidden", False)
        for n in (*p.opts, *p.secondary_opts)
    ]
    return {*names, "--help", "--version"}


class Refused(Exception):
    """A command complained as it should."""


def _count(result):
    if not result[0]:
        raise Refused


def account(random, home: Path) -> None:
    """Numbers of a plan."""
    options = {
        "--num-entities": "1e4", "--num-relations": "2e4", "--max-degree": "5", "--num-negatives": "4",
        "--sample-rate": "1e-3", "--noise-multiplier": "1", "--num-steps": "2", "--delta": "1e-6",
    }  # fmt: skip
    for name in random.sample(list(options), random.randint(1, 3)):
        options[name] = random.choice(NUMBERS)
    words = [word for pair in options.items() for word in pair]
    _count(call("account", *words, "--accountant", random.choice(("rdp", "pld"))))


_NOT_FUZZED = {
    ("demo",),
    ("budget", "search"),
    ("prepare",),
    ("train",),
    ("audit",),
    ("calibrate",),
    ("theory",),
}
# They work for minutes when their options are right; `settings` and `audit` have cases of their own.


def options(random, home: Path) -> None:
    """Any options of any command with any words, on folders that are right or not there."""
    path = random.choice([p for p in _commands() if p not in _NOT_FUZZED and p[0] != "prepare"])
    command = _commands()[path]
    for name in ("graph", "run", "run bundle", "run budget"):
        shutil.copytree(templates.PLACE / name, home / name)
    places = [
        str(home / name) for name in ("graph", "run", "run bundle", "run budget", "new", "run/key")
    ]
    values = (*places, *NUMBERS, *WORDS)
    words = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            words += [random.choice(places if random.random() < 0.8 else values)]
        elif parameter.name == "password":  # it asks
            continue
        elif getattr(parameter, "required", False) or random.random() < 0.25:
            value = [] if getattr(parameter, "is_flag", False) else [random.choice(values)]
            words += [random.choice(parameter.opts), *value]
    if not {"--config"} & set(words):
        _count(call(*path, *words, codes=(0, 2, 3)))


def one_option(random, home: Path) -> None:
    """A command that would work, with one option that may not: its other words hide nothing."""
    for name in ("graph", "run", "run budget"):
        shutil.copytree(templates.PLACE / name, home / name)
    graph, run, budget = home / "graph", home / "run", home / "run budget"
    path, words = random.choice((
        (("evaluate",), (run, "--graph", graph, "--candidates", "8")),
        (("evaluate",), (run, "--graph", graph)),
        (("encode",), (run, "--graph", graph, "-o", home / "x.parquet")),
        (("inspect",), (graph, "--sizes", "public", "--target-epsilon", "9")),
        (("report",), (run,)),
        (("verify",), (run,)),
        (("publish",), (run, "-o", home / "new")),
        (("budget", "show"), (budget,)),
        (("budget", "limit"), (budget, "--limit", "1e6", "--delta", "0.1")),
    ))  # fmt: skip
    named = [
        p for p in _commands()[path].params if not isinstance(p, click.Argument) and not p.is_flag
    ]
    option = random.choice([p for p in named if p.name != "password"] or [None])
    value = random.choice((*NUMBERS, *WORDS))
    more = () if option is None else (f"{option.opts[-1]}={value}",)
    _count(call(*path, *words, *more, codes=(0, 2, 3)))


def settings(random, home: Path) -> None:
    """Settings of a training on a small graph, as far as a dry run goes."""
    from reldp.training.recipe_settings import SECTIONS

    words = ["--noise-multiplier", "3", "--num-steps", "20", "--expected-batch-size", "5"]
    for _ in range(random.randint(1, 3)):
        section = random.choice(list(SECTIONS))
        name = random.choice(list(SECTIONS[section]))
        value = random.choice(
            (*NUMBERS, *WORDS, "[]", "{}", "[1]", "{a = 1}", "true", '"a"', "[[[[]]]]")
        )
        words += ["--set", f"{section}.{name}={value}"]
    if any("unit" in word or "device=cuda" in word for word in words):
        words += ["--delta", "1e-4"]
    folder = templates.PLACE / "graph"
    _count(call("train", folder, "--sizes", "public", *words, "--dry-run"))


def audit(random, home: Path) -> None:
    """Numbers of an audit, none of which asks for a long one."""
    plan = templates.PLACE / "run" / "plan.json"
    name = random.choice(
        ("--trials", "--steps-per-trial", "--at-delta", "--confidence", "--canaries")
    )
    long = ("1e6", "1_000", "1e15", "2147483648")
    value = random.choice([n for n in NUMBERS if n not in long])
    _count(call("audit", "--plan", plan, "--trials", "2", name, value, codes=(0, 2, 3)))


def inspected(random, home: Path) -> None:
    """A damaged graph given to inspect."""
    write_graph(random, home)
    _count(call("inspect", home, "--no-plan", *random.choice(([], ["--json"], ["--show-ids"]))))


def prepared(random, home: Path) -> None:
    """A damaged file of products or papers given to prepare, which writes a graph or nothing at all."""
    kind, ending = random.choice(("amazon", "mag")), random.choice(("", "", ".gz", ".bz2"))
    rows = [*(PRODUCTS_2018 if kind == "amazon" else PAPERS)]
    rows = [damaged_value(random, row) if random.random() < 0.2 else row for row in rows]
    lines = [random.choice((json.dumps, repr))(row) for row in rows]
    lines += PRODUCTS_2014 if kind == "amazon" else ()
    data = "\n".join(lines).encode(errors="replace")
    data = damaged(random, data) if random.random() < 0.8 else data
    data = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[ending](data)
    source = home / f"source.json{ending}"
    source.write_bytes(damaged(random, data) if random.random() < 0.2 else data)
    value = random.choice(
        (*WORDS, "sports", "cloth", "USA", "China", "also_view", "any", "all", "3")
    )
    options = [p for p in _commands()["prepare", kind].params if isinstance(p, click.Option)]
    option = random.choice([p.opts[0] for p in options if not p.is_flag and p.name != "output"])
    more = [option, value] if random.random() < 0.5 else []
    well, _ = call("prepare", kind, source, "-o", home / "new", *more)
    left = sorted(path.name for path in home.iterdir() if path != source)
    if left != (["new"] if well else []):
        raise AssertionError(f"prepare left {left}")
    _count((well, ""))


def run_folder(random, home: Path) -> None:
    """A complete run or its bundle, damaged, given to the commands that read one."""
    name = random.choice(("run", "run", "run bundle"))
    run = home / "run"
    shutil.copytree(templates.PLACE / name, run)
    files = sorted(p for p in run.rglob("*") if p.is_file())
    before = {p: p.read_bytes() for p in files}
    for path in random.sample(files, random.choice((1, 1, 2))):
        damage_file(random, path)
    changed = {
        p.name
        for p, data in before.items()
        if not p.is_file() or p.is_symlink() or p.read_bytes() != data
    }
    words = random.choice((
        ["verify", run], ["verify", run], ["verify", run, "--json"], ["report", run],
        ["publish", run, "-o", home / "new"], ["finish", run], ["abandon", run],
        ["evaluate", run, "--graph", templates.PLACE / "graph", "--candidates", "8"],
        ["sign", run, "--key", home / "key"],
    ))  # fmt: skip
    well, _ = call(*words, codes=(0, 2, 3))
    checked = {
        "plan.json",
        "ledger.jsonl",
        "certificate.json",
        "certificate.md",
        "model.safetensors",
        "encoder.json",
    }
    if well and words[0] in ("verify", "publish") and changed & checked:
        raise AssertionError(f"{words[0]} takes a run whose {sorted(changed & checked)} changed")
    _count((well, ""))


def half_run(random, home: Path) -> None:
    """A run that was stopped, damaged, then ended or abandoned; now and then resumed."""
    run = home / "half"
    shutil.copytree(templates.PLACE / "half", run)
    files = sorted(p for p in run.rglob("*") if p.is_file())
    damage_file(random, random.choice(files))
    if random.random() < 0.1:
        (home / "half budget").mkdir()
        shutil.copy(templates.PLACE / "half budget" / "budget.jsonl", home / "half budget")
        words = train_words(home, "half")
        _count(call(words[0], templates.PLACE / "graph", *words[2:]))
    else:
        command = random.choice(("finish", "abandon", "verify", "report"))
        _count(call(command, run, codes=(0, 2, 3)))


def plan_file(random, home: Path) -> None:
    """A damaged plan given to an audit, which is refused for its number of trials at the latest."""
    plan = home / "plan.json"
    plan.write_bytes(damaged(random, (templates.PLACE / "run" / "plan.json").read_bytes()))
    _count(call("audit", "--plan", plan, "--trials", "2"))
