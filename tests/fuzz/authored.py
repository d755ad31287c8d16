"""Targets whose author knows the formats: model folders and runs with edits at any depth of their JSON.

Random bytes end at the first check of a reader. Here values are edited after parsing, and a run's hashes are
computed again, so that what follows the first check is reached.
"""

import contextlib
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

from reldp.errors import GraphError, ReldpError
from reldp.graph import EntityGraph
from reldp.graph.inspection import inspect_graph
from reldp.graph.store import build_store
from reldp.noise.streams import Streams
from reldp.plan import PrivacyPlan
from reldp.sampling.sampler import TupleSampler
from tests.encoders.tiny import TEXTS
from tests.fuzz import templates
from tests.fuzz.calls import Refused, call
from tests.fuzz.damage import damage_file, damaged, is_undamaged
from tests.fuzz.trees import edit_json_file, edited_tree, rewrite_json
from tests.graph.store import rewriting

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
        folder,
        pooling=None if is_undamaged(random) else random.choice(_POOLINGS),
        train="lora" if is_undamaged(random) else random.choice(_TRAINED),
        lora_rank=2,
    )
    encoder.encode(random.sample(TEXTS, 3))


def edit_header(random, path: Path) -> None:
    """Edit the JSON header of a safetensors file, and state its length."""
    if is_undamaged(random):
        return
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


_READERS = ("verify", "verify", "report", "publish", "evaluate", "encode", "finish", "abandon")
_OF_COMPLETE_RUNS = _READERS[:-2]


def authored_run(random, home: Path) -> None:
    """A run or a bundle that somebody wrote: values changed, and all hashes computed again."""
    run = home / "run"
    templates.copy_run(_template(random), run)
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
    words = random.choice(_OF_COMPLETE_RUNS if is_undamaged(random) else _READERS)
    more = {
        "publish": ["-o", home / "new"],
        "evaluate": ["--graph", graph, "--candidates", "8"],
        "encode": ["--graph", graph, "-o", home / "x.parquet"],
    }
    well, _ = call(words, run, *more.get(words, ()), codes=(0, 2, 3))
    if not well:
        raise Refused


def _template(random):
    return "run" if is_undamaged(random) else random.choice(("run", "run", "run bundle", "half"))


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
    rewrite_json(path, stated)


def authored_store(random, home: Path) -> None:
    """A store that somebody wrote: arrays and columns with other values, under hashes that fit."""
    place = home / "store"
    shutil.copytree(_whole_store(), place)
    edited = place
    if random.random() < 0.5:  # the store as it is, and something else beside it
        _use_store(EntityGraph.read(place))
        folders = [path.parent for path in sorted(place.glob("*/*/derived.json"))]
        edited = random.choice([folder for folder in folders if folder.parent.name != "names"])
    files = sorted(path for path in edited.iterdir() if path.suffix in (".npy", ".arrow"))
    for path in random.sample(files, k=min(len(files), random.choice((1, 1, 2)))):
        if path.suffix == ".npy":
            rewriting.write_array(path, _edited_array(random, np.load(path)))
        else:
            rewriting.write_columns(path.parent, _edited_columns(random, path.parent))
    if random.random() < 0.3:
        edit_json_file(random, random.choice(sorted(edited.glob("[ds]*.json"))), most=2)
    elif edited == place and random.random() < 0.7:
        with contextlib.suppress(GraphError):
            rewriting.keep_fingerprint(place)
    _use_store(EntityGraph.read(place))


def _whole_store() -> Path:
    """A store with columns, features and types of every kind, made by the first case that needs it."""
    place = templates.PLACE / "whole store"
    if not place.is_dir():
        count = 30
        pairs = [(i, (i * i + k) % count) for i in range(count) for k in (7, 11)]
        pairs = [(one, other) for one, other in pairs if one != other]
        graph = EntityGraph.from_lists(
            [f"entity {i}" for i in range(count)],
            [(f"entity {one}", f"entity {other}") for one, other in pairs],
            types=[("likes", "knows")[one % 2] for one, _ in pairs],
            text=[f"text {i} of entity {i // 2}" for i in range(count)],
            features=np.arange(2.0 * count).reshape(count, 2),
            protected=[i % 5 > 0 for i in range(count)],
        )
        graph.write(templates.PLACE / "whole graph", overwrite=True)
        build_store(templates.PLACE / "whole graph", place)
    return place


def _use_store(graph) -> None:
    """Inspect, split and cap a store, and draw the batches of a few steps."""
    inspect_graph(graph, caps=(1, 3))
    mask = np.arange(graph.num_relations) % 2 == 0
    parts = [graph.keep_relations(mask, record=graph.record)]
    parts.append(graph.select_entities(np.arange(graph.num_entities) % 2 == 0))
    for part in (graph, *parts):
        capped = part.cap_degrees(2, seed=0)
        _ = capped.fingerprint, part.owner_degrees
        sampler = TupleSampler(capped, sample_rate=0.1, num_negatives=2, streams=Streams(bytes(32)))
        for step in range(3):
            batch = sampler.sample(step)
            graph.text(
                np.unique(
                    np.concatenate([batch.positives.reshape(-1), batch.negatives.reshape(-1)])
                )
            )


_ODD_NUMBERS = (-1, -3, 0, 1, 7, 10**6, 2**31 - 1, 2**40, 2**62, -(2**62), -(2**63))


def _edited_array(random, array):
    """An array with another value, row, order, length, type or shape."""
    if is_undamaged(random):
        return array
    edit, array = random.randrange(9), array.copy()
    if not array.size or edit == 0:
        return array.astype(random.choice(("i1", "i4", "i8", ">i8", "f4", "f8", "u8", "?")))
    row, other = (random.randrange(len(array)) for _ in range(2))
    if edit <= 3:
        with np.errstate(all="ignore"):
            place = np.unravel_index(random.randrange(array.size), array.shape)
            array[place] = np.array(random.choice(_ODD_NUMBERS)).astype(array.dtype)
    elif edit == 4:
        array[row] = array[other]
    elif edit == 5:
        array[[row, other]] = array[[other, row]]
    elif edit == 6:
        array[row] = array[row, ::-1] if array.ndim == 2 else array[row] + 1
    elif edit == 7:
        array = random.choice((array[:-1], np.concatenate([array, array[:1]]), array[:0]))
    else:
        array = random.choice((array.reshape(-1), array[None], array.reshape(1, -1), array.T))
    return array


def _edited_columns(random, store: Path):
    """The columns of entities with another value, type, name, order or number of rows."""
    table = rewriting.read_columns(store)
    if is_undamaged(random):
        return table
    place, edit = random.randrange(table.num_columns), random.randrange(6)
    name, column = table.column_names[place], table.column(place)
    values = column.to_pylist()
    row, other = (random.randrange(len(values)) for _ in range(2))
    if edit == 0:
        names = [
            random.choice(("owner", "protected", "id", "NaN")) if n == name else n
            for n in table.column_names
        ]
        return table.rename_columns(names)
    if edit == 1:
        kind = random.choice((pa.int64(), pa.float64(), pa.bool_(), pa.large_string()))
        return table.set_column(place, name, pa.nulls(len(values), kind))
    if edit == 2:
        return random.choice((table.slice(1), pa.concat_tables([table, table.slice(0, 1)])))
    if edit == 3:
        return table.select(random.sample(table.column_names, table.num_columns))
    is_text = pa.types.is_large_string(column.type)
    values[row] = random.choice(
        (None, values[other], *(("", " ", "\x00", "é" * 500) if is_text else ()))
    )
    return table.set_column(place, name, pa.array(values, column.type))
