"""Keys of a cluster within the shared store: prefixed, and those that are no metadata themselves."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from goqueue.metadata.events import PartitionsAdded, TopicCreated
from goqueue.metadata.shared.kv import KeyValue, Write

# The lanes of every node that writes, and topics whose partitions are being staged.
WRITERS = "/w/"
STAGES = "/stage/"


def stage_of(event: TopicCreated | PartitionsAdded) -> str:
    """The key that whoever stages partitions of this topic holds."""
    return f"{STAGES}{event.topic.topic_id if isinstance(event, TopicCreated) else event.topic_id}"


def prefixed(write: Write, prefix: str) -> Write:
    """The write below the cluster's prefix."""
    return msgspec.structs.replace(write, key=prefix + write.key)


def below(prefix: str, pairs: Iterable[KeyValue]) -> dict[str, tuple[bytes, int]]:
    """Value and revision by key, without the prefix."""
    return {pair.key.removeprefix(prefix): (pair.value, pair.mod_revision) for pair in pairs}
