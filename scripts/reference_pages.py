"""Pages of the site that are generated: the reference of Python names, and of commands and options.

The public names are those in `__all__` of `reldp` and of its packages. mkdocstrings fills in their docstrings when the
site is built; nothing here imports torch.

>>> sorted(python_pages())[0]
'reference/reldp.accounting.md'
"""

import ast
from collections.abc import Iterator
from importlib import import_module
from inspect import cleandoc
from pathlib import Path

import click

SOURCE = Path(__file__).resolve().parents[1] / "src" / "reldp"
PACKAGES = (
    *("plan", "graph", "encoders", "losses", "training", "evaluation", "reporting", "auditing"),
    *("accounting", "clipping", "sampling", "noise", "gradients", "integrations", "errors"),
)
"""Packages and modules with public names, each of which has a page."""

FURTHER = {
    "graph": ("graph.store", "graph.bundled"),
    "training": ("training.callbacks",),
    "integrations": ("integrations.sentence_transformers",),
}
"""Modules whose public names are on the page of their package."""

NAMES = {
    "plan": ["PrivacyPlan"],
    "graph.bundled": ["BUNDLED", "load", "notice"],
    "training.callbacks": ["TrainingCallback", "Progress", "StepRequests", "TrainingStopped"],
}
"""Public names of modules whose `__all__` is missing, or also has names for other modules of reldp."""


def source_of(module: str) -> Path:
    """Return the file of a module, named without `reldp.` in front."""
    path = SOURCE.joinpath(*module.split(".")) if module else SOURCE
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def assigned(module: str, name: str) -> ast.expr | None:
    """Return what a module assigns to a name, as an expression that has not been evaluated."""
    for node in ast.parse(source_of(module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return node.value
    return None


def public_names(module: str) -> list[str]:
    """Return the names that a page documents: `__all__` of a module, or those of `NAMES`.

    >>> public_names("sampling")
    ['TupleBatch', 'TupleSampler']
    """
    if module in NAMES:
        return NAMES[module]
    value = assigned(module, "__all__")
    return list(ast.literal_eval(value)) if value is not None else []


def cell(text: str) -> str:
    """Return a text as a cell of a table."""
    return text.replace("\n", " ").replace("|", r"\|").replace("<", "&lt;")


def homes() -> dict[str, tuple[str, str]]:
    """Return the module of every public name of `reldp`, and its name there."""
    value = assigned("", "_HOMES")
    assert value is not None
    return dict(ast.literal_eval(value))


def summary_of(module: str, name: str) -> str:
    """Return the first line of the docstring of a name, found without importing its module.

    >>> summary_of("sampling", "TupleSampler")
    'Poisson positives with negatives drawn without replacement.'
    """
    tree = ast.parse(source_of(module).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0]
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("reldp."):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return summary_of(node.module.removeprefix("reldp."), alias.name)
    return ""


def package_page(package: str) -> str:
    """Return the page of a package: its docstring, and every public name of it."""
    lines = [f"# reldp.{package}\n"]
    for module in (package, *FURTHER.get(package, ())):
        lines += [f"::: reldp.{module}", "    options:", "      members: false"]
        lines += ["      show_root_heading: false", "      show_root_toc_entry: false", ""]
        lines += [f"::: reldp.{module}.{name}\n" for name in public_names(module)]
    return "\n".join(lines)


def python_pages() -> dict[str, str]:
    """Return all pages of the reference of Python names by their places."""
    rows = []
    for name, (module, attribute) in homes().items():
        package = module.removeprefix("reldp.")
        anchor = f"reldp.{package}.{attribute}"
        summary = cell(summary_of(package, attribute))
        rows.append(f"| [`reldp.{name}`](reldp.{package}.md#{anchor}) | {summary} |")
    lines = [
        "# reldp\n",
        "The names that `import reldp` gives are the contract; they are imported on first use, so that data and "
        "accounting work without torch. `reldp.__version__` is the version.\n",
        "| name | what it is |",
        "|---|---|",
        *rows,
        "\nThe packages have further public names, for whoever extends or audits reldp:\n",
        "| package | public names |",
        "|---|---|",
    ]
    for package in PACKAGES:
        modules = (package, *FURTHER.get(package, ()))
        names = ", ".join(f"`{name}`" for module in modules for name in public_names(module))
        lines.append(f"| [`reldp.{package}`](reldp.{package}.md) | {names} |")
    pages = {f"reference/reldp.{package}.md": package_page(package) for package in PACKAGES}
    return {**pages, "reference/reldp.md": "\n".join(lines) + "\n"}


def commands() -> Iterator[tuple[str, click.Context]]:
    """Every command with its subcommands, in the order of `reldp --help`."""
    from reldp.cli.main import COMMANDS

    for name in COMMANDS:
        command = import_module(f"reldp.cli.{name}").command
        context = click.Context(command, info_name=f"reldp {name}")
        yield f"reldp {name}", context
        if isinstance(command, click.Group):
            for child, part in command.commands.items():
                full = f"reldp {name} {child}"
                yield full, click.Context(part, info_name=full)


def command_section(name: str, context: click.Context) -> Iterator[str]:
    """Lines about one command: usage, help, examples, and options under their headings."""
    command = context.command
    yield f"\n{'#' * (name.count(' ') + 1)} {name}\n"
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```\n"
    yield cleandoc(command.help or "").replace("\b\n", "").replace("<", "&lt;")
    if examples := getattr(command, "examples", ()):
        yield "\n```sh\n" + "\n".join(examples) + "\n```"
    groups: dict[str, list[str]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            row = f"| `{cell(record[0])}` | {cell(record[1])} |"
            groups.setdefault(getattr(parameter, "group", "Other options"), []).append(row)
    for heading, rows in groups.items():
        yield f"\n| {heading} | |\n|---|---|"
        yield from rows


def command_page() -> str:
    """Return the page with all commands and options."""
    lines = [
        "# Commands and options\n",
        "Generated from the commands themselves: what `reldp COMMAND --help` shows. "
        "[Using the commands](../cli.md) explains how they go together, and lists the exit codes.",
    ]
    for name, context in commands():
        lines += command_section(name, context)
    return "\n".join(lines) + "\n"
