"""Kinds of edits of a run folder. Each takes a `random.Random` and a `Workspace`, and edits it."""

import json

from reldp.errors import ReldpError
from reldp.reporting.publishing import refresh_report
from reldp.runs.certificate_files import write_certificate
from reldp.runs.ledger import _FIRST_LINK, _line
from reldp.runs.run_folder import RunFolder
from tests.reporting.fuzzing.json_edits import edited_text, edited_value

_STRANGERS = (
    *("notes.txt", ".hidden", "key", "audits.json", "plan.json.partial", ".model.x/a", "plan.JSON"),
    *("model/extra.bin", "model/.hidden", "model/sub/file", "model/README.md~", "Model/x", "a\nb"),
    *(
        "checkpoints/step-000000001.safetensors",
        "checkpoints/x/y",
        "checkpoints/.partial",
        "\u0430",
    ),
    *("more/deep/er/x", "report.htm", "certificate.json ", "ledger.jsonl.1", "model/\u202e", "-rf"),
)


def _as_certificate(values):
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def _as_plan(values):
    return json.dumps(values, sort_keys=True, indent=2) + "\n"


def _as_private(values):
    return json.dumps(values, indent=2) + "\n"


def _as_entry(values):
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


WRITERS = {
    "certificate.json": _as_certificate,
    "plan.json": _as_plan,
    "sensitive.json": _as_private,
    "model/encoder.json": _as_private,
}


def _encoded(text):
    return text.encode("utf-8", errors="surrogatepass")


def json_value(random, workspace):
    """A value of a JSON file, or the way in which it is written."""
    name = random.choice(["certificate.json", "certificate.json", *WRITERS])
    if name not in workspace.base:
        return
    text = workspace.base[name].decode()
    workspace.write(name, _encoded(edited_text(random, text, WRITERS[name])))


def epsilon_digits(random, workspace):
    """One of the numbers for epsilon, by a small part of its value."""
    values = json.loads(workspace.base["certificate.json"])
    stated = values["guarantee"]["epsilon"]
    name = random.choice(list(stated))
    stated[name] *= 1 + random.choice((-1, 1)) * 10 ** random.uniform(-12, -1)
    workspace.write("certificate.json", _encoded(_as_certificate(values)))


def entry_value(random, workspace):
    """A value of a ledger entry, the hash left as it was."""
    lines = workspace.base["ledger.jsonl"].decode().splitlines()
    position = random.randrange(len(lines))
    lines[position] = edited_text(random, lines[position], _as_entry)
    workspace.write("ledger.jsonl", _encoded("\n".join(lines) + "\n"))


def entry_forged(random, workspace):
    """A value of a ledger entry, all hashes made anew: what a careful forger would do."""
    entries = [json.loads(line) for line in workspace.base["ledger.jsonl"].splitlines()]
    position = random.randrange(len(entries))
    del entries[position]["hash"]
    try:
        entries[position] = edited_value(random, entries[position])
        workspace.write("ledger.jsonl", _chained(entries))
    except (ValueError, TypeError, AttributeError, RecursionError):  # what no chain can hold
        entry_value(random, workspace)


def ledger_lines(random, workspace):
    """Whole entries gone, twice, or in another order; hashes left or made anew."""
    lines = workspace.base["ledger.jsonl"].splitlines()
    first, second = random.randrange(len(lines)), random.randrange(len(lines))
    action = random.randrange(5)
    if action == 0:
        del lines[first]
    elif action == 1:
        lines.insert(second, lines[first])
    elif action == 2:
        lines[first], lines[second] = lines[second], lines[first]
    elif action == 3:
        del lines[first:]
    else:
        lines.append(random.choice(workspace.lender["ledger.jsonl"].splitlines()))
    if random.random() < 0.5:
        workspace.write("ledger.jsonl", b"".join(line + b"\n" for line in lines))
    else:
        workspace.write("ledger.jsonl", _chained([json.loads(line) for line in lines]))


def republished(random, workspace):
    """A forged ledger with all pages made anew: another run, of which no claim is made but order."""
    entry_forged(random, workspace)
    pages = (
        "certificate.json",
        "certificate.md",
        "model/README.md",
        "report.html",
        "certificate.html",
    )
    workspace.touch(*pages)
    try:
        write_certificate(RunFolder(workspace.path))
        refresh_report(RunFolder(workspace.path))
    except ReldpError:
        return


