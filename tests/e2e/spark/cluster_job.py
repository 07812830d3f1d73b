"""A job for a real cluster: a batch read, then an exactly-once write; run as a script.

python cluster_job.py MASTER SERVERS SOURCE TARGET
"""

from __future__ import annotations

import sys

import goqueue.pipeline


def main() -> None:
    master, servers, source, target = sys.argv[1:5]
    spark = goqueue.pipeline.session(
        "cluster", master=master, config={"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    )
    table = spark.read.format("goqueue").option("kafka.bootstrap.servers", servers)
    table = table.options(subscribe=source, minPartitions="4").load()
    hosts = table.rdd.mapPartitions(lambda rows: [len(list(rows))]).collect()
    print("read", sum(hosts), "in", len(hosts), "tasks", flush=True)
    writer = table.select("key", "value").write.format("goqueue").mode("append")
    writer.options(**{"kafka.bootstrap.servers": servers, "topic": target}).save()
    executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    print("written by", len(executors) - 1, "executors", flush=True)


if __name__ == "__main__":
    main()
