"""Options of the sink, and the columns that a row may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pyspark.sql.types import StructType

from goqueue.client.wire.security import check_security, with_defaults
from goqueue.codec.compression import Codec
from goqueue.errors import GoQueueError
from goqueue.pipeline.decoding.columns import RECORD_COLUMNS
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.source.options import SERVERS, check_names, flag, one_of, size

SINK_OPTIONS = (
    SERVERS,
    "topic",
    "guarantee",
    "writer",
    "epoch",
    "deadLetterTopic",
    "compression",
    "batchBytes",
    "path",
    "includeHeaders",
    "schema",
    "schemaRegistryUrl",
    "schemaSubject",
)
# Columns that the source gives and a message cannot have: a table that was read can be written as it is.
IGNORED_COLUMNS = frozenset({"offset", "timestampType"})
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
# In batches of 256 KB the same bytes cost the broker about twice as much; topics take a little more than this.
_BATCH_BYTES = 1_000_000
# Words of the option schema that mean: derived from the rows.
DERIVED = ("avro", "json")
_TEXT = ("binary", "string")
_WHOLE = ("int", "bigint", "smallint", "tinyint")
# Each column with the types it may have; only `value` must be there.
SINK_COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "key": _TEXT,
        "value": _TEXT,
        "headers": (RECORD_COLUMNS["headers"],),
        "topic": ("string",),
        "partition": _WHOLE,
        "timestamp": ("timestamp",),
        "priority": (*_WHOLE, "string"),
        "delay": _WHOLE,
        "deliverAt": ("timestamp",),
    }
)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a writer was asked for."""

    servers: str
    topic: str | None
    guarantee: str
    writer: str | None
    dead_letter_topic: str | None
    codec: int
    batch_bytes: int
    # Of a batch write under a writer's name: an epoch is written once, and a later one drops what older ones staged.
    epoch: int = 0
    # avro or json: registered from the rows. registry, a subject, subject:version or an id: as the registry has it.
    schema: str | None = None
    schema_registry_url: str | None = None
    # Where avro or json is registered; {topic}-value unless said otherwise.
    schema_subject: str | None = None
    # What that was when the query was planned; None: values are bytes.
    schema_id: int | None = None
    # May hold passwords: never shown.
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_exactly_once(self) -> bool:
        """Whether a set of rows is published whole and once."""
        return self.guarantee == EXACTLY_ONCE


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Check everything that can be checked without a broker."""
    options = {name.lower(): value for name, value in given.items()}
    # Spark's streaming writer passes its own on to the sink.
    for name in ("checkpointlocation", "queryname"):
        options.pop(name, None)
    check_names(options, SINK_OPTIONS)
    kafka = {name[6:]: value for name, value in options.items() if name.startswith("kafka.")}
    try:
        kafka = with_defaults(kafka)
        check_security(kafka)
    except GoQueueError as error:
        raise BadOption("kafka.security", str(error)) from None
    if not kafka.get("bootstrap.servers"):
        raise BadOption(SERVERS, "is missing: write host:port, as 127.0.0.1:9092")
    codecs = tuple(one.name.lower() for one in Codec)
    chosen = one_of({"compression": kafka.get("compression.type", "none"), **options}, "compression", codecs, "none")
    # Without effect, as in Kafka's connector: a column `headers` is written if there is one.
    flag(options, "includeHeaders", default=False)
    writer = options.get("writer")
    if writer is not None and ("/" in writer or not writer.isprintable() or not 1 <= len(writer) <= 150):
        raise BadOption("writer", "use 1 to 150 printable characters without '/'")
    return SinkOptions(
        servers=kafka["bootstrap.servers"],
        topic=options.get("topic"),
        guarantee=one_of(options, "guarantee", (EXACTLY_ONCE, AT_LEAST_ONCE), EXACTLY_ONCE),
        writer=writer,
        dead_letter_topic=options.get("deadlettertopic"),
        codec=int(Codec[chosen.upper()]),
        batch_bytes=size(options, "batchBytes") or _BATCH_BYTES,
        epoch=_epoch(options.get("epoch", "0")),
        schema=options.get("schema"),
        schema_registry_url=options.get("schemaregistryurl"),
        schema_subject=_subject(options),
        kafka=kafka,
    )


def _subject(options: Mapping[str, str]) -> str | None:
    subject = options.get("schemasubject")
    if subject is not None and options.get("schema", "").lower() not in DERIVED:
        raise BadOption(
            "schemaSubject", f"is where a schema is registered: the option schema must be {' or '.join(DERIVED)}"
        )
    return subject


def _epoch(text: str) -> int:
    if not text.isdecimal():
        raise BadOption("epoch", f"{text!r} is not an integer of zero or more")
    return int(text)


def check_columns(options: SinkOptions, schema: StructType) -> None:
    """Refuse a table that cannot become messages, before anything is written."""
    kinds = {one.name: one.dataType.simpleString() for one in schema.fields}
    if "value" not in kinds:
        raise BadOption("columns", f"the table has no column 'value'; it has {', '.join(kinds) or 'none'}")
    for name, kind in kinds.items():
        allowed = SINK_COLUMNS.get(name)
        if allowed is None:
            if name in IGNORED_COLUMNS:
                continue
            # Kafka's connector drops such columns. Here some columns decide when and to whom a message is given:
            # one that is misspelt must not pass.
            raise BadOption(
                "columns",
                f"the sink knows no column {name!r}, which would be lost: drop it by select(), "
                f"or put it into the value, as in to_json(struct(*)); it knows {', '.join(SINK_COLUMNS)}",
            )
        if name == "value" and options.schema is not None:
            if not kind.startswith("struct<"):
                raise BadOption("columns", f"column value is {kind}; with the option schema it must be a struct")
            continue
        if kind not in allowed:
            raise BadOption("columns", f"column {name} is {kind}; it must be {' or '.join(allowed)}")
    if "topic" not in kinds and options.topic is None:
        raise BadOption("topic", "is missing: give the option topic, or a column of that name")
