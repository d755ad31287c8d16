import sys
from dataclasses import replace

import pytest

from reldp.auditing.figure import draw_audit
from reldp.errors import InputError, MissingDependency
from tests.auditing.test_results import AUDIT, BOUND


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_is_written_in_the_format_asked_for(tmp_path, ending):
    audit = replace(AUDIT, bounds=(BOUND, replace(BOUND, delta=0.1, epsilon=3.0)))
    target = tmp_path / f"audit.{ending}"
    draw_audit(audit, target)
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert target.read_bytes().startswith(start)


def test_an_unknown_ending_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"`plot` must end in \.png"):
        draw_audit(AUDIT, tmp_path / "audit.txt")


def test_without_matplotlib_the_fix_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependency, match=r"pip install 'reldp\[figures\]'"):
        draw_audit(AUDIT, tmp_path / "audit.png")
