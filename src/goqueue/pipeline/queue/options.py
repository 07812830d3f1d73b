"""Options of a queue source: those of a topic that make sense for it, and its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from goqueue.pipeline.decoding.columns import RECORD_COLUMNS
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.source.options import (
    SERVERS,
    SourceOptions,
    check_names,
    duration_ms,
    flag,
    number,
    parse_source_options,
)

QUEUE_COLUMNS: Mapping[str, str] = {**RECORD_COLUMNS, "deliveryCount": "int", "receipt": "string"}
_OWN = ("mode", "http", "visibility")
_SHARED = (SERVERS, "subscribe", "groupId", "maxOffsetsPerTrigger", "includeHeaders", "columns", "failOnDataLoss")
_BATCH, _BATCH_MAX = 1000, 10_000
_VISIBILITY_MS, _VISIBILITY_MS_MIN, _VISIBILITY_MS_MAX = 120_000, 5_000, 12 * 3_600_000


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """What a queue reader was asked for."""

    # How records are read, once it is known which.
    records: SourceOptions
    topic: str
    group: str
    # None: GOQUEUE_SERVER, or the context of the command line.
    http: str | None
    columns: tuple[str, ...]
    batch_max: int = _BATCH
    visibility_ms: int = _VISIBILITY_MS

    @property
    def kinds(self) -> Mapping[str, str]:
        """All columns, with their types."""
        return QUEUE_COLUMNS


def is_queue(given: Mapping[str, str]) -> bool:
    """Whether the options ask for a queue; raises for a mode that there is not."""
    mode = {name.lower(): value for name, value in given.items()}.get("mode", "stream").lower()
    if mode not in ("stream", "queue"):
        raise BadOption("mode", f"{mode!r} is not one of stream, queue")
    return mode == "queue"


def parse_queue_options(given: Mapping[str, str]) -> QueueOptions:
    """Check everything that can be checked without a broker."""
    options = {name.lower(): value for name, value in given.items()}
    check_names(options, (*_SHARED, *_OWN))
    group = options.get("groupid", "").strip()
    if not group:
        raise BadOption("groupId", "is missing: readers that share a queue name the same group")
    own = {name.lower() for name in _OWN} | {"columns", "includeheaders"}
    records = parse_source_options({name: value for name, value in options.items() if name not in own})
    if not records.servers:
        raise BadOption(SERVERS, "is missing: executors read the records from there")
    if len(records.subscribe) != 1:
        raise BadOption("subscribe", "a queue is one topic")
    batch = number(options, "maxOffsetsPerTrigger") or _BATCH
    if batch > _BATCH_MAX:
        raise BadOption("maxOffsetsPerTrigger", f"{batch} is more than {_BATCH_MAX}, the most that one batch can lease")
    visibility = duration_ms(options, "visibility", _VISIBILITY_MS)
    if not _VISIBILITY_MS_MIN <= visibility <= _VISIBILITY_MS_MAX:
        raise BadOption("visibility", f"{options['visibility']!r} is not between 5s and 12h")
    return QueueOptions(
        records=records,
        topic=records.subscribe[0],
        group=group,
        http=options.get("http"),
        columns=_columns(options),
        batch_max=batch,
        visibility_ms=visibility,
    )


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    if "columns" not in options:
        with_headers = flag(options, "includeHeaders", default=False)
        return tuple(name for name in QUEUE_COLUMNS if name != "headers" or with_headers)
    known = {name.lower(): name for name in QUEUE_COLUMNS}
    chosen = []
    for word in options["columns"].split(","):
        name = known.get(word.strip().lower())
        if name is None:
            raise BadOption("columns", f"there is no column {word.strip()!r}; there are {', '.join(QUEUE_COLUMNS)}")
        chosen.append(name)
    return tuple(dict.fromkeys(chosen))
