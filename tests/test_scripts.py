"""scripts/ holds the commands that CI runs, and the README names them."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
COMMANDS = ("scripts/test", "scripts/demo")


def lines_of(name):
    text = (REPOSITORY / name).read_text()
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("name", [*COMMANDS, ".ci/run"])
def test_commands_can_be_run(name):
    path = REPOSITORY / name
    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!/usr/bin/env bash\n")


@pytest.mark.parametrize("name", [*COMMANDS, ".ci/run", "scripts/setup.sh"])
def test_commands_are_valid_bash(name):
    assert subprocess.run(["bash", "-n", REPOSITORY / name], check=False).returncode == 0


def test_ci_runs_the_tests_and_nothing_else():
    assert lines_of(".ci/run") == ['exec "$(dirname "$0")/../scripts/test"']


def test_the_tests_are_all_of_them():
    text = "\n".join(lines_of("scripts/test"))
    order = [
        "ruff format --check .",
        "ruff check .",
        "scripts/check_language.py",
        "mypy",
        "pytest",
    ]
    places = [text.index(command) for command in order]
    assert places == sorted(places)
    assert not re.search(r"\|\|\s*true|--exit-zero|-k |--ignore|--deselect", text)


def test_the_demo_runs_the_command():
    assert lines_of("scripts/demo")[-1] == 'exec .venv/bin/reldp demo "$@"'


def test_a_failing_command_stops_the_scripts():
    assert "set -euo pipefail" in lines_of("scripts/setup.sh")
    assert all('source "$(dirname "$0")/setup.sh"' in lines_of(name) for name in COMMANDS)


def test_the_readme_names_both_commands():
    readme = (REPOSITORY / "README.md").read_text()
    assert all(name in readme for name in COMMANDS)


def test_warnings_are_errors_and_types_are_strict():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]
    assert project["pytest"]["ini_options"]["filterwarnings"] == ["error"]
    assert "--doctest-modules" in project["pytest"]["ini_options"]["addopts"]
    assert project["mypy"]["strict"] is True


def test_no_check_is_switched_off_wholesale():
    blanket = re.compile(r"#\s*(?:noqa(?!: ?[A-Z]+\d+)|type: ignore(?!\[)|ruff: noqa|mypy: ignore)")
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}"
        for folder in ("src", "tests", "benchmarks", "examples")
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if blanket.search(line)
    ]
    assert found == []


def test_no_test_is_skipped_but_for_a_missing_gpu():
    # What compares with data kept beside the repository looks for its folder; CI has that folder.
    skips = re.compile(r"pytest\.skip\(|mark\.skip\b|mark\.xfail|importorskip|unittest\.skip")
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in sorted((REPOSITORY / "tests").rglob("*.py"))
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if skips.search(line) and "cuda" not in line.lower() and "gpu" not in line.lower()
    ]
    assert found == []


def test_what_is_installed_for_tests_is_pinned():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    pins = set()
    for line in lines_of("scripts/constraints.txt"):
        name, version = line.split("==")
        assert re.fullmatch(r"[\w.]+", version)
        pins.add(name.lower().replace("_", "-"))
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    lines = [line for group in groups for line in group]
    needed = {re.split(r"[<>=\[;]", line)[0].lower() for line in lines} - {"reldp"}
    assert needed <= pins
