"""A job that writes the messages of a queue into a Delta table, for tests that kill it: run as a script.

    python queue_job.py SERVERS HTTP TOPIC HOME

Takes what there is, in batches of 100 messages, and ends. A query that fails is started again, as a supervisor would.
"""

from __future__ import annotations

import sys

from pyspark.errors import StreamingQueryException

import goqueue.pipeline
from goqueue.pipeline.declared.form.sinks import DeltaSink
from goqueue.pipeline.declared.running.tables import lake_writer, of_query

STARTS_MAX = 5


def main() -> None:
    servers, http, topic, home = sys.argv[1:5]
    spark = goqueue.pipeline.session("queue", master="local[2]", home=f"{home}/spark")
    for _ in range(STARTS_MAX):
        stream = spark.readStream.format("goqueue").option("kafka.bootstrap.servers", servers).option("http", http)
        stream = stream.options(mode="queue", subscribe=topic, groupId="jobs", maxOffsetsPerTrigger="100")
        rows = stream.option("visibility", "120s").load().selectExpr("CAST(value AS STRING) AS job")
        write = of_query(lake_writer(DeltaSink(path=f"{home}/lake")), f"{home}/state")
        writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", f"{home}/state")
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        except StreamingQueryException as error:
            print(str(error).splitlines()[0], file=sys.stderr, flush=True)
        else:
            return
    sys.exit("the query failed again and again")


if __name__ == "__main__":
    main()
