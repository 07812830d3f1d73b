"""A share consumer made of bytes: what the protocol allows, and what it does not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from goqueue.codec.batch_decode import decode_records

HEARTBEAT, DESCRIBE, FETCH, ACKNOWLEDGE = 76, 77, 78, 79
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1

Ack = tuple[int, int, Sequence[int]]


class ShareClient:
    """One consumer of a share group; it counts its session's epochs."""

    def __init__(
        self, call: Callable[..., Awaitable[dict[str, Any]]], topic_id: UUID, *, group: str = "g", member_id: str = "m"
    ) -> None:
        self._call = call
        self.topic_id = topic_id
        self.group = group
        self.member_id = member_id
        self.epoch = 0
        self.version = 2

    async def beat(self, epoch: int = 0, topics: Sequence[str] | None = ("jobs",)) -> dict[str, Any]:
        return await self._call(
            HEARTBEAT,
            1,
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            subscribed_topic_names=topics,
        )

    async def fetch(
        self, acks: dict[int, list[Ack]] | None = None, *, partitions: Sequence[int] = (0,), **more: Any
    ) -> dict[str, Any]:
        """Acknowledge and fetch; the session goes on unless the answer says otherwise."""
        settings: dict[str, Any] = {
            "max_records": 500,
            "max_bytes": 2**20,
            "min_bytes": 1,
            "max_wait": 0,
            "batch_size": 0,
        }
        if self.version >= 2:
            # Exactly so many, so that tests can say which. Consumers ask for whole batches unless told otherwise.
            settings["share_acquire_mode"] = RECORD_LIMIT
        settings["forgotten_topics_data"] = more.pop("forgotten", [])
        return await self._session(FETCH, acks or {}, partitions, **{**settings, **more})

    async def acknowledge(self, acks: dict[int, list[Ack]], **more: Any) -> dict[str, Any]:
        return await self._session(ACKNOWLEDGE, acks, (), **more)

    async def _session(
        self, key: int, acks: dict[int, list[Ack]], partitions: Sequence[int], **more: Any
    ) -> dict[str, Any]:
        epoch = more.pop("epoch", self.epoch)
        rows = [
            {"partition_index": number, "acknowledgement_batches": [_batch(*one) for one in acks.get(number, [])]}
            for number in dict.fromkeys([*partitions, *acks])
        ]
        fields = {"group_id": self.group, "member_id": self.member_id, "share_session_epoch": epoch, **more}
        if self.version < 2:
            fields.pop("is_renew_ack", None)
        reply = await self._call(key, self.version, topics=[{"topic_id": self.topic_id, "partitions": rows}], **fields)
        if reply["error_code"] == 0:
            self.epoch = 0 if epoch == -1 else epoch + 1
        return reply


def acquired(reply: dict[str, Any], partition: int = 0) -> list[tuple[int, int, int]]:
    """(first, last, delivery count) of what an answer gives from a partition."""
    assert reply["error_code"] == 0, reply
    for topic in reply["responses"]:
        for row in topic["partitions"]:
            if row["partition_index"] == partition:
                assert row["error_code"] == 0, row
                return [
                    (run["first_offset"], run["last_offset"], run["delivery_count"]) for run in row["acquired_records"]
                ]
    return []


def values(reply: dict[str, Any], partition: int = 0) -> list[bytes | None]:
    """The values of the acquired records, as a client picks them out of the batches."""
    runs = acquired(reply, partition)
    rows = [row for topic in reply["responses"] for row in topic["partitions"] if row["partition_index"] == partition]
    found: list[bytes | None] = []
    for row in rows:
        data = memoryview(row["records"] or b"")
        while data:
            size = int.from_bytes(data[8:12], "big") + 12
            found += [
                record.value
                for record in decode_records(data[:size])
                if any(first <= record.offset <= last for first, last, _ in runs)
            ]
            data = data[size:]
    return found


def ack_errors(reply: dict[str, Any]) -> list[int]:
    """The acknowledgement's result for each partition of an answer."""
    name = "acknowledge_error_code"
    return [row.get(name, row["error_code"]) for topic in reply["responses"] for row in topic["partitions"]]


def _batch(first: int, last: int, kinds: Sequence[int]) -> dict[str, object]:
    return {"first_offset": first, "last_offset": last, "acknowledge_types": list(kinds)}
