"""Run by an older PySpark: reads a topic, copies it as a stream with a limit, and tells what it saw as JSON."""

from __future__ import annotations

import json
import sys

import pyspark

import goqueue.pipeline


def main(servers: str, source: str, target: str, home: str) -> None:
    spark = goqueue.pipeline.session("older", master="local[1]", home=f"{home}/spark")
    options = {"kafka.bootstrap.servers": servers, "subscribe": source}
    rows = spark.read.format("goqueue").options(**options).load()
    told = {"version": pyspark.__version__, "rows": rows.count(), "filtered": rows.filter("offset < 5").count()}
    reader = spark.readStream.format("goqueue").options(**options, startingOffsets="earliest", groupId="older")
    stream = reader.option("maxOffsetsPerTrigger", "40").load()
    writer = stream.select("key", "value").writeStream.format("goqueue")
    writer = writer.options(**{"kafka.bootstrap.servers": servers, "topic": target, "checkpointLocation": f"{home}/c"})
    query = writer.trigger(processingTime="200 milliseconds").start()
    query.processAllAvailable()
    first = query.recentProgress[-1]["batchId"]
    more = spark.range(100).selectExpr("CAST(id AS STRING) AS key", "'more' AS value")
    more.write.format("goqueue").options(**{"kafka.bootstrap.servers": servers, "topic": source}).mode("append").save()
    query.processAllAvailable()
    told["largest_later_batch"] = max(one["numInputRows"] for one in query.recentProgress if one["batchId"] > first)
    query.stop()
    spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
