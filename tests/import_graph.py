"""Reader of the import graph of src/reldp: which module imports which, and when."""

import ast
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src"


@dataclass(frozen=True)
class Import:
    """One imported module: who imports it, and whether at the time of its own import."""

    importer: str
    imported: str
    at_once: bool


def _is_for_types_only(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) in (
        "TYPE_CHECKING",
        "typing.TYPE_CHECKING",
    )


def _walk(node, at_once=True):
    """Import statements below a node; what only type checkers see is left out."""
    for child in ast.iter_child_nodes(node):
        if _is_for_types_only(child):
            yield from (found for part in child.orelse for found in _walk_one(part, at_once))
            continue
        yield from _walk_one(child, at_once)


def _walk_one(node, at_once):
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, at_once
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    yield from _walk(node, at_once and not inside)


def _modules_of(node, module, is_package):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        parts = module.split(".")
        keep = len(parts) - node.level + (1 if is_package else 0)
        base = ".".join([*parts[:keep], *([base] if base else [])])
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def imports_of(code, module, is_package=False):
    """Every module that some code imports. Names imported from a package count as its modules too."""
    return [
        Import(module, imported, at_once)
        for node, at_once in _walk(ast.parse(code))
        for imported in _modules_of(node, module, is_package)
    ]


def _module_name(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted((SOURCE / "reldp").rglob("*.py"))
MODULES = {_module_name(path): path for path in FILES}
IMPORTS = [
    found
    for module, path in MODULES.items()
    for found in imports_of(path.read_text(), module, path.name == "__init__.py")
]


def part(module):
    """The folder of reldp that a module is in: ``"graph"`` for ``reldp.graph.reading``."""
    parts = module.split(".")
    return parts[1] if parts[0] == "reldp" and len(parts) > 1 else ""


def top(module):
    return module.split(".")[0]


def reached_from(imports, importer):
    """Every module that a part of reldp imports, through others too, at once or inside functions."""
    targets = {}
    for i in imports:
        targets.setdefault(i.importer, set()).add(i.imported)
    seen, queue = set(), [m for m in targets if part(m) == importer]
    while queue:
        module = queue.pop()
        if module not in seen:
            seen.add(module)
            queue += targets.get(module, ())
    return seen
