import gzip
import os
import tracemalloc
from pathlib import Path

import pytest

from reldp.errors import GraphError, InputError
from reldp.graph.recipes.debian import (
    Binary,
    PackageLists,
    debian,
    describe,
    download_lists,
    read_lists,
    representative,
)
from tests.graph.recipes.sources import write_lists


@pytest.fixture
def lists(tmp_path: Path) -> PackageLists:
    return read_lists(write_lists(tmp_path / "lists"))


def _pairs(made: object) -> set[tuple[str, str]]:
    columns = made.relations.to_pydict()  # type: ignore[attr-defined]
    return set(zip(columns["source"], columns["target"], strict=True))


def _binary(name: str) -> Binary:
    return Binary(name=name, source="s", section="", description="", needs=(), provides=())


def test_binaries_are_merged_into_sources_and_unique_virtual_packages_resolved(
    lists: PackageLists,
) -> None:
    # player needs codec, which only libsound1 provides; sound-server has two providers.
    assert _pairs(debian(lists)) == {
        ("glibc", "player"),
        ("glibc", "sound"),
        ("glibc", "server-a"),
        ("glibc", "server-b"),
        ("player", "sound"),
        ("player", "server-a"),
    }


def test_hubs_are_left_out_before_whatever_they_leave_alone(lists: PackageLists) -> None:
    made = debian(lists, hub_degree=3)
    assert _pairs(made) == {("player", "sound"), ("player", "server-a")}
    assert made.entities["id"].to_pylist() == ["player", "server-a", "sound"]
    assert made.record.drops == {"hub_packages": 1, "packages_without_relation": 2}
    assert _pairs(debian(lists, hub_degree=None)) == _pairs(debian(lists, hub_degree=4))


def test_text_is_the_short_description_and_the_first_words_of_the_long_one(
    lists: PackageLists,
) -> None:
    texts = dict(
        zip(*debian(lists).entities.select(["id", "text"]).to_pydict().values(), strict=True)
    )
    assert texts["player"] == "music player. Plays music from disk. And streams."
    assert texts["sound"] == "sound library"
    assert describe("a\n b c d", 2) == "a. b c"
    assert describe("a\n b c d", 0) == "a"


