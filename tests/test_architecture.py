"""Dependency rules of src/reldp, held against its import graph."""

import ast
import subprocess
import sys
from importlib import import_module

import pytest

from tests.import_graph import (
    FILES,
    IMPORTS,
    MODULES,
    REPOSITORY,
    SOURCE,
    imports_of,
    part,
    reached_from,
    top,
)

WITHOUT_TORCH = ("graph", "sampling", "accounting", "noise", "runs")
INDEPENDENT = ("sampling", "clipping", "losses", "accounting", "gradients", "noise")
AFTER_TRAINING = ("evaluation", "reporting")
ABOVE_RUNS = ("training", "reporting", "encoders", "evaluation", "auditing", "cli")
# Modules of `runs` that depend on `reldp.errors` only, so that `graph` and `plan` may use them.
LEAVES_OF_RUNS = {f"reldp.runs.{name}" for name in ("durable", "plain_files", "strict_json")}
FILE_MODULES = {"os", "io", "pathlib", "json", "shutil", "tempfile", "glob", "fcntl", "pickle"}
FILE_CALLS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink"}
BUILT_ON_TORCH = {
    *("torch", "transformers", "peft", "safetensors", "sentence_transformers", "opacus"),
    *("accelerate", "torch_geometric", "gguf"),
}
LIGHT = {"numpy", "scipy", "pyarrow", "cryptography", "click", "rich"}
HEAVY = {*BUILT_ON_TORCH, "pandas", "networkx", "matplotlib", "scipy.stats", "dp_accounting"}


def breaks(imports, importers, forbidden):
    """Imports by some parts of what they must not import."""
    return [i for i in imports if part(i.importer) in importers and forbidden(i)]


def of_torch(found):
    return top(found.imported) in BUILT_ON_TORCH


def of_another_part(found):
    other = part(found.imported)
    return other in INDEPENDENT and other != part(found.importer)


def of_training(found):
    return part(found.imported) == "training"


def of_training_at_once(found):
    return of_training(found) and found.at_once


def of_what_is_above_runs(found):
    return part(found.imported) in ABOVE_RUNS


def file_access(code):
    """Imports of modules for files, and calls that read or write one."""
    imported = {top(i.imported) for i in imports_of(code, "reldp.x")} & FILE_MODULES
    called = {
        ast.unparse(node.func).rpartition(".")[2]
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call)
    }
    return imported | (called & FILE_CALLS)


@pytest.mark.parametrize(
    ("code", "module", "importers", "forbidden"),
    [
        ("import torch", "reldp.graph.reading", WITHOUT_TORCH, of_torch),
        ("def f():\n from torch import nn", "reldp.noise.gaussian", WITHOUT_TORCH, of_torch),
        ("from reldp import accounting", "reldp.sampling.x", INDEPENDENT, of_another_part),
        ("from ..clipping import rules", "reldp.gradients.x", INDEPENDENT, of_another_part),
        ("from reldp.noise import Streams", "reldp.sampling.x", INDEPENDENT, of_another_part),
        ("def f():\n import reldp.losses", "reldp.gradients.x", INDEPENDENT, of_another_part),
        ("import reldp.training.loop", "reldp.reporting.x", AFTER_TRAINING, of_training),
        ("import reldp.training.loop", "reldp.auditing.x", ("auditing",), of_training_at_once),
        ("def f():\n import reldp.encoders", "reldp.runs.x", ("runs",), of_what_is_above_runs),
    ],
)
def test_a_broken_rule_is_seen(code, module, importers, forbidden):
    assert breaks(imports_of(code, module), importers, forbidden)


def test_the_data_and_accounting_sides_never_import_torch():
    assert breaks(IMPORTS, WITHOUT_TORCH, of_torch) == []


def test_the_data_and_accounting_sides_need_light_packages_only():
    allowed = {*LIGHT, *sys.stdlib_module_names, "reldp"}
    assert (
        breaks(IMPORTS, WITHOUT_TORCH, lambda i: i.at_once and top(i.imported) not in allowed) == []
    )


