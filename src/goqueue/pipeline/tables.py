"""Every topic as a table of SQL, in a database of their own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from goqueue.errors import InvalidRequest
from goqueue.ids import is_internal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tables(
    spark: SparkSession,
    servers: str = "127.0.0.1:9092",
    *,
    database: str = "goqueue",
    as_table: Collection[str] = (),
    topics: Collection[str] | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Make a table of every topic, as in `spark.sql("SELECT * FROM goqueue.orders")`; returns table -> topic.

    Topics in `as_table` show the latest value of each key, the others show every record. With `topics`, only those
    become tables. Characters that a name of SQL cannot have become underscores. Call it again to see new topics.
    `INSERT INTO` writes to a topic. Of secrets, the file that GOQUEUE_KAFKA_CONFIG names is the place: options stay
    with the table.
    """
    for field, named in (("topics", topics), ("as_table", as_table)):
        if isinstance(named, str):
            raise InvalidRequest(f"{field}={named!r} is a text: give a list of names, as in [{named!r}]", field=field)
    from goqueue.client.wire import WireClient
    from goqueue.client.wire.security import with_defaults
    from goqueue.pipeline.sql_tables import refuse_secrets

    refuse_secrets(options)
    kafka = {name[6:]: value for name, value in options.items() if name.startswith("kafka.")}
    with WireClient(servers, client_id="goqueue-tables", security=with_defaults(kafka)) as client:
        present = {name for name in client.topics(None) if not is_internal(name)}
    for field, named in (("topics", topics or ()), ("as_table", as_table)):
        unknown = sorted(set(named) - present)
        if unknown:
            raise InvalidRequest(f"{field}: there is no topic {unknown[0]!r} at {servers}", field=field)
    found = table_names(sorted(present if topics is None else {*topics, *as_table}))
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {_quoted(database)}")
    for name, topic in found.items():
        given = {**options, "kafka.bootstrap.servers": servers, "subscribe": topic}
        if topic in as_table:
            given["as"] = "table"
        told = ", ".join(f"{_text(key)} {_text(value)}" for key, value in given.items())
        spark.sql(f"DROP TABLE IF EXISTS {_quoted(database)}.{_quoted(name)}")
        spark.sql(f"CREATE TABLE {_quoted(database)}.{_quoted(name)} USING goqueue OPTIONS ({told})")
    return found


def table_names(topics: Iterable[str]) -> dict[str, str]:
    """Table -> topic. Spark does not tell names apart by case."""
    found: dict[str, str] = {}
    taken: dict[str, str] = {}
    for topic in topics:
        name = re.sub(r"\W", "_", topic)
        other = taken.setdefault(name.lower(), topic)
        if other != topic:
            raise InvalidRequest(
                f"topics {other!r} and {topic!r} would both be the table {name}: name those you need, as in "
                f"topics=[{topic!r}]",
                field="topics",
            )
        found[name] = topic
    return found


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
