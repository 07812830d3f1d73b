"""The table of cases in which our source and sink are compared with Spark's own Kafka connector.

A reading case is a name and options for both; a writing case is a name and a query over `rows`. `refused` says that
both must refuse it. Where the two differ on purpose there is no case, but a line in the documentation.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

MIDDLE_MS = 1_767_000_500_000


class Reading(NamedTuple):
    """Options with which both read."""

    name: str
    options: dict[str, str]
    refused: bool = False


class Writing(NamedTuple):
    """Rows that both write, to the topic of the option unless they name one."""

    name: str
    query: str
    refused: bool = False


def _offsets(**topics: dict[str, int]) -> str:
    return json.dumps(topics)


READING = (
    Reading("all rows", {"subscribe": "plain"}),
    Reading("headers", {"subscribe": "plain", "includeHeaders": "true"}),
    Reading("several topics", {"subscribe": "plain,packed,empty", "includeHeaders": "true"}),
    Reading("topics by pattern", {"subscribePattern": "p(lain|acked)"}),
    Reading("topics by a pattern that finds part of the name", {"subscribePattern": "ack"}),
    Reading("partitions by name", {"assign": json.dumps({"plain": [1], "packed": [0]})}),
    Reading("an empty topic", {"subscribe": "empty"}),
    Reading("every compression", {"subscribe": "packed"}),
    Reading("no key, no value, empty key and value", {"subscribe": "odd", "includeHeaders": "true"}),
    Reading("a compacted topic with gaps", {"subscribe": "compacted"}),
    Reading("committed only", {"subscribe": "transactions", "kafka.isolation.level": "read_committed"}),
    Reading("aborted ones too", {"subscribe": "transactions", "kafka.isolation.level": "read_uncommitted"}),
    Reading("from offsets", {"subscribe": "plain", "startingOffsets": _offsets(plain={"0": 10, "1": -2})}),
    Reading("to offsets", {"subscribe": "plain", "endingOffsets": _offsets(plain={"0": 10, "1": -1})}),
    Reading(
        "between offsets",
        {
            "subscribe": "plain",
            "startingOffsets": _offsets(plain={"0": 5, "1": 0}),
            "endingOffsets": _offsets(plain={"0": 5, "1": 20}),
        },
    ),
    Reading("from a time", {"subscribe": "plain", "startingTimestamp": str(MIDDLE_MS)}),
    Reading("to a time", {"subscribe": "plain", "endingTimestamp": str(MIDDLE_MS)}),
    Reading(
        "from times by partition",
        {"subscribe": "plain", "startingOffsetsByTimestamp": _offsets(plain={"0": MIDDLE_MS, "1": 0})},
    ),
    Reading(
        "to times by partition",
        {"subscribe": "plain", "endingOffsetsByTimestamp": _offsets(plain={"0": MIDDLE_MS, "1": MIDDLE_MS})},
    ),
    Reading(
        "from a time behind the end, as latest",
        {
            "subscribe": "plain",
            "startingTimestamp": "4000000000000",
            "startingOffsetsByTimestampStrategy": "latest",
        },
    ),
    Reading("from a time behind the end", {"subscribe": "plain", "startingTimestamp": "4000000000000"}, refused=True),
    Reading("more tasks", {"subscribe": "plain", "minPartitions": "7", "includeHeaders": "true"}),
    Reading("from latest, in a batch", {"subscribe": "plain", "startingOffsets": "latest"}, refused=True),
    Reading("to earliest, in a batch", {"subscribe": "plain", "endingOffsets": "earliest"}, refused=True),
    Reading(
        "offsets that lack a partition",
        {"subscribe": "plain", "startingOffsets": _offsets(plain={"0": 1})},
        refused=True,
    ),
    Reading("two ways to name topics", {"subscribe": "plain", "subscribePattern": "p"}, refused=True),
    Reading("no topic", {}, refused=True),
    Reading("deleted rows", {"subscribe": "cut"}),
    Reading(
        "deleted rows, asked for",
        {"subscribe": "cut", "startingOffsets": _offsets(cut={"0": 0}), "failOnDataLoss": "false"},
    ),
)

WRITING = (
    Writing("write values", "SELECT value FROM rows"),
    Writing("write keys and values", "SELECT key, value FROM rows"),
    Writing("write text", "SELECT CAST(key AS STRING) AS key, CAST(value AS STRING) AS value FROM rows"),
    Writing("write tombstones", "SELECT key, CAST(NULL AS BINARY) AS value FROM rows"),
    Writing("write headers", "SELECT key, value, headers FROM rows"),
    Writing("write the partition of each row", "SELECT key, value, CAST(n % 3 AS INT) AS partition FROM rows"),
    Writing("write no value column", "SELECT key FROM rows", refused=True),
    Writing("write a value of a wrong type", "SELECT n AS value FROM rows", refused=True),
)


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What a job told, by the name of the case."""
    return {row["case"]: row for row in rows}
