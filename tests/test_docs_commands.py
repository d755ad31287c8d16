"""Shell blocks of pages run, and pages name no command, option, setting, file or Python name that does not exist."""

import gzip
import importlib
import json
import re
import shlex
import shutil
import signal
from pathlib import Path

import click
import numpy as np
import pytest

from reldp.cli.main import COMMANDS, main
from reldp.graph import EntityGraph
from tests.cli import test_exit_codes, train_flags
from tests.encoders.tiny import write_model
from tests.training.small import small_graph

REPOSITORY = Path(__file__).parents[1]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")])
HISTORY = {"CHANGELOG.md", "migrating.md", "language.md"}  # name things that are gone
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?^(?P<ticks>```+)(?P<language>\w*)\n(?P<text>.*?)^(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)
REASONS = {
    "cluster",
    "installs packages",
    "minutes",
    "hours on a GPU",
    "needs a run that was stopped",
    "needs files that are not bundled",
    "downloads from Debian's archive",
}
SMALL = {
    "train": "--num-steps 2 --expected-batch-size 8 --num-negatives 2 --quiet",
    "evaluate": "--candidates 16",
}
"""What is added to commands so that they take little time."""


def blocks(page, language="sh"):
    """(text, reason not to run it or None) of the blocks of a page in one language."""
    found = FENCE.finditer(page.read_text(encoding="utf-8"))
    return [(m["text"], m["reason"]) for m in found if m["language"] == language]


def command_lines(text):
    """Commands of a block as lists of words: continued lines are joined, comments dropped."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


RUNNABLE = [
    page
    for page in PAGES
    if page.name != "README.md"  # tests/test_readme.py runs its commands
    and any(reason is None for _, reason in blocks(page))
]


def test_pages_have_blocks_that_run_and_say_why_others_do_not():
    assert len(RUNNABLE) >= 14
    reasons = {reason for page in PAGES for _, reason in blocks(page)} - {None}
    assert reasons <= REASONS
    unnamed = [page.name for page in PAGES if blocks(page, "")]
    assert unnamed == [], "a block without a language would not be looked at"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with what pages assume: graphs, a model, a run, a key; all of it small."""
    home = tmp_path_factory.mktemp("pages")
    write_model("bert", home / "my-model")
    generator = np.random.default_rng(0)
    features = generator.normal(size=(2_000, 4)).astype(np.float32)
    ring = [(i, (i + 1) % 2_000) for i in range(2_000)]
    texts = [f"the {i % 7} cat sees {i % 5} dog" for i in range(2_000)]
    graphs = {
        "my-graph": EntityGraph.from_lists(range(2_000), ring, features=features, text=texts),
        "my-test-graph": EntityGraph.from_lists(range(600), ring[:500], features=features[:600]),
        "my-public-graph": EntityGraph.from_lists(
            range(5_000, 5_600),
            [(5_000 + a, 5_000 + b) for a, b in ring[:500]],
            features=features[:600],
        ),
        "my-shop": EntityGraph.from_lists(
            range(2_000), ring, features=features, protected=[i % 2 == 0 for i in range(2_000)]
        ),
        "wordnet-nouns": EntityGraph.from_lists(range(2_000), ring, text=texts),
        "wordnet-verbs": EntityGraph.from_lists(range(600), ring[:500], text=texts[:600]),
    }
    for name, graph in graphs.items():
        graph.write(home / name)
    shutil.copytree(home / "my-model", home / "sentence-transformers" / "all-MiniLM-L6-v2")
    (home / "shop").mkdir()
    frames = graphs["my-graph"].to_pandas()
    frames[0][["id", "text"]].to_csv(home / "shop" / "entities.csv", index=False)
    frames[1].to_csv(home / "shop" / "relations.csv", index=False)
    line = {"q_text": "a", "k_text": "b", "q_asin": "1", "k_asin": "2"}
    (home / "train.jsonl").write_text(json.dumps(line) + "\n")
    with gzip.open(home / "more.jsonl.gz", "wt") as file:
        file.write(json.dumps({**line, "k_text": "c", "k_asin": "3"}) + "\n")
    return home


def adapted(words, folder):
    """Words of a command, with small settings, and with the head of the ledger where a page shows the start of one."""
    if "..." in " ".join(words):
        last = (folder / "my-bundle" / "ledger.jsonl").read_text().splitlines()[-1]
        words = [json.loads(last)["hash"] if word.endswith("...") else word for word in words]
    if "--before" in words:  # the ledger names a model without its folder
        words = [*words, "--base-model", "my-model"]
    if "--print-config" in words or words[1] not in SMALL:
        return words
    return [*words, *SMALL[words[1]].split()]


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_shell_blocks_run(page, prepared, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    for name in NEEDED.get(page.name, ()):
        assert main(adapted(["reldp", *TRAINED.split(), name], folder)[1:]) == 0
    capsys.readouterr()
    main(["train", "--print-config"])
    recipe = capsys.readouterr().out.replace("# target_epsilon =", "target_epsilon =")
    (folder / "recipe.toml").write_text(recipe)
    for text, reason in blocks(page):
        for words in command_lines(text) if reason is None else ():
            assert words[0] == "reldp", words
            target = None
            if ">" in words:
                target, words = words[-1], words[: words.index(">")]
            capsys.readouterr()
            code = main(adapted(words, folder)[1:])
            printed = capsys.readouterr()
            assert code == 0, f"{shlex.join(words)}: {printed.err}"
            if target is not None:
                Path(target).write_text(printed.out)


TRAINED = "train my-graph --target-epsilon 4 -o"
NEEDED = {"certificate.md": ["run"], "cli.md": ["RUN", "my-run"]}
"""Runs that a page takes for granted."""


def command_of(words):
    """The click command that some words after `reldp` call, and the words after its name; None for a placeholder."""
    if not words or words[0] not in COMMANDS:
        return None, words
    command, rest = importlib.import_module(f"reldp.cli.{words[0]}").command, words[1:]
    if isinstance(command, click.Group) and rest and rest[0] in command.commands:
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def mentioned_commands(text):
    """Every command line of reldp on a page, in blocks and in sentences, from `reldp` on."""
    quoted = re.findall(
        r"`([^`\n]*(?:\n[^`\n]+)?)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    )
    blocks = "".join(m["text"] for m in FENCE.finditer(text) if m["language"] == "sh")
    for line in [*quoted, *blocks.replace("\\\n", " ").splitlines()]:
        match = re.search(r"(?:^|-m |srun |RELDP_DEBUG=1 )reldp (.*)", line.replace("\n", " "))
        if match:
            yield re.sub(r"\s#.*", "", match.group(1)).split()


