"""Compare capping in Spark rounds with `cap_degrees` on a bundled graph; run by scripts/test-spark."""

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from examples.spark_capping import cap
from pyspark.sql import SparkSession

from reldp.graph.bundled import load


def main(name: str = "wordnet-verbs") -> int:
    """Return 0 if all caps agree."""
    graph = load(name)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    wrong = 0
    ids = graph.ids.cast(pa.string())
    with tempfile.TemporaryDirectory() as folder:
        _, table = graph.to_arrow()
        pq.write_table(
            table.cast(pa.schema([(n, pa.string()) for n in table.column_names])),
            Path(folder) / "r.parquet",
        )
        relations = spark.read.parquet(f"{folder}/r.parquet")
        some = spark.createDataFrame([(value,) for value in ids.to_pylist()[::7]], "id string")
        for max_degree, seed, unprotected in ((5, 0, None), (1, 7, None), (2, 3, some)):
            selected, rounds = cap(relations, max_degree, seed, unprotected)
            got = {(row.source, row.target) for row in selected.collect()}
            expected = expected_pairs(graph, max_degree, seed, unprotected is not None)
            agrees = got == expected
            wrong += not agrees
            print(
                f"K = {max_degree}, seed {seed}: kept {len(got):,} in {rounds} rounds, same: {agrees}"
            )
    spark.stop()
    return 1 if wrong else 0


def expected_pairs(graph, max_degree, seed, some_unprotected):
    """Return what `cap_degrees` keeps, as pairs of ids."""
    if some_unprotected:
        flags = pa.array([row % 7 > 0 for row in range(graph.num_entities)])
        entities = graph.entities.append_column("protected", flags)
        graph = type(graph).from_arrow(entities, graph.to_arrow()[1])
    _, table = graph.cap_degrees(max_degree, seed).to_graph().to_arrow()
    columns = [table.column(name).cast(pa.string()).to_pylist() for name in ("source", "target")]
    return set(zip(*columns, strict=True))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
