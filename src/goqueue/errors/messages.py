"""Errors about messages: batches that are not taken, and messages that wait for their time."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from goqueue.errors.base import Conflict, InvalidRequest, NotFound


class RecordRefusal(InvalidRequest):
    """A batch refused because of some of its records: `bad_records` says why, by position in the batch."""

    bad_records: Mapping[int, str] = MappingProxyType({})


class InvalidTimestamp(RecordRefusal):
    """A record whose timestamp is too far from the broker's clock."""


class InvalidRecord(RecordRefusal):
    """A record the topic does not take, such as one without a key in a compacted topic."""


class InvalidRequiredAcks(InvalidRequest):
    """acks is neither 0, 1 nor -1."""


class UnsupportedFormat(InvalidRequest):
    """A message format older than magic 2."""


class UnsupportedCompression(InvalidRequest):
    """A compression type we do not know."""


class MessageTooLarge(InvalidRequest):
    """A batch above the topic's `max.message.bytes`."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"batch of {size} bytes is larger than the limit of {limit}",
            field="value",
            hint="send less at once, or raise the topic's max.message.bytes",
        )


class CorruptBatch(InvalidRequest):
    """A batch whose checksum, length or counts do not agree."""


class UnpacksTooLarge(CorruptBatch):
    """A compressed batch that unpacks to more than it may."""


class DamagedFetch(CorruptBatch):
    """A batch that a reader was sent and that fails its checks: what is wrong, and where it lies."""

    def __init__(self, topic: str, partition: int, offset: int, reason: str) -> None:
        super().__init__(f"topic {topic!r}, partition {partition}, is damaged at offset {offset}: {reason}")
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.hint = (
            "read it again: if only the way here damaged it, that is all; if it fails again, run 'goqueue log verify' "
            "on the broker's data directory, and read on behind the damage if you can do without it"
        )


class DelayedMessageNotFound(NotFound):
    """No message waits in that slot: it was delivered or cancelled, or it never was."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(f"no message of topic {topic!r} waits in slot {partition}/{offset}")
        self.field = "offset"
        self.hint = "it was delivered or cancelled; GET /topics/{topic}/delayed lists what waits"


class DelayedMessageFiring(Conflict):
    """The message is on its way into its topic."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(f"the message of topic {topic!r} in slot {partition}/{offset} is being delivered")
        self.field = "offset"
        self.hint = "it is too late to change it: read it from its topic"


class ScheduleNotFound(NotFound):
    """No recurring message of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r}")
        self.field = "name"


class ScheduleExists(Conflict):
    """A recurring message of that name is there already."""

    def __init__(self, name: str) -> None:
        super().__init__(f"schedule {name!r} exists already")
        self.field = "name"
        self.hint = "delete it first, or choose another name"


class TraceNotFound(NotFound):
    """No message is known by that trace id."""

    def __init__(self, trace_id: str) -> None:
        super().__init__(f"no message is known by trace id {trace_id}")
        self.hint = (
            "ids in traceparent headers are found at once on topics with trace.index=true, "
            "elsewhere by a search with a topic, a start and an end"
        )
