"""Spark's own Kafka connector and our source and sink in one session, case by case; run as a script.

    python connector_job.py JARS SERVERS

Prints a line of JSON per case. Writing cases write to `ours-N` and `theirs-N`, which the caller compares.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.e2e.spark.connector_cases import READING, WRITING, Reading

import goqueue.pipeline

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def main() -> None:
    jars, servers = sys.argv[1:3]
    settings = {"spark.jars": jars, "spark.sql.shuffle.partitions": "2"}
    spark = goqueue.pipeline.session("connector", master="local[2]", config=settings)
    server = {"kafka.bootstrap.servers": servers}
    for case in READING:
        print(json.dumps({"case": case.name, **_compared(spark, case, server)}), flush=True)
    rows = spark.range(60).selectExpr(
        "id AS n",
        "CAST(concat('k', id % 7) AS BINARY) AS key",
        "CAST(concat('value ', id) AS BINARY) AS value",
        "array(struct('h' AS key, CAST(id AS STRING) AS value)) AS plain",
    )
    rows = rows.selectExpr(
        "n", "key", "value", "transform(plain, h -> struct(h.key, CAST(h.value AS BINARY) AS value)) AS headers"
    )
    rows.createOrReplaceTempView("rows")
    for number, case in enumerate(WRITING):
        told = {}
        for name, of in (("ours", "goqueue"), ("theirs", "kafka")):
            writer = spark.sql(case.query).coalesce(1).write.format(of).mode("append")
            told[name] = _tried(writer.options(**server, topic=f"{name}-{number}", includeHeaders="true").save)
        print(json.dumps({"case": case.name, **told}), flush=True)
    print(json.dumps({"case": "stream", **_streamed(spark, server)}), flush=True)


def _compared(spark: Any, case: Reading, server: dict[str, str]) -> dict[str, Any]:
    columns = [*COLUMNS, *(["headers"] if "includeHeaders" in case.options else [])]
    told: dict[str, Any] = {}
    tables = {}
    for name, of in (("ours", "goqueue"), ("theirs", "kafka")):

        def read(name: str = name, of: str = of) -> int:
            loaded = spark.read.format(of).options(**server, **case.options).load().select(*columns).persist()
            tables[name] = loaded
            return int(loaded.count())

        told[name] = _tried(read)
    if len(tables) == 2 and all(isinstance(told[name], int) for name in tables):
        left, right = tables["ours"], tables["theirs"]
        told["different"] = left.exceptAll(right).count() + right.exceptAll(left).count()
        told["schema"] = left.dtypes == right.dtypes
    return told


def _streamed(spark: Any, server: dict[str, str]) -> dict[str, Any]:
    """Batches of a stream with a limit: as many as there are rows, and no row twice."""
    told = {}
    for name, of in (("ours", "goqueue"), ("theirs", "kafka")):
        options = {**server, "subscribe": "plain", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
        stream = spark.readStream.format(of).options(**options).load().select("partition", "offset")
        query = stream.writeStream.format("memory").queryName(f"seen_{name}").trigger(availableNow=True).start()
        query.awaitTermination()
        seen = spark.table(f"seen_{name}")
        told[name] = [seen.count(), seen.distinct().count(), max(one["numInputRows"] for one in query.recentProgress)]
    return told


def _tried(work: Any) -> Any:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - whatever either of them refuses with
        return f"refused: {str(error).splitlines()[0][:300]}"


if __name__ == "__main__":
    main()
