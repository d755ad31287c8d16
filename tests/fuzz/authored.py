"""Targets whose author knows the formats: model folders and runs with edits at any depth of their JSON.

Random bytes end at the first check of a reader. Here values are edited after parsing, and a run's hashes are
computed again, so that what follows the first check is reached.
"""

import hashlib
import json
import shutil
from pathlib import Path

from reldp.errors import ReldpError
from reldp.plan import PrivacyPlan
from tests.encoders.tiny import TEXTS
from tests.fuzz import templates
from tests.fuzz.commands import Refused, call
from tests.fuzz.damage import damage_file, damaged
from tests.fuzz.trees import edit_json_file, edited_tree

MODELS = ("bert", "mpnet", "llama", "sentence")
_POOLINGS = (None, None, "mean", "cls", "last")
_TRAINED = ("none", "lora", "lora", "last:1", "head", "full", "pooling")


def model_folder(random, home: Path) -> None:
    """A model folder of somebody else, loaded, and used on texts."""
    from reldp import TextEncoder

    folder = home / "model"
    shutil.copytree(templates.PLACE / random.choice(MODELS), folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    for path in random.sample(files, k=random.choice((1, 1, 1, 2))):
        if path.suffix == ".json" and random.random() < 0.9:
            edit_json_file(random, path, most=2)
        elif path.suffix == ".safetensors" and random.random() < 0.8:
            edit_header(random, path)
        else:
            damage_file(random, path)
    encoder = TextEncoder.load(
        folder, pooling=random.choice(_POOLINGS), train=random.choice(_TRAINED), lora_rank=2
    )
    encoder.encode(random.sample(TEXTS, 3))


def edit_header(random, path: Path) -> None:
    """Edit the JSON header of a safetensors file, and state its length."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = edited_tree(random, json.loads(data[8 : 8 + length]))
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def gguf_file(random, home: Path) -> None:
    """A damaged GGUF file, loaded and used."""
    from reldp import TextEncoder

    data = (templates.PLACE / "model.gguf").read_bytes()
    head = 3000  # where names, numbers and lengths are
    (home / "model.gguf").write_bytes(damaged(random, data[:head]) + data[head:])
    encoder = TextEncoder.load(home / "model.gguf", train="lora", lora_rank=2)
    encoder.encode(random.sample(TEXTS, 3))


_READERS = ("verify", "verify", "report", "publish", "finish", "abandon", "evaluate", "encode")


def authored_run(random, home: Path) -> None:
    """A run or a bundle that somebody wrote: values changed, and all hashes computed again."""
    run = home / "run"
    shutil.copytree(templates.PLACE / random.choice(("run", "run", "run bundle", "half")), run)
    edited = random.choice(
        ("plan.json", "ledger.jsonl", "ledger.jsonl", "certificate.json", "model")
    )
    entries = _entries(run)
    if edited == "ledger.jsonl":
        number = random.choice((0, -1, random.randrange(len(entries))))
        if random.random() < 0.8:
            entries[number] = edited_tree(random, entries[number], most=2)
        else:
            entries = edited_tree(random, entries, most=2)
    elif edited == "model" and (run / "model").is_dir():
        edit_json_file(random, run / "model" / "encoder.json")
        if random.random() < 0.5:
            edit_header(random, run / "model" / "model.safetensors")
    elif (run / edited).is_file():
        edit_json_file(random, run / edited, most=2)
    _rehash(run, entries)
    graph = templates.PLACE / "graph"
    words = random.choice(_READERS)
    more = {
        "publish": ["-o", home / "new"],
        "evaluate": ["--graph", graph, "--candidates", "8"],
        "encode": ["--graph", graph, "-o", home / "x.parquet"],
    }
    well, _ = call(words, run, *more.get(words, ()), codes=(0, 2, 3))
    if not well:
        raise Refused


def _entries(run):
    lines = (run / "ledger.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "hash"} for line in lines]


def _canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _rehash(run, entries):
    """Write the hashes of what the folder holds now, where entries and certificate still have a place for them."""
    digest = _plan_hash(run)
    start = entries[0] if entries and isinstance(entries[0], dict) else {}
    if "plan_hash" in start and digest:
        start["plan_hash"] = digest
    last = entries[-1] if entries and isinstance(entries[-1], dict) else {}
    files = last["model"].get("files") if isinstance(last.get("model"), dict) else None
    for name in files if isinstance(files, dict) else ():
        if name and (run / "model" / name).is_file():
            files[name] = hashlib.sha256((run / "model" / name).read_bytes()).hexdigest()
    head, lines = "0" * 64, []
    for entry in entries:
        head = hashlib.sha256(head.encode() + b"\n" + _canonical(entry)).hexdigest()
        lines.append(_canonical({**entry, "hash": head} if isinstance(entry, dict) else entry))
    (run / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    _state_in_certificate(run / "certificate.json", head, digest, files)


def _plan_hash(run):
    try:
        return PrivacyPlan.from_json((run / "plan.json").read_text()).hash
    except ReldpError:
        return None


def _state_in_certificate(path, head, digest, files):
    if not path.is_file():
        return
    stated = json.loads(path.read_text())
    if isinstance(stated, dict):
        if isinstance(stated.get("ledger"), dict):
            stated["ledger"]["head"] = head
        if "plan_hash" in stated and digest:
            stated["plan_hash"] = digest
        if isinstance(stated.get("model"), dict) and isinstance(files, dict):
            stated["model"]["files"] = files
    path.write_text(json.dumps(stated))
