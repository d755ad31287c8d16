"""Graph stores at growing sizes: build, inspect, cap, first training step; seconds, memory, cost per relation.

Makes a source of Parquet files with text ids, texts and power-law degrees for each size, then runs every phase in a
fresh process whose anonymous memory is sampled with that of its children (RssAnon: mapped pages do not count). The
comparison joins ids and caps degrees with pandas, Polars and plain DuckDB SQL, as one would without reldp. Next to
every number stands what else the machine did: the processor time of other programs, time that the hypervisor took, and
how often the phase had to give up a core. One run:

    python benchmarks/store.py --size 200000x2000000 --size 2000000x20000000 --size 20000000x200000000 \
        --folder /data/bench -o benchmarks/results/store.json
    python benchmarks/store.py --phases pandas polars duckdb --timeout 600 --kill-above-gb 18 ...  # the same sizes
"""

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

EXPONENT = 0.6  # entity i is an endpoint with probability proportional to (i + 1)**-EXPONENT
MAX_DEGREE, BATCH_SIZE = 5, 16
DROP = ("duplicate_relations", "self_relations")
LIMITS = {"build": 20 * 60, "cap": 8 * 60, "first_step": 60}  # seconds at 200 million relations
LIMIT_GB, LIMIT_RATIO, LIMIT_SAMPLE_MS = 6.0, 3.0, 1.0
PHASES = ("build", "cap", "first_step", "inspect")
OTHER_PHASES = ("floor", "in_memory")
RIVALS = ("pandas", "polars", "duckdb")


# --- the source -------------------------------------------------------------------------------------


def ids_of(indices: npt.NDArray[np.int64]) -> Any:
    """Text ids of 13 characters that do not follow the entities' order."""
    numbers = pa.array((indices * 7_368_787 + 11) % 9_999_999_967)
    padded = pc.utf8_lpad(numbers.cast(pa.string()), 10, "0")
    return pc.binary_join_element_wise("cu-", padded, "")


def texts_of(count: int, words: Any, rng: np.random.Generator) -> Any:
    """Texts whose numbers of words are log-normal (median 12) and whose words follow a power law."""
    lengths = np.clip(np.exp(rng.normal(np.log(12), 0.5, count)), 2, 80).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    draws = (rng.random(offsets[-1]) ** 3 * len(words)).astype(np.int64)
    return pc.binary_join(pa.ListArray.from_arrays(offsets, words.take(pa.array(draws))), " ")


def vocabulary(rng: np.random.Generator, count: int = 20_000) -> Any:
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    sizes = rng.integers(2, 10, count)
    return pa.array(["".join(rng.choice(letters, size)) for size in sizes])


def write_source(folder: Path, num_entities: int, num_relations: int) -> None:
    """Write `entities/part-*.parquet` and `relations/part-*.parquet`, a bounded number of rows at a time."""
    rng = np.random.default_rng(0)
    words = vocabulary(rng)
    for role in ("entities", "relations"):
        (folder / role).mkdir(parents=True)
    for part, start in enumerate(range(0, num_entities, 2_000_000)):
        with _writer(folder / "entities", part, ("id", "text")) as writer:
            stop = min(start + 2_000_000, num_entities)
            for begin in range(start, stop, 250_000):
                count = min(250_000, stop - begin)
                ids = ids_of(np.arange(begin, begin + count))
                texts = texts_of(count, words, rng)
                writer.write_table(pa.table({"id": ids, "text": texts}))
    step = 982_451_653 % num_entities or 1  # hubs stand anywhere
    while np.gcd(step, num_entities) != 1:
        step += 1
    for part, start in enumerate(range(0, num_relations, 10_000_000)):
        with _writer(folder / "relations", part, ("source", "target")) as writer:
            stop = min(start + 10_000_000, num_relations)
            for begin in range(start, stop, 1_000_000):
                count = min(1_000_000, stop - begin)
                ranks = (rng.random((2, count)) ** (1 / (1 - EXPONENT)) * num_entities).astype(
                    np.int64
                )
                endpoints = [ids_of(rank * step % num_entities) for rank in ranks]
                writer.write_table(pa.table({"source": endpoints[0], "target": endpoints[1]}))


def _writer(folder: Path, part: int, names: tuple[str, str]) -> Any:
    schema = pa.schema([(name, pa.string()) for name in names])
    return pq.ParquetWriter(
        folder / f"part-{part:04}.parquet", schema, compression="zstd", use_dictionary=False
    )


# --- phases, each in its own process ----------------------------------------------------------------


