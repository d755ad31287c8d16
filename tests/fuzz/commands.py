"""Targets that go by way of the command line: its numbers, its options, and damaged folders given to its commands.

`tests.fuzz.calls` says how a command must end.
"""

import json
import shutil
from pathlib import Path

import click

from reldp.training.recipe_settings import SECTIONS
from tests.fuzz import templates
from tests.fuzz.calls import Refused, call, commands
from tests.fuzz.damage import (
    COMPRESSIONS,
    NUMBERS,
    WORDS,
    damage_file,
    damaged,
    damaged_value,
    gentler,
    is_undamaged,
)
from tests.fuzz.soak_child import train_words
from tests.fuzz.targets import write_graph
from tests.graph.recipes.records import PAPERS, PRODUCTS_2014, PRODUCTS_2018


def _count(result):
    if not result[0]:
        raise Refused


def account(random, home: Path) -> None:
    """Numbers of a plan."""
    options = {**PLAN_OPTIONS, "--noise-multiplier": "1"}
    count = 0 if is_undamaged(random) else random.choice((1, 1, 2, 3))
    for name in random.sample(list(options), count):
        options[name] = random.choice(random.choice((NUMBERS, _PLAIN)))
    _count(call("account", *_words(options), "--accountant", random.choice(("rdp", "pld"))))


_NOT_FUZZED = {("demo",), ("prepare",), ("theory",)}
# They work for minutes when their options are right.
_ENDS_SOON = {
    ("train",): ["--dry-run"],
    ("budget", "search"): ["--dry-run"],
    ("audit",): ["--trials", "100"],
}
# What makes a command short.


def right_commands(home: Path) -> list:
    """Return commands that work, on copies of the templates in a folder; none of them takes half a second.

    An audit does: it has cases of its own.
    """
    for name in ("graph", "run", "run bundle", "run budget"):
        shutil.copytree(templates.PLACE / name, home / name)
    graph, run, budget = home / "graph", home / "run", home / "run budget"
    train = _train_words()
    search = [f"privacy.{name}={value}" for name, value in _SEARCHED.items()]
    return [
        (("evaluate",), (run, "--graph", graph, "--candidates", "8")),
        (("evaluate",), (run, "--graph", graph)),
        (("encode",), (run, "--graph", graph, "-o", home / "x.parquet")),
        (("inspect",), (graph, "--sizes", "public", "--target-epsilon", "9")),
        (("report",), (run,)),
        (("verify",), (run,)),
        (("publish",), (run, "-o", home / "new")),
        (("budget", "show"), (budget,)),
        (("budget", "limit"), (budget, "--limit", "1e6", "--delta", "0.1")),
        (("train",), (*train, "--dry-run")),
        (("calibrate",), ("--target-epsilon", "4", *_words(PLAN_OPTIONS))),
        (("account",), ("--noise-multiplier", "1", *_words(PLAN_OPTIONS))),
        (("budget", "search"), (
            graph, "--runs", "2", "--dry-run", *("--vary", "learning.learning_rate=[0.001,0.002]"),
            *("--budget", templates.PLACE / "half budget", "--set", "data.max_degree=4"),
            *("--set", "data.promise_degrees=true", "--set", "encoder.hidden=[5]"),
            *(word for change in search for word in ("--set", change)),
        )),
    ]  # fmt: skip


def _words(options: dict) -> list:
    return [word for pair in options.items() for word in pair]


PLAN_OPTIONS = {
    "--num-entities": "1e4", "--num-relations": "2e4", "--max-degree": "5", "--num-negatives": "4",
    "--sample-rate": "1e-3", "--num-steps": "2", "--delta": "1e-6",
}  # fmt: skip
_SEARCHED = {
    "sizes": "public", "noise_multiplier": 3.0, "num_negatives": 3, "delta": 1e-4, "num_steps": 20,
    "expected_batch_size": 20.0,
}  # fmt: skip


_PLAIN = ("1", "2", "3", "20", "0.1", "0.5", "1.5", "1e-3", "true", "false")


def _train_words() -> list:
    """The words of the training of the templates, on their graph and its budget, with a run that is not there."""
    words = train_words(templates.PLACE, "half")[1:]
    return [*words[: words.index("-o")], "-o", "new"]


def options(random, home: Path) -> None:
    """Any options of any command with any words, on folders that are right or not there."""
    paths = [p for p in commands() if p not in _NOT_FUZZED and p[0] != "prepare"]
    right = right_commands(home)
    places = [
        str(home / name) for name in ("graph", "run", "run bundle", "run budget", "new", "run/key")
    ]
    values = (*places, *NUMBERS, *WORDS)
    if is_undamaged(gentler(random, 0.3)):
        path, words = random.choice(right)
        words, share = list(words), 0.0 if is_undamaged(random) else 0.1
    else:
        path, words, share = random.choice(paths), [], 0.25
    for parameter in commands()[path].params:
        if isinstance(parameter, click.Argument):
            if share == 0.25:
                words += [random.choice(places if random.random() < 0.8 else values)]
        elif parameter.name == "password":  # it asks
            continue
        elif (parameter.required and share == 0.25) or random.random() < share:
            value = [] if getattr(parameter, "is_flag", False) else [random.choice(values)]
            words += [random.choice(parameter.opts), *value]
    if not {"--config"} & set(words):
        _count(call(*path, *words, *_ENDS_SOON.get(path, ()), codes=(0, 2, 3)))


