"""Small real-format sources that the recipe tests share: a WordNet dict, a .deb, apt lists."""

import io
import tarfile
from pathlib import Path

HEADER = "".join(
    f"  {number} {line}  \n"  # the original ends its lines with two blanks
    for number, line in enumerate(
        (
            "This software and database is being provided to you, the LICENSEE, by",
            "Princeton University under the following license.",
            "",
            "WordNet 3.0 Copyright 2006 by Princeton University.  All rights reserved.",
        ),
        start=1,
    )
)

# dog -> canine -> animal; wolf -> canine; hypernyms both ways; an antonym; a derivation;
# "tail" is part of dog (#p/%p); "loner" is linked by the left-out kinds only.
NOUNS = (
    "00000100 03 n 01 animal 0 001 ~ 00000200 n 0000 | a living organism  ",
    "00000200 05 n 02 canine 0 canid 0 003 @ 00000100 n 0000 ~ 00000300 n 0000 ~ 00000400 n 0000 "
    '| any of various fissiped mammals; "a canine tooth"  ',
    "00000300 05 n 06 dog 0 domestic_dog 0 Canis_familiaris 0 pooch 0 doggie 0 barker 0 003 "
    "@ 00000200 n 0000 %p 00000500 n 0000 + 00000900 v 0101 | a member of the genus Canis  ",
    "00000400 05 n 01 wolf 0 001 @ 00000200 n 0000 | any of various predatory canines  ",
    "00000500 05 n 01 tail 0 001 #p 00000300 n 0000 | the posterior part of the body  ",
    "00000600 18 n 01 loner 0 002 ! 00000100 n 0101 + 00000900 v 0101 | one who is alone  ",
)
VERBS = (
    "00000900 38 v 02 dog 0 chase 0 003 @ 00000950 v 0000 + 00000300 n 0101 ;c 00000100 n 0000 "
    "01 + 08 00 | go after with the intent to catch  ",
    "00000950 38 v 01 pursue 0 001 ~ 00000900 v 0000 02 + 08 00 + 02 00 | follow to catch  ",
)
ADJECTIVES = (
    "00000010 00 a 01 plenty(p) 0 001 & 00000020 a 0000 | existing in abundance  ",
    "00000020 00 s 02 galore(ip) 0 abundant(a) 0 001 & 00000010 a 0000 | in great numbers  ",
)


def data_file(lines: tuple[str, ...]) -> bytes:
    return (HEADER + "\n".join(lines) + "\n").encode()


def wordnet_files() -> dict[str, bytes]:
    return {
        "data.noun": data_file(NOUNS),
        "data.verb": data_file(VERBS),
        "data.adj": data_file(ADJECTIVES),
    }


def write_dict(folder: Path) -> Path:
    folder.mkdir()
    for name, data in wordnet_files().items():
        (folder / name).write_bytes(data)
    return folder


def _tar(files: dict[str, bytes], mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _ar(members: dict[str, bytes]) -> bytes:
    out = b"!<arch>\n"
    for name, data in members.items():
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode()
        out += data + b"\n" * (len(data) % 2)
    return out


def write_ar(path: Path, members: dict[str, bytes]) -> Path:
    path.write_bytes(_ar({"debian-binary": b"2.0\n", **members}))
    return path


def write_deb(path: Path, files: dict[str, bytes], control: str, compression: str = "xz") -> Path:
    control_tar = _tar({"./control": control.encode()}, "w:gz")
    data_tar = _tar({f"./{name}": data for name, data in files.items()}, f"w:{compression}")
    return write_ar(path, {"control.tar.gz": control_tar, f"data.tar.{compression}": data_tar})


def write_wordnet_deb(path: Path) -> Path:
    files = {f"usr/share/wordnet/{name}": data for name, data in wordnet_files().items()}
    return write_deb(path, files, "Package: wordnet-base\nVersion: 1:3.0-37\n")


PACKAGES = """\
Package: libc6
Source: glibc
Section: libs
Description: GNU C Library

Package: player
Section: sound
Depends: libc6 (>= 2.4), libsound1, codec | other-codec
Recommends: sound-server
Description: music player

Package: libsound-dev
Source: sound (1.0)
Section: libdevel
Depends: libc6, libsound1 (= 1.0)
Description: sound headers

Package: libsound1
Source: sound (1.0)
Section: libs
Pre-Depends: libc6
Suggests: player
Provides: codec
Description: sound library

Package: server-a
Section: sound
Depends: libc6:any
Enhances: player
Provides: sound-server
Description: first server

Package: server-b
Section: net
Depends: libc6
Provides: sound-server
Description: second server

Package: hermit
Section: net
Description: needs nobody
"""

TRANSLATIONS = """\
Package: player
Description-md5: 0
Description-en: music player
 Plays   music from
 disk.
 .
 And streams.
"""

RELEASE = "Origin: Debian\nVersion: 12.15\nCodename: bookworm\n"


def write_lists(folder: Path, translations: bool = True) -> Path:
    folder.mkdir()
    stem = "mirror.example.org_debian_dists_bookworm"
    (folder / f"{stem}_main_binary-amd64_Packages").write_text(PACKAGES)
    (folder / f"{stem}_InRelease").write_text(RELEASE)
    if translations:
        (folder / f"{stem}_main_i18n_Translation-en").write_text(TRANSLATIONS)
    return folder
