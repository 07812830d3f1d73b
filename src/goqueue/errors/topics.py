"""Errors about topics and partitions: their names, settings and offsets."""

from __future__ import annotations

from goqueue.errors.base import Conflict, GoQueueError, InvalidRequest, NotFound


class InvalidTopicName(InvalidRequest):
    """Not a name that may become a directory."""

    def __init__(self, name: object) -> None:
        shown = repr(name)[:80]
        super().__init__(
            f"topic name {shown} is not allowed",
            field="name",
            hint="use 1 to 245 of A-Z a-z 0-9 . _ -, but not '.' or '..'",
        )


class ReservedTopicName(InvalidTopicName):
    """A name that only the broker itself may use."""

    def __init__(self, name: object) -> None:
        super().__init__(name)
        self.args = (f"topic name {name!r} is reserved: names that begin with '__' belong to the broker",)
        self.hint = "choose a name that does not begin with '__'"


class TopicNameTooLong(InvalidTopicName):
    """A name that leaves no room for that of its dead-letter topic."""

    def __init__(self, name: str, chars_max: int) -> None:
        super().__init__(name)
        self.args = (f"topic name of {len(name)} characters leaves no room for its dead-letter topic's",)
        self.hint = f"use at most {chars_max} characters"


class InternalTopic(InvalidRequest):
    """A client tried to write to, or change, a topic of the broker's own."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} is internal: clients may read it, not change it", field="topic")


class InvalidPartitions(InvalidRequest):
    """A partition count that cannot be."""


class InvalidReplicationFactor(InvalidRequest):
    """More copies than there are nodes, or fewer than one."""


class InvalidReplicaAssignment(InvalidRequest):
    """A manual assignment that names unknown nodes or leaves partitions out."""


class InvalidConfig(InvalidRequest):
    """A topic or broker setting that is unknown or out of range."""


class TopicNotFound(NotFound):
    """No topic of that name."""

    def __init__(self, topic: str, *, hint: str = "check the name, or create it first") -> None:
        super().__init__(f"there is no topic {topic!r}")
        self.topic = topic
        self.field = "topic"
        self.hint = hint


class TopicIdNotFound(NotFound):
    """No topic of that id."""


class InconsistentTopicId(GoQueueError):
    """The topic of that name has another id: it was deleted and created again."""


class TopicExists(Conflict):
    """A topic of that name is there already."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} exists already")
        self.field = "name"


class PartitionNotFound(NotFound):
    """The topic has no such partition."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(f"topic {topic!r} has no partition {partition}")
        self.field = "partition"


class OffsetOutOfRange(GoQueueError):
    """An offset that the log no longer has, or does not have yet."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside the log, which holds {start} to {end}")
        self.field = "offset"
        self.offset = offset
        self.start = start
        self.end = end
