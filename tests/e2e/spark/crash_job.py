"""A streaming job that copies one topic to another, for tests that kill it: run as a script.

    python crash_job.py SERVERS SOURCE TARGET CHECKPOINT HOME

Reads what there is, in batches of 200 offsets, and ends. Prints `done` when all is copied.
"""

from __future__ import annotations

import sys

import goqueue.pipeline


def main() -> None:
    servers, source, target, checkpoint, home = sys.argv[1:6]
    spark = goqueue.pipeline.session("crash", master="local[2]", home=home)
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
    print("done", flush=True)


if __name__ == "__main__":
    main()