def test_they_never_reach_torch_through_others():
    reached = {i for i in IMPORTS if part(i.importer) in WITHOUT_TORCH}
    seen, queue = set(), [i.imported for i in reached if i.at_once]
    while queue:
        module = queue.pop()
        if module in seen or module not in MODULES:
            continue
        seen.add(module)
        queue += [i.imported for i in IMPORTS if i.importer == module and i.at_once]
        assert not any(i.importer == module and i.at_once and of_torch(i) for i in IMPORTS), module


def test_the_parts_of_a_step_do_not_import_one_another():
    assert breaks(IMPORTS, INDEPENDENT, of_another_part) == []


def test_what_follows_training_does_not_import_it():
    assert breaks(IMPORTS, AFTER_TRAINING, of_training) == []


def test_audits_run_the_training_step_but_load_it_where_they_do():
    assert breaks(IMPORTS, ("auditing",), of_training_at_once) == []
    assert breaks(IMPORTS, ("auditing",), of_training) != []


def test_only_plan_and_what_uses_plans_join_the_parts():
    below = ("graph", *INDEPENDENT)
    joined = breaks(IMPORTS, below, lambda i: part(i.imported) in ("plan", "training", "cli"))
    assert joined == []


def test_the_plan_alone_builds_samplers_and_noise():
    """`PrivacyPlan` joins sampler, clipping and noise; steps and audits ask the plan for them."""
    builders = {"TupleSampler", "GaussianNoise"}
    for module, path in MODULES.items():
        if part(module) in ("training", "auditing", "cli", "runs"):
            nodes = ast.walk(ast.parse(path.read_text()))
            called = {ast.unparse(n.func).split(".")[-1] for n in nodes if isinstance(n, ast.Call)}
            assert not called & builders, module


def test_rules_are_asked_and_not_compared_by_name():
    """Rows, units and sensitivities are stated by the rule's class and nowhere else."""
    names = {"tuple", "pair", "frequency"}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                named = any(isinstance(s, ast.Constant) and s.value in names for s in sides)
                assert not named, f"{module}: {ast.unparse(node)}"


def test_losses_need_torch_and_nothing_of_the_package_but_errors_and_checks():
    allowed = {"reldp.losses", "reldp.errors", "reldp._optional", "reldp._validate"}
    allowed.add("reldp._torch_state")
    others = [
        i
        for i in IMPORTS
        if part(i.importer) == "losses"
        and top(i.imported) == "reldp"
        and not any((i.imported + ".").startswith(name + ".") for name in allowed)
    ]
    assert others == []


def test_the_run_folder_knows_the_plan_and_nothing_that_trains_or_reports():
    assert breaks(IMPORTS, ("runs",), of_what_is_above_runs) == []


def test_what_is_below_the_plan_uses_only_the_file_functions_of_runs():
    below = ("graph", "noise", "plan", "clipping", "sampling", "accounting", "gradients")
    used = breaks(IMPORTS, below, lambda i: i.imported in MODULES and part(i.imported) == "runs")
    assert {i.imported for i in used} <= LEAVES_OF_RUNS
    for module in LEAVES_OF_RUNS:
        needed = {i.imported for i in IMPORTS if i.importer == module} & set(MODULES)
        assert needed <= {"reldp.errors"}


@pytest.mark.parametrize(
    "code",
    [
        "from pathlib import Path",
        "def f():\n import os",
        "def f(path):\n return path.read_text()",
        "with open('x') as file:\n pass",
    ],
)
def test_access_to_a_file_is_seen(code):
    assert file_access(code)


def test_accounting_has_no_files():
    """Pure functions: the ledger, which has a file, is in `runs`."""
    accounting = [path for module, path in MODULES.items() if part(module) == "accounting"]
    assert accounting
    assert {path.name: file_access(path.read_text()) for path in accounting} == {
        path.name: set() for path in accounting
    }


def test_training_never_reaches_reporting():
    assert [m for m in reached_from(IMPORTS, "training") if part(m) == "reporting"] == []


def test_commands_are_imported_by_nobody_but_the_program():
    outside = [i for i in IMPORTS if part(i.importer) != "cli" and part(i.imported) == "cli"]
    assert {i.importer for i in outside} <= {"reldp._entry"}


def test_integrations_are_loaded_by_the_methods_of_graphs_and_by_nobody_else():
    inside = [i for i in IMPORTS if part(i.imported) == "integrations"]
    outside = [i for i in inside if part(i.importer) != "integrations"]
    assert {i.importer for i in outside} <= {
        "reldp.graph.conversions",
        "reldp.graph.entity_graph",
    }
    assert not any(i.at_once for i in outside)