class Watch:
    """Sample the anonymous memory of a process and its children five times a second; end it above a limit."""

    def __init__(self, process: subprocess.Popen[str], kill_above_gb: float | None) -> None:
        self.peak, self.killed = 0, False
        self._process, self._limit = process, kill_above_gb
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            self.peak = max(self.peak, anonymous(self._process.pid))
            if self._limit and self.peak > self._limit * 1e9 and not self.killed:
                self.killed = True
                self._process.kill()

    def finish(self) -> float:
        """Stop, and return the most that was seen, in GB."""
        self._stop.set()
        self._thread.join()
        return round(self.peak / 1e9, 3)


def anonymous(pid: int) -> int:
    """Bytes of anonymous memory of a process and of all that it started."""
    parents: dict[int, int] = {}
    memory: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = status.read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        number = int(fields["Pid"])
        parents[number] = int(fields["PPid"])
        memory[number] = int(fields.get("RssAnon", "0 kB").split()[0]) * 1024
    family = {pid}
    while more := {n for n, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(memory.get(number, 0) for number in family)


class Disturbance:
    """What the rest of the machine did between two moments, and how it held this process up."""

    def __init__(self) -> None:
        self._load, self._begun = os.getloadavg()[0], self._now()

    @staticmethod
    def _now() -> tuple[float, float, float, int]:
        ticks = [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        user, nice, system, _idle, _wait, irq, softirq, steal = ticks[:8]
        hertz = os.sysconf("SC_CLK_TCK")
        switches = sum(
            resource.getrusage(who).ru_nivcsw
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        busy = (user + nice + system + irq + softirq) / hertz
        return busy, steal / hertz, cpu_seconds(), switches

    def finish(self) -> dict[str, Any]:
        """Return what happened since the beginning."""
        busy, steal, phase, switches = (
            after - before for after, before in zip(self._now(), self._begun, strict=True)
        )
        return {
            "others_cpu_seconds": round(max(0.0, busy - phase), 1),
            "stolen_seconds": round(steal, 1),
            "involuntary_switches": switches,
            "load_average": [round(self._load, 1), round(os.getloadavg()[0], 1)],
        }


def cpu_seconds() -> float:
    """Processor time of this process and of those that it waited for."""
    return sum(os.times()[:4])


def build(folder: Path, memory_limit: str | None) -> dict[str, Any]:
    from reldp.graph.store import BuildSettings, build_store

    seconds: dict[str, float] = {}

    def note(tick: Any) -> None:
        seconds[tick.phase] = round(tick.seconds, 1)

    graph = build_store(
        folder / "source",
        folder / "store",
        drop=DROP,
        settings=BuildSettings(memory_limit=memory_limit),
        report=note,
    )
    size = sum(path.stat().st_size for path in (folder / "store").iterdir())
    return {
        "num_entities": graph.num_entities,
        "num_relations": graph.num_relations,
        "drops": dict(graph.record.drops),
        "store_gb": round(size / 1e9, 2),
        "phases": seconds,
        "fingerprint": graph.fingerprint[:16],
    }


def inspect(folder: Path, memory_limit: str | None) -> dict[str, Any]:
    from reldp import EntityGraph
    from reldp.graph.inspection import inspect_graph

    report = inspect_graph(EntityGraph.read(folder / "store"))
    return {
        "largest_degree": report.degrees.largest,
        "caps": [c.num_relations for c in report.caps],
    }


def cap(folder: Path, memory_limit: str | None) -> dict[str, Any]:
    from reldp import EntityGraph

    seconds: dict[str, float] = {}

    def note(tick: Any) -> None:
        seconds[tick.phase] = round(tick.seconds, 1)

    graph: Any = EntityGraph.read(folder / "store")
    capped = graph.cap_degrees(MAX_DEGREE, seed=0, report=note)
    return {"kept": capped.num_relations, "phases": seconds}


def first_step(folder: Path, memory_limit: str | None) -> dict[str, Any]:
    """Open the store, map the capped relations and take three private steps, in a recorded run."""
    import reldp

    def capped_graph() -> Any:
        return reldp.EntityGraph.read(folder / "store").cap_degrees(MAX_DEGREE, seed=0)

    return train(folder, capped_graph)


def floor(folder: Path, memory_limit: str | None) -> dict[str, Any]:
    """Take the same steps on a ring of a thousand entities in memory: what does not depend on the size."""
    import reldp

    ids = [f"e{i}" for i in range(1000)]
    texts = texts_of(1000, vocabulary(np.random.default_rng(0)), np.random.default_rng(1))
    graph = reldp.EntityGraph.from_lists(
        ids, list(zip(ids, ids[1:] + ids[:1], strict=True)), text=texts.to_pylist()
    )
    folder.mkdir(parents=True, exist_ok=True)
    return train(folder, lambda: graph.cap_degrees(MAX_DEGREE, seed=0))


def train(folder: Path, capped_graph: Callable[[], Any]) -> dict[str, Any]:
    """Take three private steps; seconds of the clock and of the processor after each stage."""
    import torch

    import reldp

    after: dict[str, list[float]] = {}
    start, begun = time.perf_counter(), time.process_time()

    def done(name: str) -> None:
        passed = time.perf_counter() - start, time.process_time() - begun
        after[name] = [round(seconds, 2) for seconds in passed]

    capped = capped_graph()
    done("capped graph mapped")
    plan = reldp.PrivacyPlan.for_graph(
        capped,
        sizes="public",
        num_negatives=4,
        expected_batch_size=BATCH_SIZE,
        num_steps=3,
        noise_multiplier=1.0,
        delta=1e-9,
    )
    encoder = reldp.TextEncoder.load(
        "sentence-transformers/all-MiniLM-L6-v2", lora_rank=8, max_length=32
    )
    done("encoder loaded")
    step = reldp.PrivateStep(encoder, capped, plan)
    optimizer = torch.optim.SGD(step.parameters.values(), lr=0.01)
    with step.record(folder / "run") as run:
        for number in run:
            run.backward()
            optimizer.step()
            optimizer.zero_grad()
            done(f"step {number}")
    shutil.rmtree(folder / "run")
    return {
        "batch_size": BATCH_SIZE,
        "after_seconds_and_cpu_seconds": after,
        "sample_ms": sample_ms(capped, plan),
    }


def in_memory(folder: Path, memory_limit: str | None) -> dict[str, Any]:
    """Read a source of one file per table into memory and cap it."""
    from reldp import EntityGraph

    graph_folder = folder / "one-file"
    graph_folder.mkdir(exist_ok=True)
    for role in ("entities", "relations"):
        (part,) = (folder / "source" / role).iterdir()
        link = graph_folder / f"{role}.parquet"
        link.unlink(missing_ok=True)
        link.symlink_to(part)
    start = time.perf_counter()
    graph = EntityGraph.read(graph_folder, drop=DROP)
    read = time.perf_counter() - start
    capped = graph.cap_degrees(MAX_DEGREE, seed=0)
    both = time.perf_counter() - start
    return {
        "read_seconds": round(read, 2),
        "cap_seconds": round(both - read, 2),
        "kept": capped.num_relations,
    }


def sample_ms(capped: Any, plan: Any) -> float:
    """Median milliseconds to draw one batch, over steps that read other places every time."""
    from reldp.noise import Streams

    sampler = plan.sampler(capped, Streams(bytes(32)))
    times = []
    for number in range(200):
        start = time.perf_counter()
        sampler.sample(number)
        times.append(time.perf_counter() - start)
    return round(1000 * float(np.median(times)), 3)


def rival(folder: Path, name: str) -> dict[str, Any]:
    """Join ids to row numbers and keep at most K relations per entity, as one would without reldp.

    The usual way with a table: rank the relations of an entity in random order and keep those whose rank is at
    most K at both endpoints. It bounds degrees but keeps fewer relations than the greedy choice.
    """
    work = {"pandas": _pandas, "polars": _polars, "duckdb": _duckdb}[name]
    return {"kept": work(folder / "source")}


def _pandas(source: Path) -> int:
    import pandas as pd

    ids = pd.read_parquet(source / "entities", columns=["id"])["id"]
    index = pd.Series(np.arange(len(ids)), index=ids)
    pairs = pd.read_parquet(source / "relations")
    endpoints = np.stack([index.reindex(pairs[c]).to_numpy() for c in ("source", "target")], axis=1)
    del pairs
    endpoints.sort(axis=1)
    table = pd.DataFrame(endpoints, columns=["one", "other"])
    table = table[table.one != table.other].drop_duplicates()
    table = table.sample(frac=1, random_state=0)
    both = pd.Series(table.to_numpy().reshape(-1))  # row by row, in the order of the relations
    rank = both.groupby(both, sort=False).cumcount().to_numpy().reshape(-1, 2)
    return int(((rank < MAX_DEGREE).all(axis=1)).sum())


def _polars(source: Path) -> int:
    import polars as pl

    ids = pl.scan_parquet(source / "entities" / "*.parquet").select("id").with_row_index("row")
    pairs = pl.scan_parquet(source / "relations" / "*.parquet")
    joined = pairs.join(ids, left_on="source", right_on="id").join(
        ids, left_on="target", right_on="id", suffix="_2"
    )
    table = joined.select(
        one=pl.min_horizontal("row", "row_2"), other=pl.max_horizontal("row", "row_2")
    )
    table = table.filter(pl.col("one") != pl.col("other")).unique()
    table = table.with_columns(key=pl.struct("one", "other").hash(0)).sort("key")
    table = table.with_row_index("order")
    both = pl.concat(
        [table.select("order", end="one"), table.select("order", end="other")]
    ).with_columns(rank=pl.col("order").rank("ordinal").over("end"))
    selected = (
        both.filter(pl.col("rank") <= MAX_DEGREE).group_by("order").len().filter(pl.col("len") == 2)
    )
    return int(selected.select(pl.len()).collect(engine="streaming").item())


def _duckdb(source: Path) -> int:
    import duckdb

    connection = duckdb.connect(
        config={
            "memory_limit": "12GB",  # twice the goal of a store: with 5 GB it fails at 20 million relations
            "preserve_insertion_order": False,  # what its guide advises for queries that run out of memory
            "temp_directory": str(source.parent / "rival"),
        }
    )
    query = f"""
        WITH ids AS (SELECT id, row_number() OVER () AS row FROM '{source}/entities/*.parquet'),
        pairs AS (SELECT DISTINCT least(a.row, b.row) AS one, greatest(a.row, b.row) AS other
                  FROM '{source}/relations/*.parquet' AS r JOIN ids AS a ON r.source = a.id
                  JOIN ids AS b ON r.target = b.id WHERE a.row <> b.row),
        keyed AS (SELECT *, hash(one, other) AS key FROM pairs),
        ranked AS (SELECT row_number() OVER (PARTITION BY one_end ORDER BY key) AS rank, one, other FROM (
                   SELECT one AS one_end, * FROM keyed UNION ALL SELECT other AS one_end, * FROM keyed))
        SELECT count(*) FROM (SELECT one, other FROM ranked WHERE rank <= {MAX_DEGREE}
                              GROUP BY one, other HAVING count(*) = 2)"""
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


WORK: dict[str, Callable[[Path, str | None], dict[str, Any]]] = {
    "build": build,
    "inspect": inspect,
    "cap": cap,
    "first_step": first_step,
    "floor": floor,
    "in_memory": in_memory,
}


def measured(phase: str, folder: Path, memory_limit: str | None) -> dict[str, Any]:
    """Run one phase in this process."""
    disturbance = Disturbance()
    start, begun = time.perf_counter(), cpu_seconds()
    if phase in WORK:
        result = WORK[phase](folder, memory_limit)
    else:
        result = rival(folder, phase)
    return {
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(cpu_seconds() - begun, 2),
        **disturbance.finish(),
        **result,
    }


def run_fresh(phase: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run a phase in a process of its own; one that ends badly is a result too."""
    command = [sys.executable, __file__, "--phase", phase, "--folder", str(folder)]
    command += ["--memory-limit", options.memory_limit] if options.memory_limit else []
    disturbance, start = Disturbance(), time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watch, late = Watch(process, options.kill_above_gb), False
    try:
        output, errors = process.communicate(timeout=options.timeout)
    except subprocess.TimeoutExpired:
        late = True
        process.kill()
        output, errors = process.communicate()
    peak = {"peak_anonymous_gb": watch.finish()}
    if process.returncode == 0:
        return {**json.loads(output.splitlines()[-1]), **peak}
    lines = [line for line in errors.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
    why = lines[-1][:200] if lines else f"exit code {process.returncode}"
    if late:
        why = f"stopped after {options.timeout:.0f} seconds"
    if watch.killed:
        why = f"stopped above {options.kill_above_gb:g} GB"
    seconds = round(time.perf_counter() - start, 1)
    return {"failed": why, "seconds": seconds, **peak, **disturbance.finish()}


def parse_size(text: str) -> tuple[int, int]:
    entities, relations = text.split("x")
    return int(entities), int(relations)


def machine() -> dict[str, Any]:
    def of(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    names = ("numpy", "pyarrow", "duckdb", "pandas", "polars", "torch", "transformers")
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(total / 2**30, 1),
        "python": platform.python_version(),
        "versions": {name: of(name) for name in names},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", action="append", type=parse_size, metavar="ENTITIESxRELATIONS")
    parser.add_argument("--folder", type=Path, required=True, help="Folder for the data, removed.")
    parser.add_argument("--memory-limit", help="Memory limit of the build (default: its own).")
    parser.add_argument(
        "--phases", nargs="*", default=[*PHASES], choices=[*PHASES, *OTHER_PHASES, *RIVALS]
    )
    parser.add_argument("--timeout", type=float, default=3600, help="Seconds for a phase.")
    parser.add_argument("--kill-above-gb", type=float, help="End a phase above this memory.")
    parser.add_argument("--conditions", help="What else ran on the machine, for the reader.")
    parser.add_argument("--keep", action="store_true", help="Keep the data.")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--phase", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.phase:
        print(json.dumps(measured(options.phase, options.folder, options.memory_limit)))
        return 0
    result = earlier(options.output)
    result["conditions"] = options.conditions or result["conditions"]
    for entities, relations in options.size or [(200_000, 2_000_000)]:
        folder = options.folder / f"{entities}x{relations}"
        if not (folder / "source").exists():
            write_source(folder / "source", entities, relations)
        row = row_of(result["rows"], entities, relations)
        for phase in options.phases:
            row[phase] = run_fresh(phase, folder, options)
            print(json.dumps({phase: row[phase]}), file=sys.stderr, flush=True)
            write(result, options.output)
        if not options.keep:
            shutil.rmtree(folder)
    print(json.dumps(result, indent=2))
    return 0


def earlier(output: Path | None) -> dict[str, Any]:
    """Return the results of earlier commands, to which those of this one are added."""
    old = json.loads(output.read_text()) if output and output.exists() else {}
    rows = old.get("rows", [])
    return {
        **old,
        "command": "python benchmarks/store.py --size 200000x2000000 --size 2000000x20000000 "
        "--size 20000000x200000000 --folder FOLDER -o benchmarks/results/store.json",
        "columns": {
            "seconds": "by the clock",
            "cpu_seconds": "processor time of the phase with the processes that it started",
            "others_cpu_seconds": "processor time of all other programs on both cores meanwhile",
            "stolen_seconds": "time of both cores that the hypervisor gave to other machines",
            "involuntary_switches": "how often the phase had to give up a core",
            "load_average": "one-minute load of the machine at the start and at the end",
        },
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "conditions": old.get("conditions", ""),
        "rows": rows,
    }


def row_of(rows: list[dict[str, Any]], entities: int, relations: int) -> dict[str, Any]:
    for row in rows:
        if (row["entities"], row["relations"]) == (entities, relations):
            return row
    rows.append({"entities": entities, "relations": relations})
    return rows[-1]


def costs(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the cost per relation at every size, by the clock and by the processor, and how it grows."""
    table: dict[str, Any] = {}
    for phase in ("build", "cap", "inspect"):
        done = sorted(
            (row["relations"], row[phase]) for row in rows if "cpu_seconds" in row.get(phase, {})
        )
        for unit in ("seconds", "cpu_seconds"):
            values = {f"{size:,}": 1e6 * result[unit] / size for size, result in done}
            if values:
                table[f"{phase}, {unit}"] = {
                    **{size: round(value, 2) for size, value in values.items()},
                    "growth": round(max(values.values()) / min(values.values()), 2),
                }
    return table


def goals(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Return whether the goals hold at the largest size."""
    row = max(rows, key=lambda row: int(row["relations"]))
    if any("seconds" not in row.get(phase, {}) for phase in PHASES):
        return {}
    first = row["first_step"]
    seconds = {phase: row[phase]["seconds"] for phase in ("build", "cap")}
    seconds["first_step"] = first["after_seconds_and_cpu_seconds"]["step 0"][0]
    return {
        **{
            f"{phase} within {LIMITS[phase]} s": seconds[phase] <= LIMITS[phase] for phase in LIMITS
        },
        f"every phase within {LIMIT_GB:g} GB": all(
            row[phase]["peak_anonymous_gb"] <= LIMIT_GB for phase in PHASES
        ),
        f"cost per relation grows at most by {LIMIT_RATIO:g}": all(
            values["growth"] <= LIMIT_RATIO for values in costs(rows).values()
        ),
        f"a batch within {LIMIT_SAMPLE_MS:g} ms": first["sample_ms"] <= LIMIT_SAMPLE_MS,
    }


def write(result: dict[str, Any], output: Path | None) -> None:
    result["microseconds_per_relation"] = costs(result["rows"])
    result["goals_hold"] = goals(result["rows"])
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
