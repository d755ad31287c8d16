"""The manifest of a store."""

import dataclasses

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
        fingerprint="f",
        record=GraphRecord(source="a shop", drops={"self_relations": 1, "empty_text": 2}),
        files={
            "b": FileBlocks(boundaries=(3,), sha256=("x",)),
            "a": FileBlocks(boundaries=(4,), sha256=("y",)),
        },
    )


def test_it_reads_back_and_its_hash_covers_everything(tmp_path, manifest):
    assert not is_store(tmp_path)
    (tmp_path / MANIFEST).write_text(manifest.to_json())
    assert is_store(tmp_path)
    assert Manifest.read(tmp_path) == manifest
    changes = {"num_relations": 2, "fingerprint": "g", "type_names": (), "record": GraphRecord()}
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
