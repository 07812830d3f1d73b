"""Options of the source, named as Spark's Kafka connector has them, checked all in one place.

Spark hands them over with names in lower case. `kafka.*` options that do not concern us are
let pass, so that a job ports by changing one word; every other unknown name is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from goqueue.client.wire.security import check_security, with_defaults
from goqueue.errors import GoQueueError
from goqueue.pipeline.decoding.columns import FRAME_COLUMNS, RECORD_COLUMNS
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.paths import local_path
from goqueue.pipeline.source.option_rules import check_kafka_options
from goqueue.records import Isolation, TopicPartition

EARLIEST, LATEST = -2, -1
# Columns whose type or presence the option schema decides.
OF_SCHEMA = frozenset({"value", "error", "undecoded"})
SERVERS = "kafka.bootstrap.servers"
SOURCE_OPTIONS = (
    *(SERVERS, "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets"),
    *("startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"),
    *("startingOffsetsByTimestampStrategy", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger"),
    *("maxTriggerDelay", "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "includeHeaders"),
    *(
        "isolationLevel",
        "groupId",
        "groupIdPrefix",
        "columns",
        "transport",
        "path",
        "view",
        "fetchBytes",
        "pushFilters",
        "as",
    ),
    *("schema", "schemaRegistryUrl", "schemaErrors"),
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
)

# A position: EARLIEST, LATEST, or an offset for each partition (which may be one of the two itself).
Position = int | Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a reader was asked for."""

    servers: str | None
    path: str | None
    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: tuple[TopicPartition, ...] = ()
    starting: Position | None = None
    ending: Position = LATEST
    starting_ms: int | Mapping[TopicPartition, int] | None = None
    ending_ms: int | Mapping[TopicPartition, int] | None = None
    late_start_is_error: bool = True
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_bytes: int | None = None
    max_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_records: int | None = None
    fail_on_data_loss: bool = True
    isolation: Isolation = Isolation.READ_COMMITTED
    group: str | None = None
    group_prefix: str = "spark"
    columns: tuple[str, ...] = ()
    transport: str = "auto"
    view: str = "records"
    fetch_bytes: int = 16 * 1024 * 1024
    push_filters: bool = False
    # Latest values by key in place of records.
    as_table: bool = False
    # How long a task waits for records below its end that the broker does not show.
    poll_timeout_ms: int = 120_000
    # May hold passwords: never shown.
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    # registry, a subject, subject:version or an id: values become columns of that schema.
    schema: str | None = None
    schema_registry_url: str | None = None
    # fail, or column: what does not decode has a null value, its reason as `error` and its bytes as `undecoded`.
    schema_errors: str = "fail"

    @property
    def kinds(self) -> Mapping[str, str]:
        """The columns of the view, with their types."""
        return FRAME_COLUMNS if self.view == "frames" else RECORD_COLUMNS