def one_option(random, home: Path) -> None:
    """A command that would work, with one option that may not: its other words hide nothing."""
    path, words = random.choice(right_commands(home))
    named = [
        p for p in commands()[path].params if not isinstance(p, click.Argument) and not p.is_flag
    ]
    option = random.choice([p for p in named if p.name != "password"] or [None])
    value = random.choice((*NUMBERS, *WORDS))
    unchanged = option is None or is_undamaged(random)
    more = () if unchanged else (f"{option.opts[-1]}={value}",)
    _count(call(*path, *words, *more, codes=(0, 2, 3)))


def settings(random, home: Path) -> None:
    """Settings of a training on a small graph, as far as a dry run goes."""
    words = _train_words()
    for _ in range(0 if is_undamaged(random) else random.choice((1, 1, 2, 3))):
        section = random.choice(list(SECTIONS))
        name = random.choice(list(SECTIONS[section]))
        odd = (*NUMBERS, *WORDS, "[]", "{}", "[1]", "{a = 1}", "true", '"a"', "[[[[]]]]")
        value = random.choice(random.choice((odd, _PLAIN)))
        words += ["--set", f"{section}.{name}={value}"]
    _count(call("train", *words, "--dry-run"))


def audit(random, home: Path) -> None:
    """Numbers of an audit, none of which asks for a long one."""
    words = ["--plan", templates.PLACE / "run" / "plan.json", "--trials", "100"]
    if not is_undamaged(random):
        named = [p for p in commands()["audit",].params if isinstance(p, click.Option)]
        name = random.choice([p.opts[0] for p in named if not p.is_flag])
        long = ("1e6", "1_000", "1e15", "2147483648", "9007199254740993", "18446744073709551616")
        odd = [n for n in NUMBERS if n not in long or name == "--seed"]
        words += [name, random.choice(random.choice((odd, ("0.5", "0.9", "1", "2", "100"))))]
    _count(call("audit", *words, codes=(0, 2, 3)))


def inspected(random, home: Path) -> None:
    """A damaged graph given to inspect."""
    write_graph(random, home)
    _count(call("inspect", home, "--no-plan", *random.choice(([], ["--json"], ["--show-ids"]))))


def prepared(random, home: Path) -> None:
    """A damaged file of products or papers given to prepare, which writes a graph or nothing at all."""
    kind, ending = random.choice(("amazon", "mag")), random.choice(("", *COMPRESSIONS))
    rows = [*(PRODUCTS_2018 if kind == "amazon" else PAPERS)]
    rows = [damaged_value(random, row) if random.random() < 0.2 else row for row in rows]
    lines = [random.choice((json.dumps, repr))(row) for row in rows]
    lines += PRODUCTS_2014 if kind == "amazon" else ()
    data = "\n".join(lines).encode(errors="replace")
    data = damaged(random, data) if random.random() < 0.8 else data
    data = COMPRESSIONS[ending](data)
    source = home / f"source.json{ending}"
    source.write_bytes(damaged(random, data) if random.random() < 0.2 else data)
    value = random.choice(
        (*WORDS, "sports", "cloth", "USA", "China", "also_view", "any", "all", "3")
    )
    options = [p for p in commands()["prepare", kind].params if isinstance(p, click.Option)]
    option = random.choice([p.opts[0] for p in options if not p.is_flag and p.name != "output"])
    more = [] if is_undamaged(random) or random.random() < 0.5 else [option, value]
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
    right = [
        ["verify", run], ["verify", run], ["verify", run, "--json"], ["report", run],
        ["publish", run, "-o", home / "new"],
        ["evaluate", run, "--graph", templates.PLACE / "graph", "--candidates", "8"],
    ]  # fmt: skip
    own = [["sign", run, "--key", home / "key"]] if name == "run bundle" else [["finish", run]]
    refused = [] if is_undamaged(random) else [["abandon", run]]
    words = random.choice([*right, *own, *refused])
    if words[0] == "sign":
        call("sign", "--make-key", home / "key")
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
    templates.copy_run("half", run)
    files = sorted(p for p in run.rglob("*") if p.is_file())
    damage_file(random, random.choice(files))
    if random.random() < 0.1:
        words = train_words(home, "half")
        _count(call(words[0], templates.PLACE / "graph", *words[2:]))
    else:
        right = ("finish", "abandon")
        command = random.choice(right if is_undamaged(random) else (*right, "verify", "report"))
        more = ["--decided-by", "time"] if command == "finish" else []
        _count(call(command, run, *more, codes=(0, 2, 3)))


def plan_file(random, home: Path) -> None:
    """A damaged plan given to a short audit."""
    plan = home / "plan.json"
    text = (templates.PLACE / "run" / "plan.json").read_text()
    if random.random() < 0.5:
        text = json.dumps(damaged_value(random, json.loads(text)))
    plan.write_bytes(damaged(gentler(random, 0.6), text.encode()))
    _count(call("audit", "--plan", plan, "--trials", "100", codes=(0, 2, 3)))
