"""Cap degrees on a Spark cluster: the relations that `cap_degrees` keeps, for graphs that no one machine can sort.

The greedy choice takes relations in the order of a keyed hash and keeps one while both endpoints have room. Rounds give
the same result: among the relations that are still open, keep every one whose rank is below the room at both
endpoints, because even if all relations before it were kept, it would fit; drop those with a full endpoint;
repeat until nothing is open. The relation of highest priority is decided in every round, and few rounds are enough.

    spark-submit examples/spark_capping.py s3://shop/graph s3://shop/capped --max-degree 5 --seed 0

Then `reldp prepare store` turns the output into a store, whose record says that it was capped (docs/large-graphs.md).
"""

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from reldp.graph.keyed_hash import entity_digests, relation_hashes, relation_words

ORDER = ["priority", "tie_2", "tie_1", "tie_0"]  # equal hashes are ordered as in memory
SIGN = np.uint64(
    1 << 63
)  # Spark has no unsigned numbers: with this bit turned, the order is the same


def signed(words: Any) -> list[int]:
    """Return unsigned words as signed ones in the same order."""
    return (words ^ SIGN).view(np.int64).tolist()


def with_priorities(rows: Iterator[Any], seed: int) -> Iterator[tuple[Any, ...]]:
    """Yield source, target and the keyed hash of every relation; runs on the workers."""
    while part := list(islice(rows, 10_000)):
        sources, targets = [row[0] for row in part], [row[1] for row in part]
        digests = entity_digests(pa.array(sources + targets, pa.string()), seed, "cap_degrees")
        count = len(part)
        pairs = np.stack([np.arange(count), np.arange(count, 2 * count)], axis=1)
        words = [relation_hashes(digests, pairs), *relation_words(digests, pairs)]
        yield from zip(sources, targets, *map(signed, words), strict=True)


def cap(relations: Any, max_degree: int, seed: int, unprotected: Any = None) -> Any:
    """Return the relations that stay, and how many rounds it took.

    Args:
        relations: DataFrame with text columns `source` and `target`, each pair once.
        max_degree: The bound.
        seed: Key of the hash.
        unprotected: DataFrame with a column `id`: entities without a bound.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    schema = "source string, target string, priority long, tie_0 long, tie_1 long, tie_2 long"
    pairs = relations.select("source", "target")
    # Plain rows: Arrow, which would be faster, does not work in Spark 3.5 on Java 21.
    hashed = pairs.rdd.mapPartitions(lambda rows: with_priorities(rows, seed))
    still_open = hashed.toDF(schema).localCheckpoint()
    selected, rounds = None, 0
    while not still_open.isEmpty():
        rounds += 1
        used = (
            None
            if selected is None
            else _endpoints(selected).groupBy("end").agg(F.count("*").alias("used"))
        )
        endpoints = _endpoints(still_open).withColumn(
            "rank", F.row_number().over(Window.partitionBy("end").orderBy(*ORDER))
        )
        if used is None:
            endpoints = endpoints.withColumn("used", F.lit(0))
        else:
            endpoints = endpoints.join(used, "end", "left").fillna(0, "used")
        if unprotected is not None:
            free = unprotected.select(F.col("id").alias("end"), F.lit(True).alias("free"))
            endpoints = endpoints.join(free, "end", "left")
            endpoints = endpoints.withColumn(
                "used", F.when(F.col("free"), -(2**62)).otherwise(F.col("used"))
            )
        key = ["source", "target", *ORDER]
        room = F.lit(max_degree) - F.col("used")
        judged = endpoints.groupBy(*key).agg(
            F.min(F.col("rank") <= room).alias("fits"), F.min(room > 0).alias("has_room")
        )
        judged = judged.localCheckpoint()
        chosen = judged.where("fits").select(*key)
        selected = chosen if selected is None else selected.unionByName(chosen)
        selected = selected.localCheckpoint()
        still_open = judged.where("NOT fits AND has_room").select(*key).localCheckpoint()
    result = relations.select("source", "target").limit(0) if selected is None else selected
    return result.select("source", "target"), rounds


def _endpoints(relations: Any) -> Any:
    """Return every relation twice, once for each endpoint."""
    from pyspark.sql import functions as F

    both = F.explode(F.array("source", "target")).alias("end")
    return relations.select("*", both)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", help="Folder with relations/ in Parquet (source, target).")
    parser.add_argument("output", help="Folder for relations/ of the capped graph and its record.")
    parser.add_argument("--max-degree", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("reldp capping").getOrCreate()
    relations = spark.read.parquet(f"{options.source}/relations")
    selected, rounds = cap(relations, options.max_degree, options.seed)
    selected.write.parquet(f"{options.output}/relations")
    record = json.dumps({"source": "", "capped_at": options.max_degree})
    spark.createDataFrame([(record,)], ["value"]).coalesce(1).write.text(f"{options.output}/record")
    print(f"kept {selected.count():,} relations in {rounds} rounds")


if __name__ == "__main__":
    main()
