"""One gRPC channel that many calls share, when some of them find out that its broker goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from goqueue.client import BrokerUnreachable
from goqueue.client.grpc.routes import find
from goqueue.client.grpc.transport import GrpcTransport, _reply
from goqueue.client.retry import RetryPolicy
from goqueue.client.types import ReceiveReply, SettleReply

RECEIVE = "/topics/t/receive"


class Broker:
    """Answers a receive when told, and nothing else."""

    def __init__(self) -> None:
        self.is_asked, self.go = asyncio.Event(), asyncio.Event()
        self._receive = find("POST", RECEIVE)[0]
        self._server = grpc.aio.server()
        services = {path.split("/")[1] for path in (self._receive.path, find("GET", "/topics")[0].path)}
        for name in services:
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, self._methods(name)),))
        self.port = self._server.add_insecure_port("127.0.0.1:0")

    def _methods(self, service: str) -> dict[str, Any]:
        found = {}
        for method, answer in ((self._receive, self._receives), (find("GET", "/topics")[0], self._goes)):
            _, name, called = method.path.split("/")
            if name == service:
                found[called] = grpc.unary_unary_rpc_method_handler(
                    answer, method.request.FromString, method.response.SerializeToString
                )
        return found

    async def _receives(self, _request: Any, _context: Any) -> Any:
        self.is_asked.set()
        await self.go.wait()
        return self._receive.response()

    async def _goes(self, _request: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the broker is stopping")

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    found = Broker()
    await found.start()
    yield found
    await found.stop()


async def test_a_call_that_moves_on_to_the_next_address_does_not_cancel_the_others(broker: Broker) -> None:
    retry = RetryPolicy(attempts_max=2, delay_ms_first=1)
    transport = GrpcTransport(f"grpc://127.0.0.1:{broker.port},grpc://127.0.0.1:9", retry=retry)
    body = {"group": "g", "limit": 1, "wait": "5s"}
    receiving = asyncio.create_task(transport.call("POST", RECEIVE, ReceiveReply, body=body))
    await broker.is_asked.wait()
    with pytest.raises(BrokerUnreachable):
        await transport.call("GET", "/topics", list[Any])
    assert not receiving.done()
    broker.go.set()
    assert (await receiving).messages == []
    await transport.close()


async def test_calls_that_an_earlier_broker_has_not_answered_end_with_their_client(broker: Broker) -> None:
    retry = RetryPolicy(attempts_max=2, delay_ms_first=1)
    transport = GrpcTransport(f"grpc://127.0.0.1:{broker.port},grpc://127.0.0.1:9", retry=retry)
    body = {"group": "g", "limit": 1, "wait": "60s"}
    receiving = asyncio.create_task(transport.call("POST", RECEIVE, ReceiveReply, body=body, wait_ms=60_000))
    await broker.is_asked.wait()
    with pytest.raises(BrokerUnreachable):
        await transport.call("GET", "/topics", list[Any])

    await transport.close()

    done, _ = await asyncio.wait([receiving], timeout=5)
    assert done
    receiving.cancel()
    await asyncio.gather(receiving, return_exceptions=True)


@pytest.mark.parametrize(("code", "status"), [("not_coordinator", 503), ("receipt_expired", 410), ("of tomorrow", 500)])
def test_what_became_of_a_receipt_has_the_status_that_http_gives_it(code: str, status: int) -> None:
    """By it a settlement is sent again, or known to have been done."""
    method = find("POST", "/messages/ack")[0]
    answer = method.response(results=[{"receipt_handle": "a", "error": {"code": code, "message": "not so"}}])

    (found,) = _reply(method, answer, SettleReply).results

    assert (found.success, found.status, found.error.code) == (False, status, code)
