"""The reader of the import graph sees every kind of import."""

from tests.import_graph import imports_of, part, reached_from


def test_the_reader_finds_every_kind_of_import():
    code = (
        "import torch.nn as nn\n"
        "from reldp.training import loop\n"
        "from . import rules\n"
        "from .. import plan\n"
        "if TYPE_CHECKING:\n    import pandas\nelse:\n    import scipy\n"
        "def f():\n    from numpy import array\n"
        "try:\n    import rich\nexcept ImportError:\n    pass\n"
    )
    found = {(i.imported, i.at_once) for i in imports_of(code, "reldp.clipping.units")}
    assert ("torch.nn", True) in found
    assert ("reldp.training.loop", True) in found
    assert ("reldp.clipping.rules", True) in found
    assert ("reldp.plan", True) in found
    assert ("scipy", True) in found
    assert ("rich", True) in found
    assert ("numpy", False) in found
    assert "pandas" not in {name for name, _ in found}


def test_an_import_through_others_and_inside_functions_is_seen():
    code = {
        "reldp.training.x": "def f():\n import reldp.result",
        "reldp.result": "def g():\n from reldp.reporting import verify",
    }
    imports = [i for module, text in code.items() for i in imports_of(text, module)]
    assert "reporting" in map(part, reached_from(imports, "training"))
