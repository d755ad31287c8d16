import ast
import inspect
import re
from pathlib import Path

import pytest

from reldp import errors

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and value.__module__ == errors.__name__
}
ROOT = errors.ReldpError
# What Python itself and click rely on, and what the operating system says.
PROTOCOLS = {
    *("AttributeError", "NotImplementedError", "KeyboardInterrupt", "StopIteration", "OSError"),
    "Exit",
}


def drawn_tree():
    """Class, parent in the drawing and built-in base, read from the docstring."""
    path, drawn = {}, {}
    for line in errors.__doc__.splitlines():
        found = re.match(r"^(\s{4}[│├└─\s]*)([A-Z]\w+)(?: \((\w+)\))?(?:\s{2,}|$)", line)
        if not found:
            continue
        depth = len(found.group(1))
        path[depth] = found.group(2)
        above = [path[d] for d in sorted(path) if d < depth]
        drawn[found.group(2)] = (above[-1] if above else None, found.group(3))
        path = {d: name for d, name in path.items() if d <= depth}
    return drawn


def test_the_drawn_tree_is_the_real_one():
    drawn = drawn_tree()
    assert set(drawn) == set(CLASSES)
    for name, (parent, builtin) in drawn.items():
        bases = [base.__name__ for base in CLASSES[name].__bases__]
        assert bases == [parent or "Exception", *([builtin] if builtin else [])]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_error_is_public_and_says_when_it_is_raised(name):
    assert name in errors.__all__
    assert issubclass(CLASSES[name], ROOT)
    assert inspect.getdoc(CLASSES[name])


def test_all_names_exist():
    assert sorted(errors.__all__) == errors.__all__ == sorted(CLASSES)


@pytest.mark.parametrize(
    ("name", "builtin"),
    [("PlanError", ValueError), ("GraphError", ValueError), ("RunError", RuntimeError)],
)
def test_leaves_are_also_what_python_code_expects(name, builtin):
    with pytest.raises(builtin):
        raise CLASSES[name]("`x` must be 1, got 2.")


def raises_of(node, function=None):
    """(function, class, line) of every raise below a node."""
    for child in ast.iter_child_nodes(node):
        inside = child if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Raise) and child.exc is not None:
            raised = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
            yield inside, ast.unparse(raised).split(".")[-1], child.lineno
        yield from raises_of(child, inside)


def _is_private(function):
    return function is not None and function.name.startswith("_")


def _announces(function, name):
    """Whether the docstring says under "Raises:" that callers have to expect it."""
    text = (function and ast.get_docstring(function)) or ""
    return name in text.partition("Raises:")[2]


def test_public_functions_raise_nothing_else():
    """Who catches ReldpError has caught everything that is raised on purpose."""
    strange = []
    for path in sorted((Path(__file__).parents[1] / "src" / "reldp").rglob("*.py")):
        for function, name, line in raises_of(ast.parse(path.read_text())):
            known = name in CLASSES or name in PROTOCOLS or not name[:1].isupper()
            if not known and not _is_private(function) and not _announces(function, name):
                strange.append(f"{path.name}:{line} {name}")
    assert strange == []