@pytest.mark.parametrize("name", ["datasets", "networkx", "pandas", "polars", "pyg", "tables"])
def test_an_integration_of_data_can_be_imported_without_its_library(name):
    """`require` imports a library where it is used, so that the module itself always loads."""
    module = f"reldp.integrations.{name}"
    needed = {top(i.imported) for i in IMPORTS if i.importer == module and i.at_once}
    assert needed <= {*LIGHT, *sys.stdlib_module_names, "reldp"}


def test_there_is_no_import_cycle():
    edges = {
        module: {i.imported for i in IMPORTS if i.importer == module and i.at_once} & set(MODULES)
        for module in MODULES
    }
    # A package imports its own modules, and importing a module runs its package: not a cycle of design.
    edges = {
        module: {
            other for other in others if not module.startswith(other + ".") and other != module
        }
        for module, others in edges.items()
    }
    while True:
        leaves = [module for module, others in edges.items() if not others]
        if not leaves:
            break
        for leaf in leaves:
            del edges[leaf]
        edges = {module: others - set(leaves) for module, others in edges.items()}
    assert edges == {}


def test_importing_reldp_is_cheap():
    code = "import sys, reldp; reldp.__all__; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "reldp" in loaded
    assert not loaded & {*HEAVY, "numpy", "scipy", "pyarrow"}
    assert done.stderr == ""


@pytest.mark.parametrize(
    "module",
    [
        *("reldp.plan", "reldp.graph", "reldp.sampling", "reldp.noise"),
        *("reldp.runs.session", "reldp.runs.certificate_files"),
    ],
)
def test_parts_without_torch_load_nothing_heavy(module):
    code = f"import sys, {module}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & HEAVY


def test_every_source_file_has_its_test():
    missing = []
    for path in FILES:
        inside = path.relative_to(SOURCE / "reldp")
        if inside.name.startswith("_"):
            continue
        if not (REPOSITORY / "tests" / inside.parent / f"test_{inside.name}").exists():
            missing.append(str(inside))
    assert missing == []


def test_no_file_is_a_drawer_for_everything():
    drawers = {"utils", "util", "common", "misc", "helpers"}
    assert [str(path) for path in FILES if {*path.parts, path.stem} & drawers] == []


def test_nothing_from_data_becomes_code():
    """No pickle on load, no evaluation of strings: not even imported."""
    forbidden = {"pickle", "cPickle", "marshal", "shelve", "dill", "joblib"}
    assert [i for i in IMPORTS if top(i.imported) in forbidden] == []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "torch.load"), f"{path}: {called}"


# A benchmark that measures one part of reldp may look inside that part, and nowhere else.
MEASURED = {
    "accounting.py": {"accounting"},
    "audit.py": {"accounting", "auditing"},
    "audit_power.py": {"auditing"},
    "distributed.py": {"processes"},
    "inputs.py": {"graph"},  # docs/graphs.md shows the splits to users
    "locality.py": {"gradients", "training"},
    "noise.py": {"noise"},
    "paper_figures.py": {"reporting"},
    "private_step.py": {"encoders", "training"},
    "sampler.py": {"sampling"},
    "store.py": {"graph"},
    "step_variants.py": {"gradients"},
}


def _is_public(imported):
    """Whether a module is reldp, one of its public names, or a package's public name."""
    parts = imported.split(".")
    if len(parts) == 1:
        return True
    package = import_module(".".join(parts[:-1]))
    is_package = len(parts) == 2 and (SOURCE / "reldp" / parts[1]).is_dir()
    return is_package or parts[1] == "errors" or parts[-1] in getattr(package, "__all__", ())


def test_benchmarks_import_public_names_and_the_part_that_they_measure():
    broken = []
    for path in sorted((REPOSITORY / "benchmarks").rglob("*.py")):
        module = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for found in imports_of(path.read_text(), module):
            if top(found.imported) != "reldp" or part(found.imported) in MEASURED.get(
                path.name, ()
            ):
                continue
            if not _is_public(found.imported):
                broken.append((path.name, found.imported))
    assert broken == []
