"""Topics as tables of SQL, and state that a user's own code keeps."""

from __future__ import annotations

import pandas as pd
import pytest
from tests.e2e.kafka_clients import Confluent, Sent

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from pyspark.sql.streaming import StatefulProcessor

pytestmark = pytest.mark.timeout(400)


def test_a_topic_is_a_table_that_is_created_read_and_inserted_into(spark, broker, topic):
    name = topic(2)
    table = name.replace("-", "_")
    Confluent().produce(broker.kafka, name, [Sent(b"first", b"k", partition=0)])
    spark.sql(
        f"CREATE TABLE {table} USING goqueue "
        f"OPTIONS ('kafka.bootstrap.servers' '{broker.kafka}', subscribe '{name}', compression 'zstd')"
    )
    try:
        values = f"SELECT CAST(key AS STRING), CAST(value AS STRING) FROM {table} ORDER BY value"
        assert [tuple(row) for row in spark.sql(values).collect()] == [("k", "first")]

        spark.sql(f"INSERT INTO {table} (key, value) VALUES (CAST('a' AS BINARY), CAST('second' AS BINARY))")
        spark.sql(f"INSERT INTO {table} (value, partition) SELECT CAST(CAST(id AS STRING) AS BINARY), 1 FROM range(3)")

        found = [tuple(row) for row in spark.sql(values).collect()]
        assert found == [(None, "0"), (None, "1"), (None, "2"), ("k", "first"), ("a", "second")]
        assert spark.sql(f"SELECT count(1) FROM {table} WHERE partition = 1").first()[0] >= 3
        streamed = spark.readStream.table(table)
        assert streamed.isStreaming
    finally:
        spark.sql(f"DROP TABLE {table}")


def test_a_table_with_a_list_of_columns_says_what_to_write_instead(spark, broker, topic):
    name = topic()
    table = name.replace("-", "_")
    options = f"'kafka.bootstrap.servers' '{broker.kafka}', subscribe '{name}'"
    spark.sql(f"CREATE TABLE {table} (value BINARY) USING goqueue OPTIONS ({options})")
    try:
        with pytest.raises(Exception, match="a table of SQL is created without a list of columns"):
            spark.sql(f"SELECT * FROM {table}").collect()
    finally:
        spark.sql(f"DROP TABLE {table}")


class Counting(StatefulProcessor):
    """How many rows of each key there were."""

    def init(self, handle):
        self.count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - the names are Spark's
        before = self.count.get()[0] if self.count.exists() else 0
        now = before + sum(len(part) for part in rows)
        self.count.update((now,))
        yield pd.DataFrame({"key": [key[0]], "n": [now]})

    def close(self):
        """Nothing is open."""


def test_state_of_a_users_own_code_is_kept_over_batches(spark, broker, topic, tmp_path):
    name = topic()
    Confluent().produce(broker.kafka, name, [Sent(b"x", b"k%d" % (n % 3)) for n in range(90)])
    before = spark.conf.get("spark.sql.streaming.stateStore.providerClass")
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    try:
        stream = spark.readStream.format("goqueue").option("kafka.bootstrap.servers", broker.kafka)
        stream = stream.options(subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="30").load()
        counted = (
            stream.selectExpr("CAST(key AS STRING) AS key")
            .groupBy("key")
            .transformWithStateInPandas(Counting(), "key string, n bigint", "Update", "None")
        )
        writer = counted.writeStream.format("memory").queryName("counted").outputMode("update")
        query = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        rows = spark.sql("SELECT key, max(n) AS n FROM counted GROUP BY key ORDER BY key").collect()
        assert [tuple(row) for row in rows] == [("k0", 30), ("k1", 30), ("k2", 30)]
    finally:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", before)
