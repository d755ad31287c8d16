"""scripts/release and scripts/check_wheel.py: what a wheel must hold and do. scripts/release runs the whole check."""

import ast
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import reldp

REPOSITORY = Path(__file__).parents[1]
_SPEC = importlib.util.spec_from_file_location(
    "check_wheel", REPOSITORY / "scripts" / "check_wheel.py"
)
check_wheel = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(check_wheel)


def write_wheel(path, names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return path


def test_a_wheel_without_a_graph_or_a_license_is_refused(tmp_path):
    whole = [*check_wheel.INSIDE, "reldp-1.dist-info/licenses/LICENSE"]
    assert check_wheel.missing_files(write_wheel(tmp_path / "a.whl", whole)) == []
    for name in whole:
        rest = [other for other in whole if other != name]
        missing = check_wheel.missing_files(write_wheel(tmp_path / "b.whl", rest))
        assert missing == [name.rpartition("licenses/")[2]]
    command = [sys.executable, REPOSITORY / "scripts" / "check_wheel.py", tmp_path / "b.whl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "b.whl lacks LICENSE" in done.stderr


def test_what_a_wheel_must_hold_is_in_the_package():
    for name in check_wheel.INSIDE:
        path = REPOSITORY / "src" / name
        is_theory = name == "reldp/docs/theory.md"  # put there when a wheel is built
        assert (REPOSITORY / "docs" / "theory.md" if is_theory else path).is_file()


def test_the_readme_has_a_short_program_that_trains():
    code = check_wheel.twelve_lines((REPOSITORY / "README.md").read_text())
    ast.parse(code)
    assert "num_steps=2" in code
    assert "expected_batch_size=16" in code
    assert "max_relations=256" in code


def test_an_unexpected_exit_code_or_answer_fails_the_check(tmp_path):
    environment = object.__new__(check_wheel.Environment)
    environment.programs, environment.work = Path(sys.executable).parent, tmp_path
    environment.variables = {}
    program = Path(sys.executable).name
    assert environment.run(program, "-c", "print(1)", says="1") == "1\n"
    environment.run(program, "-c", "exit(2)", code=2)
    for arguments, expected in (("exit(1)", {}), ("print(1)", {"says": "2"}), ("", {"code": 2})):
        with pytest.raises(check_wheel.CheckFailed):
            environment.run(program, "-c", arguments, **expected)


def test_versions_agree_everywhere():
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    citation = (REPOSITORY / "CITATION.cff").read_text()
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    first = next(
        line for line in changes.splitlines() if line.startswith("## [") and "nreleased" not in line
    )
    assert project["version"] == reldp.__version__
    assert f"\nversion: {project['version']}\n" in citation
    assert first.startswith(f"## [{project['version']}]")


def test_a_release_is_built_checked_and_tested_in_this_order():
    text = (REPOSITORY / "scripts" / "release").read_text()
    places = [
        text.index(word)
        for word in ("-m build", "-m twine check --strict", "check_wheel.py", "cp ")
    ]
    assert places == sorted(places)