def unknown_words(words):
    """Commands, options and settings of a command line that do not exist."""
    if words and words[0].startswith("-"):
        return [] if words[0] in ("--help", "--version", "-h") else words[:1]
    command, rest = command_of(words)
    if command is None:
        placeholder = not words or re.fullmatch(r"[A-Z.]+|\W+", words[0])
        return [] if placeholder else words[:1]
    parts = (command, *getattr(command, "commands", {}).values())
    known = {o for c in parts for p in c.params for o in (*p.opts, *p.secondary_opts)}
    known |= {"--help", "-h"}
    options = [
        re.split(r"[=,;:)]", word)[0].rstrip(".") for word in rest if re.match(r"--?[a-z]", word)
    ]
    return [option for option in options if option not in known]


SPOKEN = [p for p in PAGES if p.name not in HISTORY]


@pytest.mark.parametrize("page", SPOKEN, ids=lambda page: page.name)
def test_commands_and_options_that_pages_name_exist(page):
    lines = list(mentioned_commands(page.read_text(encoding="utf-8")))
    assert [(" ".join(line), unknown) for line in lines if (unknown := unknown_words(line))] == []


def test_control_unknown_commands_and_options_are_seen():
    text = (
        "`reldp trian x`, `reldp train x --target-epsilom 4` and `reldp budget show my-graph --al`"
    )
    lines = list(mentioned_commands(text))
    assert [unknown_words(line) for line in lines] == [["trian"], ["--target-epsilom"], ["--al"]]
    assert sum(len(list(mentioned_commands(p.read_text()))) for p in SPOKEN) > 100


