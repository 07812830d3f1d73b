"""A job of Spark's own Kafka connector against our Kafka port: run as a script.

    python connector_job.py JARS SERVERS SOURCE TARGET

Reads the source with both sources, compares them, and writes the target with the connector.
"""

from __future__ import annotations

import sys

import goqueue.pipeline

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def main() -> None:
    jars, servers, source, target = sys.argv[1:5]
    spark = goqueue.pipeline.session("connector", master="local[2]", config={"spark.jars": jars})
    options = {"kafka.bootstrap.servers": servers, "subscribe": source, "includeHeaders": "true"}
    options["kafka.isolation.level"] = "read_committed"
    theirs, ours = (spark.read.format(name).options(**options).load() for name in ("kafka", "goqueue"))
    left = theirs.select(*COLUMNS)
    right = ours.select(*COLUMNS)
    print("theirs", left.count(), "ours", right.count(), flush=True)
    print("different", left.exceptAll(right).count() + right.exceptAll(left).count(), flush=True)
    left.select("key", "value").write.format("kafka").options(
        **{"kafka.bootstrap.servers": servers, "topic": target}
    ).save()
    print("written", flush=True)


if __name__ == "__main__":
    main()
