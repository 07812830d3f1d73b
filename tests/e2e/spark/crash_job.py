"""A streaming job that copies one topic to another, for tests that kill it: run as a script.

    python crash_job.py SERVERS SOURCE TARGET CHECKPOINT HOME

Reads what there is, in batches of 200 offsets, and ends. A query that fails is started again, as
a supervisor would, and `again` is printed; `done` when all is copied.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.errors import StreamingQueryException

import goqueue.pipeline

STARTS_MAX = 20


def main() -> None:
    servers, source, target, checkpoint, home = sys.argv[1:6]
    spark = goqueue.pipeline.session("crash", master="local[2]", home=home)
    for _ in range(STARTS_MAX):
        try:
            copy(spark, servers, source, target, checkpoint)
        except StreamingQueryException as error:
            print("again", flush=True)
            print(str(error).splitlines()[0], file=sys.stderr, flush=True)
        else:
            print("done", flush=True)
            return


def copy(spark: Any, servers: str, source: str, target: str, checkpoint: str) -> None:
    stream = spark.readStream.format("goqueue").option("kafka.bootstrap.servers", servers)
    stream = stream.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="200").load()
    query = (
        stream.select("key", "value")
        .writeStream.format("goqueue")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
