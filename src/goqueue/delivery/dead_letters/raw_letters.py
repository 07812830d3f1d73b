"""Raw letters: what a dead letter of an unreadable stretch says. There are no records, so it holds the batch's bytes.

Its value is the batch as it is stored, or null where the disk has damaged it, and its headers name the stretch.
"""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.broker.reading.unreadable import Unreadable
from goqueue.delivery.state.commands import Dead
from goqueue.delivery.state.queue import UNREADABLE
from goqueue.delivery.state.records import QueueId
from goqueue.records import Header, NewRecord

# The letter's batch has a header, the letter itself has its history.
_OVERHEAD_BYTES = 4096


def raw_letter(
    found: Unreadable,
    raw: bytes | None,
    dead: Dead,
    topic: str,
    queue_id: QueueId,
    now_ms: int,
    *,
    prefix: str,
    bytes_max: int,
) -> NewRecord:
    """The letter of a stretch; of a batch that no letter can hold, as much of its beginning as fits."""
    room_bytes = max(bytes_max - _OVERHEAD_BYTES, 0)
    history: Mapping[str, str] = {
        "topic": topic,
        "partition": str(queue_id.partition),
        "offset": str(dead.offset),
        "first-offset": str(found.first),
        "last-offset": str(found.last),
        "codec": found.codec,
        "group": queue_id.group,
        "consumer": dead.consumer,
        "delivery-count": str(dead.count),
        "died": str(now_ms),
        "reason": UNREADABLE,
        "error": found.reason,
        "batch-bytes": "" if raw is None else str(len(raw)),
        "truncated": "true" if raw is not None and len(raw) > room_bytes else "",
    }
    headers: list[Header] = [(prefix + name, text.encode()) for name, text in history.items() if text]
    return NewRecord(None, None if raw is None else raw[:room_bytes], tuple(headers), now_ms)
