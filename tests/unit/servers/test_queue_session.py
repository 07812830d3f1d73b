"""Messages that a client no longer takes are released at once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from aiohttp import WSMsgType

from goqueue.client.queues.frames import encode
from goqueue.delivery.values import Action, Delivery, Settlement
from goqueue.servers.http.queue_frames.session import QueueSession

_DELIVERY = Delivery("t", 0, 4, 5, None, b"v", (), 2, "t:0:4:1:1.00aa", 1, 900, 800)


class Socket:
    """A client that asks for messages and does not read the answer; then it cancels, or closes."""

    closed = False

    def __init__(self, then: bytes | None) -> None:
        self._then = then
        self.sending = asyncio.Event()

    async def __aiter__(self):
        yield SimpleNamespace(type=WSMsgType.BINARY, data=encode(("receive", 1, "t", "g", "me", 10, 1000)))
        await self.sending.wait()
        if self._then is not None:
            yield SimpleNamespace(type=WSMsgType.BINARY, data=self._then)
            await asyncio.sleep(0)

    async def send_bytes(self, _data: bytes) -> None:
        self.sending.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("then", [encode(("cancel", 1)), None], ids=["cancels", "closes"])
async def test_an_answer_that_is_cut_off_releases_its_messages(then):
    settled = []

    async def nothing() -> None:
        pass

    async def receive(_request):
        return [_DELIVERY]

    async def settle(settlements):
        settled.extend(settlements)

    services = SimpleNamespace(
        answers=SimpleNamespace(room=nothing),
        topics=SimpleNamespace(get=lambda _name: SimpleNamespace(partition_count=1)),
        delivery=SimpleNamespace(receive=receive, settle=settle),
        config=SimpleNamespace(http=SimpleNamespace(wait_ms_max=1000)),
    )
    await asyncio.wait_for(QueueSession(services, SimpleNamespace(path="/"), Socket(then)).serve(), 5)
    await asyncio.sleep(0)
    assert settled == [Settlement(_DELIVERY.receipt, Action.RELEASE)]
