"""The demo's folder: claimed, refused, and deleted only if a demo made it."""

import json
import os

import pytest

from reldp.errors import ConfigError
from reldp.training.demo_folder import DemoFolder


def test_a_new_folder_is_made_and_marked(tmp_path):
    folder = DemoFolder(tmp_path / "a" / "demo")
    folder.claim(overwrite=False)
    assert json.loads(folder.marker.read_text()) == {"made_by": "reldp demo"}
    folder.write({"epsilon": 4.0})
    assert json.loads(folder.marker.read_text()) == {"made_by": "reldp demo", "epsilon": 4.0}


def test_an_existing_folder_is_refused_and_an_earlier_demo_is_deleted_on_request(tmp_path):
    folder = DemoFolder(tmp_path / "demo")
    folder.claim(overwrite=False)
    (folder.path / "run" / "model").mkdir(parents=True)
    folder.check(overwrite=True)
    with pytest.raises(ConfigError, match="`output` must not exist"):
        folder.claim(overwrite=False)
    assert folder.run.is_dir()
    folder.claim(overwrite=True)
    assert os.listdir(folder.path) == ["demo.json"]


def test_an_empty_folder_may_be_overwritten(tmp_path):
    folder = DemoFolder(tmp_path)
    folder.claim(overwrite=True)
    assert folder.marker.is_file()


@pytest.mark.parametrize("mark", [None, "{}", "[]", "no JSON", '{"made_by": "me"}'])
def test_a_folder_that_no_demo_made_is_never_deleted(tmp_path, mark):
    (tmp_path / "run").mkdir()
    if mark is not None:
        (tmp_path / "demo.json").write_text(mark)
    with pytest.raises(ConfigError, match="must be a folder that reldp demo made"):
        DemoFolder(tmp_path).claim(overwrite=True)
    assert (tmp_path / "run").is_dir()


def test_a_demo_with_files_of_somebody_else_is_never_deleted(tmp_path):
    folder = DemoFolder(tmp_path / "demo")
    folder.claim(overwrite=False)
    (folder.path / "thesis.tex").write_text("x")
    with pytest.raises(ConfigError, match=r"with 'thesis\.tex'. It is not deleted"):
        folder.claim(overwrite=True)
    assert (folder.path / "thesis.tex").is_file()


def test_links_and_files_are_never_deleted(tmp_path):
    real = DemoFolder(tmp_path / "demo")
    real.claim(overwrite=False)
    (tmp_path / "link").symlink_to(real.path)
    (tmp_path / "file").write_text("x")
    for name in ("link", "file"):
        with pytest.raises(ConfigError, match="which is a file or a link"):
            DemoFolder(tmp_path / name).claim(overwrite=True)
    assert real.marker.is_file()


def test_what_a_link_inside_points_to_stays(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "x").write_text("x")
    folder = DemoFolder(tmp_path / "demo")
    folder.claim(overwrite=False)
    folder.run.symlink_to(tmp_path / "precious")
    folder.claim(overwrite=True)
    assert (tmp_path / "precious" / "x").is_file()