def raw_bytes(random, workspace):
    """Bytes of any published file."""
    name = random.choice(workspace.published())
    data = bytearray(workspace.base[name])
    position = random.randrange(len(data) or 1)
    action = random.randrange(7)
    if action == 0 and data:
        data[position] ^= 1 << random.randrange(8)
    elif action == 1 and data:
        data[position] = random.randrange(256)
    elif action == 2:
        del data[position : position + random.choice((1, 1, 5, 100))]
    elif action == 3:
        data[position:position] = random.choice(
            (b"\n", b" ", b"\x00", b"0", bytes([random.randrange(256)]))
        )
    elif action == 4:
        del data[position:]
    elif action == 5:
        data += random.choice((b"\n", b" ", b"\x00", b"x", bytes(data)))
    else:
        data[position:position] = data[: random.randrange(1, 50)]
    workspace.write(name, bytes(data))


def files_swapped(random, workspace):
    """A file in the place of another, or of the same name from another run."""
    names = workspace.published()
    first, second = random.choice(names), random.choice(names)
    if random.random() < 0.5:
        workspace.write(first, workspace.base[second])
        workspace.write(second, workspace.base[first])
        return
    for name in random.sample(names, random.randrange(1, 4)):
        if name in workspace.lender:
            workspace.write(name, workspace.lender[name])


def files_renamed(random, workspace):
    """A file gone, or under another name."""
    name = random.choice(workspace.published())
    workspace.remove(name)
    if random.random() < 0.5:
        workspace.write(random.choice(_STRANGERS), workspace.base[name])


def file_added(random, workspace):
    """Something that does not belong there: a file, a folder, a link or a pipe."""
    name = random.choice(_STRANGERS)
    (workspace.path / name).parent.mkdir(parents=True, exist_ok=True)
    action = random.randrange(4)
    if action == 0:
        workspace.write(name, random.choice((b"", b"x", b"{}")))
    elif action == 1:
        workspace.folder(name)
    elif action == 2:
        workspace.link(name, random.choice(("plan.json", "/dev/zero", ".", "nowhere")))
    else:
        workspace.pipe(name)


def file_replaced(random, workspace):
    """A link to the same content, a pipe, a folder or a link to a device in the place of a file."""
    name = random.choice([*workspace.published(), "model", "checkpoints"])
    away = workspace.path.parent / "away"
    action = random.randrange(5)
    if action == 0 and name in workspace.base:
        away.write_bytes(workspace.base[name])
        workspace.link(name, away)
    elif action == 1:
        workspace.pipe(name)
    elif action == 2:
        workspace.remove(name)
        workspace.folder(name + random.choice(("", "/x")))
    elif action == 3:
        workspace.link(name, random.choice(("/dev/zero", "/dev/stdin", name, "nowhere", "/")))
    else:
        workspace.write(name, b"")


def sensitive_file(random, workspace):
    """A file that is never published: no claim is made but order."""
    if "metrics.jsonl" not in workspace.base:
        return
    lines = workspace.base["metrics.jsonl"].decode().splitlines() or ["{}"]
    position = random.randrange(len(lines))
    lines[position] = edited_text(random, lines[position], json.dumps)
    workspace.write("metrics.jsonl", _encoded("\n".join(lines) + "\n"))


def _chained(entries):
    """A ledger of some entries whose hashes are in order."""
    head, text = _FIRST_LINK, b""
    for entry in entries:
        line, head = _line({k: v for k, v in entry.items() if k != "hash"}, head)
        text += line
    return text


# Kinds with their weights, and whether everything but an equivalent edit must be refused.
KINDS = {
    json_value: (39, True),
    epsilon_digits: (1, True),
    entry_value: (10, True),
    entry_forged: (12, True),
    ledger_lines: (6, True),
    raw_bytes: (14, True),
    files_swapped: (4, True),
    files_renamed: (3, True),
    file_added: (4, True),
    file_replaced: (4, True),
    republished: (2, False),
    sensitive_file: (1, False),
}