def parse_source_options(given: Mapping[str, str]) -> SourceOptions:
    """Check everything that can be checked without a broker."""
    options = {name.lower(): value for name, value in given.items()}
    check_names(options, SOURCE_OPTIONS)
    kafka = {name[6:]: value for name, value in options.items() if name.startswith("kafka.")}
    try:
        kafka = with_defaults(kafka)
        check_security(kafka)
    except GoQueueError as error:
        raise BadOption("kafka.security", str(error)) from None
    servers, path = kafka.get("bootstrap.servers"), options.get("path")
    if not servers and not path:
        # Spark hands the options of a table on only with columns that are ours.
        in_sql = "" if options else "; a table of SQL is created without a list of columns: use the option columns"
        told = f"is missing: write host:port, as 127.0.0.1:9092 (or give path, a data directory){in_sql}"
        raise BadOption(SERVERS, told)
    if path:
        path = str(local_path(path, "path"))
    view = one_of(options, "view", ("records", "frames"), "records")
    transport = one_of(options, "transport", ("auto", "fetch", "files"), "auto")
    if transport == "fetch" and not servers:
        raise BadOption("transport", f"fetch needs {SERVERS}")
    if transport == "files" and not path:
        raise BadOption("transport", "files needs path, the broker's data directory")
    check_kafka_options(kafka)
    # Taken and checked as Kafka's connector does; how often offsets are asked for is the client's affair here.
    number(options, "fetchOffset.numRetries")
    number(options, "fetchOffset.retryIntervalMs")
    starting = options.get("startingoffsets")
    return SourceOptions(
        servers=servers,
        path=path,
        starting=None if starting is None else _position("startingOffsets", starting),
        ending=_ending(options),
        starting_ms=_times(options, "starting"),
        ending_ms=_times(options, "ending"),
        late_start_is_error=one_of(options, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        == "error",
        max_offsets=number(options, "maxOffsetsPerTrigger"),
        min_offsets=number(options, "minOffsetsPerTrigger"),
        max_bytes=size(options, "maxBytesPerTrigger"),
        max_delay_ms=duration_ms(options, "maxTriggerDelay", 15 * 60_000),
        min_partitions=number(options, "minPartitions"),
        max_records=number(options, "maxRecordsPerPartition"),
        fail_on_data_loss=flag(options, "failOnDataLoss", default=True),
        isolation=_isolation(options, kafka),
        group=options.get("groupid") or kafka.get("group.id"),
        group_prefix=options.get("groupidprefix", "spark"),
        columns=_columns(options, view),
        transport=transport,
        view=view,
        fetch_bytes=size(options, "fetchBytes") or 16 * 1024 * 1024,
        push_filters=flag(options, "pushFilters", default=False),
        as_table=one_of(options, "as", ("records", "table"), "records") == "table",
        poll_timeout_ms=number(options, "kafkaConsumer.pollTimeoutMs") or 120_000,
        kafka=kafka,
        schema=_schema(options, view),
        schema_registry_url=options.get("schemaregistryurl"),
        schema_errors=one_of(options, "schemaErrors", ("fail", "column"), "fail"),
        **_subscription(options),
    )


def check_names(options: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Refuse names that mean nothing, and say which one may have been meant."""
    names = {name.lower(): name for name in known}
    for name in options:
        if name not in names and not name.startswith("kafka."):
            near = get_close_matches(name, names, n=1)
            meant = f"; did you mean {names[near[0]]}?" if near else f"; known are {', '.join(known)}"
            raise BadOption(name, f"is not known{meant}")


def one_of(options: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    """A word out of a few."""
    value = options.get(name.lower(), default).lower()
    if value not in choices:
        raise BadOption(name, f"{value!r} is not one of {', '.join(choices)}")
    return value


def flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """True or false."""
    return one_of(options, name, ("true", "false"), "true" if default else "false") == "true"


def number(options: Mapping[str, str], name: str) -> int | None:
    """A whole number above zero, or None if it is not given."""
    text = options.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < 1:
        raise BadOption(name, f"{text!r} is not an integer above zero")
    return int(text)


def size(options: Mapping[str, str], name: str) -> int | None:
    """Bytes: a number, perhaps with k, m or g."""
    return _scaled(options, name, _SIZE, {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}, "64m, 1g")


def duration_ms(options: Mapping[str, str], name: str, default: int) -> int:
    """A time: a number with ms, s, m or h."""
    found = _scaled(options, name, _TIME, {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}, "500ms, 15m")
    return default if found is None else found


_SIZE = re.compile(r"(\d+)\s*([kmg]?)b?")
_TIME = re.compile(r"(\d+)\s*(ms|s|m|h|)")


def _scaled(
    options: Mapping[str, str], name: str, pattern: re.Pattern[str], units: Mapping[str, int], example: str
) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    found = pattern.fullmatch(text.strip().lower())
    if found is None:
        raise BadOption(name, f"{text!r} is not of the form {example}")
    return int(found[1]) * units[found[2]]


def _subscription(options: Mapping[str, str]) -> dict[str, Any]:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if options.get(name.lower(), "").strip()]
    if len(names) != 1:
        given = " and ".join(names) or "none"
        raise BadOption("subscribe", f"give exactly one of subscribe, subscribePattern and assign; given: {given}")
    text = options[names[0].lower()].strip()
    if names[0] == "subscribe":
        return {"subscribe": tuple(filter(None, (one.strip() for one in text.split(","))))}
    if names[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise BadOption("subscribePattern", f"{text!r} is not a regular expression: {error}") from None
        return {"pattern": text}
    places = []
    for topic, partitions in _json("assign", text).items():
        if not isinstance(partitions, list) or not all(isinstance(one, int) for one in partitions):
            raise BadOption("assign", 'write {"topic": [0, 1]}')
        places += [TopicPartition(topic, one) for one in partitions]
    return {"assign": tuple(places)}


def _columns(options: Mapping[str, str], view: str) -> tuple[str, ...]:
    kinds = FRAME_COLUMNS if view == "frames" else RECORD_COLUMNS
    with_headers = flag(options, "includeHeaders", default=False)
    if "columns" not in options:
        return tuple(name for name in kinds if name != "headers" or with_headers)
    known = {name.lower(): name for name in kinds}
    chosen = []
    for word in options["columns"].split(","):
        name = known.get(word.strip().lower())
        if name is None:
            raise BadOption("columns", f"there is no column {word.strip()!r}; there are {', '.join(kinds)}")
        chosen.append(name)
    return tuple(dict.fromkeys(chosen))


def _schema(options: Mapping[str, str], view: str) -> str | None:
    wanted = options.get("schema", "").strip() or None
    if wanted is None:
        for name in ("schemaRegistryUrl", "schemaErrors"):
            if name.lower() in options:
                raise BadOption(name, "is for values with a schema: give the option schema too")
    elif view == "frames":
        raise BadOption("schema", "the view of frames has no values")
    return wanted


def _isolation(options: Mapping[str, str], kafka: Mapping[str, str]) -> Isolation:
    merged = {"isolationlevel": options.get("isolationlevel", kafka.get("isolation.level", "read_committed"))}
    chosen = one_of(merged, "isolationLevel", ("read_committed", "read_uncommitted"), "read_committed")
    return Isolation.READ_COMMITTED if chosen == "read_committed" else Isolation.READ_UNCOMMITTED


def _ending(options: Mapping[str, str]) -> Position:
    position = _position("endingOffsets", options.get("endingoffsets", "latest"))
    if position == EARLIEST:
        raise BadOption("endingOffsets", "earliest is not an end; use latest or offsets in JSON")
    return position


def _position(name: str, text: str) -> Position:
    word = text.strip().lower()
    if word in {"earliest", "latest"}:
        return EARLIEST if word == "earliest" else LATEST
    return _per_partition(name, text)


def _times(options: Mapping[str, str], which: str) -> int | Mapping[TopicPartition, int] | None:
    plain = options.get(f"{which}timestamp")
    if plain is not None:
        if not plain.strip().isdigit():
            raise BadOption(f"{which}Timestamp", f"{plain!r} is not a time in milliseconds since 1970")
        return int(plain)
    text = options.get(f"{which}offsetsbytimestamp")
    return None if text is None else _per_partition(f"{which}OffsetsByTimestamp", text)


def _per_partition(name: str, text: str) -> dict[TopicPartition, int]:
    found = {}
    for topic, partitions in _json(name, text).items():
        for partition, offset in partitions.items() if isinstance(partitions, dict) else (("", None),):
            if not str(partition).isdigit() or not isinstance(offset, int):
                raise BadOption(name, 'write earliest, latest or {"topic": {"0": 17}}')
            found[TopicPartition(topic, int(partition))] = offset
    return found


def _json(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        raise BadOption(name, f"{text[:60]!r} is neither a word that is known here nor JSON") from None
    if not isinstance(value, dict):
        raise BadOption(name, "the JSON must be an object with topics as names")
    return value