@pytest.mark.parametrize("page", SPOKEN, ids=lambda page: page.name)
def test_options_that_stand_alone_exist_in_some_command(page):
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    known = set(FOREIGN)
    for path in PROGRAMS:
        known |= set(
            re.findall(r'add_argument\(\s*"(--[a-z-]+)"', path.read_text(encoding="utf-8"))
        )
    for name in COMMANDS:
        command = importlib.import_module(f"reldp.cli.{name}").command
        for part in (command, *getattr(command, "commands", {}).values()):
            known |= {o for p in part.params for o in (*p.opts, *p.secondary_opts)}
    named = {option for quoted in re.findall(r"`(--[a-z-]+)", text) for option in [quoted]}
    assert named - known == set()


FOREIGN = {"--help", "--max-restarts", "--rdzv-endpoint", "--requeue", "--standalone"}
"""Options of torchrun and Slurm."""
PROGRAMS = [
    *(REPOSITORY / "benchmarks").rglob("*.py"),
    *(REPOSITORY / "tests" / "fuzz").glob("*.py"),
]
"""Files that define options of programs beside the commands."""


@pytest.mark.parametrize("page", SPOKEN, ids=lambda page: page.name)
def test_files_that_pages_name_exist(page):
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:docs|examples|scripts|benchmarks|tests|src)/[\w./-]+)", text))
    named = {name.rstrip(".") for name in named if "/X/" not in name}
    assert {name for name in named if not (REPOSITORY / name).exists()} == set()


@pytest.mark.parametrize("page", SPOKEN, ids=lambda page: page.name)
def test_python_names_that_pages_name_exist(page):
    missing = []
    for name in set(re.findall(r"`(reldp(?:\.\w+)+)", page.read_text(encoding="utf-8"))):
        if not resolves(name) and not re.search(r"\.(?:zip|py|md|toml|json)$", name):
            missing.append(name)
    assert missing == []


def resolves(name):
    """Whether a dotted name can be imported, or reached by attributes from a module that can."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            fields = getattr(value, "__dataclass_fields__", {})
            if part in fields:
                return True
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


def test_control_a_name_that_does_not_exist_does_not_resolve():
    assert resolves("reldp.graph.bundled.load")
    assert resolves("reldp.PrivacyPlan.num_entities")
    assert not resolves("reldp.graph.bundled.lod")
    assert not resolves("reldp.grahp")


def section(page, heading):
    """The text below a heading, until the next one of the same level."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_page_about_slurm_asks_for_a_signal_that_ends_a_run_after_a_checkpoint():
    """What the signal does is shown by `tests/cli/test_exit_codes.py`, to which these promises are compared."""
    text = section("operations.md", "Preemptible machines")
    (block,) = [m["text"] for m in FENCE.finditer(text) if m["language"] == "sh"]
    options, *commands = block.splitlines()
    name, seconds = re.fullmatch(r"#SBATCH --signal=(\w+)@(\d+) --requeue", options).groups()
    number = signal.Signals[f"SIG{name}"]
    tested = {int(number): code for number, code in test_exit_codes.SIGNALS}
    assert (tested[number], int(seconds) >= 60) == (143, True)
    assert commands[0].startswith("srun reldp train ")
    assert " -o " in commands[0], "the same folder again"
    assert f"[ $? -eq {tested[number]} ]" in commands[1]
    assert 'scontrol requeue "$SLURM_JOB_ID"' in commands[1]
    promised = "SIGTERM, SIGHUP and Ctrl-C finish the step, save a checkpoint, print one line how to resume, and exit"
    codes = [tested[n] for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    words = " ".join(text.split())
    assert f"{promised} with {codes[0]}, {codes[1]} or {codes[2]}." in words
    checked = test_exit_codes.test_a_training_saves_a_checkpoint_before_it_stops
    assert checked.pytestmark[0].args[1] is test_exit_codes.SIGNALS


def test_the_log_on_the_page_is_what_a_run_prints(tmp_path, capsys):
    text = section("operations.md", "Logs")
    (block,) = [m["text"] for m in FENCE.finditer(text) if m["language"] == "text"]
    small_graph().write(tmp_path / "graph")
    command = ["train", str(tmp_path / "graph"), "-o", str(tmp_path / "run"), *train_flags.FLAGS]
    assert main(command) == 0
    assert block.replace(" 1,000 ", " 4 ") == capsys.readouterr().err
