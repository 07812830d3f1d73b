"""However the stream of a member ends, its member leaves the group and nothing of it goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from goqueue.protos import consume_pb2
from goqueue.servers.grpc import subscribe


class Member:
    """A member whose heartbeat is told by grpcio, in its own way, that the client has gone."""

    def __init__(self, *_: Any) -> None:
        self.beating = asyncio.Event()
        self.events: list[str] = []
        made.append(self)

    async def join(self) -> None:
        self.events.append("join")

    async def beat(self) -> None:
        try:
            await self._for_ever()
        except asyncio.CancelledError:
            raise RuntimeError("execute_batch failed") from None

    async def read(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.events.append("read no more")

    async def leave(self) -> None:
        self.events.append("leave")

    async def _for_ever(self) -> None:
        self.beating.set()
        await asyncio.Event().wait()


made: list[Member] = []


async def test_a_member_leaves_also_when_a_write_to_its_client_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribe, "_Member", Member)
    nothing: Any = None
    stream = asyncio.create_task(
        subscribe.subscribe(nothing, consume_pb2.SubscribeRequest(group="g", topics=["t"]), nothing)
    )
    await asyncio.sleep(0)
    (member,) = made
    await member.beating.wait()
    stream.cancel()
    await asyncio.wait([stream])
    assert stream.cancelled()
    assert member.events == ["join", "read no more", "leave"]
