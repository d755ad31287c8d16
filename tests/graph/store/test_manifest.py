"""The manifest of a store."""

import dataclasses
import json

import pytest

from reldp.errors import GraphError
from reldp.graph.record import GraphRecord
from reldp.graph.store.blocks import FileBlocks
from reldp.graph.store.manifest import MANIFEST, Manifest, is_store


@pytest.fixture
def manifest():
    return Manifest(
        num_entities=2,
        num_relations=1,
        columns=("id", "text"),
        feature_size=0,
        type_names=("knows",),
        fingerprint="f" * 64,
        record=GraphRecord(source="a shop", drops={"self_relations": 1, "empty_text": 2}),
        files={
            name: FileBlocks(boundaries=(3,), sha256=("x",))
            for name in ("types.npy", "entities.arrow", "relations.npy", "degrees.npy")
        },
    )


def test_it_reads_back_and_its_hash_covers_everything(tmp_path, manifest):
    assert not is_store(tmp_path)
    (tmp_path / MANIFEST).write_text(manifest.to_json())
    assert is_store(tmp_path)
    assert Manifest.read(tmp_path) == manifest
    changes = {
        "num_relations": 2,
        "fingerprint": "a" * 64,
        "type_names": (),
        "record": GraphRecord(),
    }
    hashes = {dataclasses.replace(manifest, **{k: v}).build_hash for k, v in changes.items()}
    assert len(hashes | {manifest.build_hash}) == len(changes) + 1


def test_the_order_of_drops_and_files_does_not_matter(manifest):
    other = dataclasses.replace(
        manifest,
        record=GraphRecord(source="a shop", drops={"empty_text": 2, "self_relations": 1}),
        files=dict(sorted(manifest.files.items())),
    )
    assert other.to_json() == manifest.to_json()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"num_entities":2', '"num_entities":-2'),
        ('"num_entities":2', '"num_entities":true'),
        ('"boundaries":[3]', '"boundaries":[]'),
        ('"files":', '"file":'),
        ('{"columns"', '{"num_entities":2,"columns"'),
        ("}", ""),
    ],
)
def test_damage_is_one_clear_line(tmp_path, manifest, old, new):
    (tmp_path / MANIFEST).write_text(manifest.to_json().replace(old, new))
    with pytest.raises(GraphError, match=r"store\.json must"):
        Manifest.read(tmp_path)


def with_features(values):
    """Give a manifest features that fit it."""
    values |= {"columns": ["id", "features"], "feature_size": 3}
    values["files"]["features.npy"] = values["files"]["types.npy"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_entities": 0}, "count at least one entity"),
        ({"columns": ["NaN", "features"]}, "name the column id"),
        ({"columns": ["id"]}, "name the column id, and text or features"),
        ({"columns": ["id", "text", "id"]}, "name each column once"),
        ({"columns": ["id", "text", "owner"]}, "name no column owner"),
        ({"columns": ["id", "text", "Protected "]}, "name the column protected in small letters"),
        ({"columns": "id"}, "be the manifest"),
        ({"columns": ["id", "text", 3]}, "be the manifest"),
        ({"columns": ["id", "text", "features"]}, "name the files"),
        ({"feature_size": 3}, "state the length of its features"),
        ({"type_names": []}, "name the files"),
        ({"type_names": ["b", "a"]}, "name types in order"),
        ({"type_names": ["a", "a"]}, "name types in order"),
        ({"type_names": [" "]}, "name types in order"),
        ({"type_names": "knows"}, "be the manifest"),
        ({"type_names": ["likes"]}, None),
        ({"record": {"relation_types": ["likes"]}}, "name the types that its record declares"),
        ({"record": {"relation_types": ["knows"]}}, None),
        ({"record": {"relation_types": "knows"}}, "be the manifest"),
        ({"record": {"drops": {"x": -1}}}, "be the manifest"),
        ({"record": []}, "be the manifest"),
        ({"fingerprint": "f"}, "hold a fingerprint"),
        ({"fingerprint": 5}, "be the manifest"),
        ({"files": []}, "be the manifest"),
        ({"format": "reldp graph store 2"}, "have the format 'reldp graph store 1', got another"),
    ],
)
def test_what_does_not_fit_together_is_one_clear_line(tmp_path, manifest, changes, words):
    values = json.loads(manifest.to_json()) | changes
    (tmp_path / MANIFEST).write_text(json.dumps(values))
    if words is None:
        assert Manifest.read(tmp_path).num_entities == 2
        return
    with pytest.raises(GraphError, match=rf"^store\.json must {words}.*Build the store again"):
        Manifest.read(tmp_path)


def test_every_file_must_be_named_and_no_other(tmp_path, manifest):
    values = json.loads(manifest.to_json())
    with_features(values)
    (tmp_path / MANIFEST).write_text(json.dumps(values))
    assert Manifest.read(tmp_path).feature_size == 3
    for name in values["files"]:
        files = {k: v for k, v in values["files"].items() if k != name}
        for others in (files, files | {f"../{name}": values["files"][name]}):
            (tmp_path / MANIFEST).write_text(json.dumps(values | {"files": others}))
            with pytest.raises(GraphError, match=r"store\.json must name the files of its columns"):
                Manifest.read(tmp_path)
    (tmp_path / MANIFEST).write_text(json.dumps(values | {"feature_size": 0}))
    with pytest.raises(GraphError, match=r"store\.json must state the length of its features"):
        Manifest.read(tmp_path)


def test_a_graph_without_relations_may_have_types_without_names(tmp_path, manifest):
    empty = dataclasses.replace(manifest, type_names=(), num_relations=0)
    (tmp_path / MANIFEST).write_text(empty.to_json())
    assert Manifest.read(tmp_path) == empty
