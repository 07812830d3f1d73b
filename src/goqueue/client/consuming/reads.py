"""Reads without a group: by offset, by priority, by time, and following a topic as it grows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, Unpack

import msgspec

from goqueue.client.admin.requests import TailFields, text_params
from goqueue.client.calls import Calls
from goqueue.client.durations import Duration, ms_of, or_ms
from goqueue.client.transport import quoted
from goqueue.client.types import LaneReadReply, Message, ReadReply, WireMessage, decode_message


class Reads(Calls):
    """The part of a client that reads topics and keeps no state."""

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        offset: int | Literal["earliest", "latest"] = "earliest",
        limit: int = 100,
        wait: Duration | None = None,
        wait_ms: int | None = None,
    ) -> tuple[list[Message], int]:
        """Read without a group or state: messages, and the offset to read on from.

        messages, following = await client.read("orders", 0, offset=100, wait="1s")
        """
        wait = or_ms(wait, wait_ms, "wait", "wait_ms")
        held_ms = 0 if wait is None else ms_of(wait, "wait")
        start = {"offset": str(offset)} if isinstance(offset, int) else {"from": offset}
        reply = await self._transport.call(
            "GET",
            f"/topics/{quoted(topic)}/partitions/{partition}/messages",
            ReadReply,
            params={**start, "limit": str(limit), "wait": f"{held_ms}ms"},
            wait_ms=held_ms,
        )
        return [decode_message(wire) for wire in reply.messages], reply.next_offset

    async def read_lanes(
        self,
        topic: str,
        partition: int,
        *,
        order: Literal["priority", "fair"] = "priority",
        offset: int | Literal["earliest", "latest"] = "earliest",
        offsets: Mapping[str, int] | None = None,
        limit: int = 100,
    ) -> tuple[list[Message], dict[str, int]]:
        """Read by priority, without a group or state: messages, and by lane the offsets to read on from.

        messages, following = await client.read_lanes("orders", 0, order="fair")
        more, following = await client.read_lanes("orders", 0, order="fair", offsets=following)
        """
        start = {"offset": str(offset)} if isinstance(offset, int) else {"from": offset}
        if offsets:
            start = {"offsets": ",".join(f"{lane}:{at}" for lane, at in offsets.items())}
        path = f"/topics/{quoted(topic)}/partitions/{partition}/messages/{order}"
        reply = await self._transport.call("GET", path, LaneReadReply, params={**start, "limit": str(limit)})
        return [decode_message(wire) for wire in reply.messages], reply.next_offsets

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """The offset of the first message at or after a time; the end when there is none.

        first = await client.offset_at("orders", 0, 1_767_225_600_000)
        """
        reply = await self._transport.call(
            "GET",
            f"/topics/{quoted(topic)}/partitions/{partition}/offset",
            dict[str, Any],
            params={"timestamp": str(timestamp_ms)},
        )
        return int(reply["offset"])

    async def tail(self, topic: str, **params: Unpack[TailFields]) -> AsyncIterator[Message]:
        """Follow a topic as it grows; `params` are the streaming route's.

        async for message in client.tail("orders", **{"from": "latest"}):
            print(message.text)
        """
        given = {"format": "ndjson", **text_params(params)}
        async for line in self._transport.lines(f"/topics/{quoted(topic)}/messages/stream", given):
            yield decode_message(msgspec.json.decode(line, type=WireMessage))
