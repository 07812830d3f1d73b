"""Spark reads and writes topics: a PySpark data source without a jar.

    spark = goqueue.pipeline.session()
    spark.read.format("goqueue").option("kafka.bootstrap.servers", "127.0.0.1:9092")...

A pipeline is an ordinary client of the broker: nothing here imports the broker.
"""

from goqueue.pipeline.spark.session import register, session
from goqueue.pipeline.tables import tables

__all__ = ["register", "session", "tables"]
