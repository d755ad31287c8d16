import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph, bundled
from reldp.graph.recipes.wordnet import WordNetSource, wordnet
from tests.graph.recipes.sources import wordnet_files

DATA = Path(bundled.__file__).parent / "data"
SIZES = {
    "wordnet-nouns": (82_115, 113_065),
    "wordnet-verbs": (13_639, 15_145),
    "wordnet-adjectives": (13_315, 12_130),
}


@pytest.mark.parametrize("name", list(bundled.BUNDLED))
def test_a_bundled_graph_loads_by_name_with_its_record_and_notice(name: str) -> None:
    graph = bundled.load(name)
    assert (graph.num_entities, graph.num_relations) == SIZES[name]
    assert f"{graph.num_entities:,}" in bundled.BUNDLED[name].summary
    assert graph.degrees.min() >= 1
    assert graph.record.version == "WordNet 3.0"
    assert graph.record.hashes
    assert "WordNet 3.0 Copyright 2006 by Princeton University." in bundled.notice(name)
    assert bundled.notice(name).rstrip().endswith("LICENSEE agrees to preserve same.")


def test_the_graphs_together_are_at_most_six_megabytes() -> None:
    assert sum(path.stat().st_size for path in DATA.rglob("*")) <= 6_000_000


def test_loading_by_name_needs_no_working_directory_and_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from reldp.graph import bundled; "
        "print(bundled.load('wordnet-verbs').num_entities, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["13639", "False"]


def test_known_synsets_are_joined_as_wordnet_joins_them() -> None:
    graph = bundled.load("wordnet-nouns")
    row = {entity: number for number, entity in enumerate(graph.ids.to_pylist())}
    dog, canine, poodle = row["n02084071"], row["n02083346"], row["n02113335"]
    pairs = {tuple(pair) for pair in np.sort(graph.relations, axis=1).tolist()}
    assert graph.text([dog])[0].startswith("dog, domestic dog, Canis familiaris: a member of the")
    assert tuple(sorted((dog, canine))) in pairs
    assert tuple(sorted((dog, poodle))) in pairs
    assert tuple(sorted((canine, poodle))) not in pairs


def test_another_file_under_the_same_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(DATA / "wordnet-verbs", tmp_path / "data" / "wordnet-verbs")
    monkeypatch.setattr(bundled, "files", lambda package: tmp_path)
    assert bundled.load("wordnet-verbs").num_entities == 13_639
    relations = tmp_path / "data" / "wordnet-verbs" / "relations.parquet"
    relations.write_bytes(relations.read_bytes()[:-1] + b"x")
    with pytest.raises(GraphError, match=r"got another relations\.parquet"):
        bundled.load("wordnet-verbs")


def test_an_unknown_name_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"wordnet-nouns, wordnet-verbs.*got 'wordnet'"):
        bundled.load("wordnet")
    with pytest.raises(GraphError, match="which is neither"):
        bundled.open_graph(tmp_path / "nowhere")


def test_a_folder_that_exists_wins_over_a_bundled_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bundled.open_graph("wordnet-verbs").num_entities == 13_639
    EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"]).write("wordnet-verbs")
    assert bundled.open_graph("wordnet-verbs").num_entities == 2


def test_remaking_gives_what_the_recipe_makes_and_the_sums_to_pin(tmp_path: Path) -> None:
    source = WordNetSource(name="test", files=wordnet_files())
    sums = bundled.remake(source, tmp_path / "one")
    assert bundled.remake(source, tmp_path / "two") == sums
    for name, entry in bundled.BUNDLED.items():
        made = wordnet(source, parts=[entry.part])
        assert EntityGraph.read(tmp_path / "one" / name) == made.graph()
        assert set(sums[name]) == set(entry.sha256)
        record = json.loads((tmp_path / "one" / name / "record.json").read_text())
        assert record["source"] == "test"


# Digests of graphs that an independent program made from the same WordNet files: all (id, id) pairs, sorted, then all
# (id, text) pairs, sorted, one per line with a tab between.
INDEPENDENT = {
    ("wordnet-verbs", None): "41c62baf9973f77ec91ab81804cd9c302db36b77b6b33b3898771e3b166c0015",
    ("wordnet-nouns", "noun.animal"): (
        "cbe04b2ac0825b237d8da875a53d1e80aa9f3c6ef784482e6581dd60ea6afe83"
    ),
    ("wordnet-nouns", "noun.plant"): (
        "28c9edff73dd79346904b2962afafe74ec6264876f2fcfd9cb398989370f3064"
    ),
    ("wordnet-nouns", "noun.artifact"): (
        "e35081737e4e526aaa768bace42f9515a2f35efc03d47a826aa9fe090c3e4f09"
    ),
    ("wordnet-nouns", "noun.person"): (
        "812d7b228f1d645d683f93ab46cb63f94bce76ed94b1e3813da2c244549f4aef"
    ),
}


@pytest.mark.parametrize(("name", "domain"), list(INDEPENDENT))
def test_texts_and_relations_equal_graphs_made_by_an_independent_program(
    name: str, domain: str | None
) -> None:
    graph = bundled.load(name)
    ids, domains, texts = graph.ids.to_pylist(), graph.column("domain"), graph.text()
    chosen = np.array([domain in (None, value) for value in domains])
    inside = graph.relations[chosen[graph.relations].all(axis=1)]  # (m', 2)
    relations = sorted({tuple(sorted((ids[a], ids[b]))) for a, b in inside})
    entities = sorted((ids[i], texts[i]) for i in np.unique(inside))
    lines = "".join("\t".join(pair) + "\n" for pair in [*relations, *entities])
    assert hashlib.sha256(lines.encode()).hexdigest() == INDEPENDENT[name, domain]