def test_each_description_is_read_once_however_many_relations_it_has(
    lists: PackageLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = []

    def counting(description: str, max_words: int) -> str:
        described.append(description)
        return describe(description, max_words)

    monkeypatch.setattr("reldp.graph.recipes.debian.describe", counting)
    assert len(_pairs(debian(lists))) == 6
    assert len(described) == 5


def test_words_beyond_the_limit_are_not_split() -> None:
    tracemalloc.start()
    assert describe("short\n " + "w " * 1_000_000, 3) == "short. w w w"
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_the_representative_has_the_sources_name_or_else_the_shortest_main_name() -> None:
    def pick(source: str, *names: str) -> str:
        return representative(source, [_binary(name) for name in names]).name

    assert pick("s", "a", "s") == "s"
    assert pick("s", "libs-dev", "libs1.0-plugin", "python3-s", "s-doc") == "python3-s"
    assert pick("s", "s-dev", "s-data") == "s-dev"


def test_a_domain_is_an_archive_section(lists: PackageLists) -> None:
    made = debian(lists, domains=["sound"])
    assert _pairs(made) == {("player", "server-a")}
    assert set(made.entities["domain"].to_pylist()) == {"sound"}
    assert made.record.drops == {"packages_of_other_sections": 4}
    with pytest.raises(InputError, match="libs, net, sound, got 'audio'"):
        debian(lists, domains=["audio"])


def test_the_record_names_release_and_lists_but_no_mirror_and_no_path(
    lists: PackageLists, tmp_path: Path
) -> None:
    record = debian(lists).record
    assert record.version == "Debian 12.15 bookworm"
    assert sorted(record.hashes) == [
        "bookworm_main_binary-amd64_Packages",
        "bookworm_main_i18n_Translation-en",
    ]
    assert "mirror" not in record.to_json()
    assert str(tmp_path) not in record.to_json()
    assert any("1 of 7 binary packages have a long one" in note for note in record.notes)


def test_the_largest_list_wins_and_repeats_are_counted(tmp_path: Path) -> None:
    folder = write_lists(tmp_path / "lists")
    security = (
        "Package: player\nSection: sound\nDescription: patched\n\nPackage: late\nDescription: x\n"
    )
    (folder / "mirror_dists_bookworm-security_main_binary-amd64_Packages.gz").write_bytes(
        gzip.compress(security.encode())
    )
    lists = read_lists(folder)
    assert lists.num_repeated == 1
    assert len(lists.binaries) == 8
    assert next(b for b in lists.binaries if b.name == "player").description.startswith("music")


def test_lists_without_long_descriptions_use_the_short_ones(tmp_path: Path) -> None:
    lists = read_lists(write_lists(tmp_path / "lists", translations=False))
    assert lists.num_described == 0
    assert "music player" in debian(lists).entities["text"].to_pylist()


def test_a_folder_without_lists_says_what_to_do(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(GraphError, match="apt-get update"):
            read_lists(folder)


def test_a_damaged_list_is_named(tmp_path: Path) -> None:
    (tmp_path / "x_Packages.gz").write_bytes(b"\x1f\x8bbroken")
    with pytest.raises(GraphError, match=r"x_Packages\.gz"):
        read_lists(tmp_path)


def test_options_out_of_range_are_refused(lists: PackageLists) -> None:
    with pytest.raises(InputError, match="hub_degree"):
        debian(lists, hub_degree=0)
    with pytest.raises(InputError, match="max_words"):
        debian(lists, max_words=-1)
    with pytest.raises(GraphError, match="at least one relation"):
        debian(lists, hub_degree=1)


def test_downloading_uses_a_folder_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lists = write_lists(tmp_path / "lists")
    apt = tmp_path / "apt-get"
    apt.write_text(
        "#!/bin/sh\n"
        'for o in "$@"; do case "$o" in *Dir::State::Lists=*) to="${o##*=}";; esac; done\n'
        f"cp '{lists}'/* \"$to\"\n"
    )
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert download_lists().binaries == read_lists(lists).binaries
    apt.write_text("#!/bin/sh\necho 'E: no network' >&2\nexit 100\n")
    with pytest.raises(GraphError, match="E: no network"):
        download_lists()
    monkeypatch.setenv("PATH", str(tmp_path / "lists"))
    with pytest.raises(GraphError, match="needs apt-get"):
        download_lists()


def test_a_release_file_that_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    folder = write_lists(tmp_path / "lists")
    odd = folder / "x_Release"
    for make in (
        lambda: os.mkfifo(odd),
        lambda: odd.symlink_to("/dev/zero"),
        lambda: odd.symlink_to(tmp_path / "nowhere"),
        lambda: odd.mkdir(),
    ):
        make()
        with pytest.raises(GraphError, match="regular files, got x_Release, which is not one"):
            read_lists(folder)
        odd.rmdir() if odd.is_dir() else odd.unlink()
    assert read_lists(folder).release == "Debian 12.15 bookworm"


def test_a_release_file_of_limited_size_is_read(tmp_path: Path) -> None:
    folder = write_lists(tmp_path / "lists")
    with (folder / "x_Release").open("wb") as file:
        file.truncate(20 << 30)
    with pytest.raises(GraphError, match=r"at most 16,777,216 bytes in a file, .* in x_Release"):
        read_lists(folder)
    (folder / "x_Release").unlink()
    (folder / "x_Release.gz").write_bytes(gzip.compress(b"Origin: x\n" + bytes(20 << 20), 0)[:9999])
    with pytest.raises(GraphError, match=r"x_Release\.gz"):
        read_lists(folder)
    (folder / "x_Release.gz").write_bytes(gzip.compress(os.urandom(1 << 19) + bytes(20 << 20)))
    with pytest.raises(GraphError, match=r"unpack to at most 16,777,216 bytes, got more in x_Rel"):
        read_lists(folder)
