"""Calls between nodes: answered, refused, abandoned, and cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from goqueue.cluster.call_messages import Abandon, Request, Response, decode, encode
from goqueue.cluster.calls import PeerCalls
from goqueue.cluster.error_codec import SentError, received_error, sent_error
from goqueue.cluster.incoming_calls import IncomingCalls
from goqueue.cluster.network import Accept
from goqueue.cluster.outgoing_calls import OutgoingCalls
from goqueue.errors import (
    GoQueueError,
    InvalidRecord,
    NotLeader,
    PeerLost,
    PeerUnreachable,
    RequestTimedOut,
    TooBusy,
    TopicNotFound,
    UnknownPeerCall,
    UnstableOffset,
    wire_of,
)
from goqueue.ports import Buffer


class Pipe:
    """One end of a connection in memory."""

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.other: Pipe = self
        self.is_closed = False

    async def send(self, message: Buffer | Sequence[Buffer]) -> None:
        if self.is_closed or self.other.is_closed:
            raise PeerUnreachable(self.peer, "closed")
        assert isinstance(message, bytes)
        self.other.inbox.put_nowait(message)

    async def receive(self) -> bytes | None:
        return None if self.is_closed else await self.inbox.get()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.inbox.put_nowait(None)
            self.other.inbox.put_nowait(None)


class PipeNetwork:
    """Connects nodes in one process; `down` cannot be reached."""

    def __init__(self, node_id: int, accepts: dict[int, Accept]) -> None:
        self.node_id = node_id
        self.accepts = accepts
        self.down: set[int] = set()
        self.pipes: list[Pipe] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def connect(self, node_id: int, purpose: int) -> Pipe:
        if node_id in self.down or node_id not in self.accepts:
            raise PeerUnreachable(node_id, "no route")
        here, there = Pipe(node_id), Pipe(self.node_id)
        here.other, there.other = there, here
        self.pipes.append(here)

        async def accept() -> None:
            await self.accepts[node_id](there, purpose)

        self.tasks.append(asyncio.get_running_loop().create_task(accept()))
        return here

    async def listen(self, accept: Accept) -> None:
        self.accepts[self.node_id] = accept

    async def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        await asyncio.gather(*self.tasks)


@asynccontextmanager
async def two_nodes(calls_max: int = 100) -> AsyncIterator[tuple[PeerCalls, PeerCalls, PipeNetwork]]:
    """Two nodes, and the network of the first."""
    accepts: dict[int, Accept] = {}
    networks = [PipeNetwork(number, accepts) for number in (1, 2)]
    nodes = [PeerCalls(network, network.node_id, calls_max=calls_max) for network in networks]
    for node, network in zip(nodes, networks, strict=True):
        node.begin()
        await network.listen(node.accept)
    try:
        yield nodes[0], nodes[1], networks[0]
    finally:
        for node in nodes:
            await node.close()
        for network in networks:
            await network.close()


async def test_a_call_is_answered_by_the_node_that_it_names() -> None:
    async with two_nodes() as (first, second, _):

        async def double(body: bytes, peer: int) -> bytes:
            return body * 2 + str(peer).encode()

        second.serve("double", double)
        assert await first.call(2, "double", b"ab", timeout_ms=1000) == b"abab1"


async def test_many_calls_share_one_connection_and_a_slow_one_holds_up_none() -> None:
    async with two_nodes() as (first, second, network):
        gate = asyncio.Event()

        async def echo(body: bytes, _peer: int) -> bytes:
            if body == b"slow":
                await gate.wait()
            return body

        second.serve("echo", echo)
        slow = asyncio.ensure_future(first.call(2, "echo", b"slow", timeout_ms=5000))
        many = await asyncio.gather(*(first.call(2, "echo", b"%d" % n, timeout_ms=5000) for n in range(50)))
        assert many == [b"%d" % n for n in range(50)]
        assert not slow.done()
        gate.set()
        assert await slow == b"slow"
        assert len(network.pipes) == 1


async def test_an_error_of_the_peer_is_raised_with_its_class_and_fields() -> None:
    async with two_nodes() as (first, second, _):

        async def refuse(_body: bytes, _peer: int) -> bytes:
            raise NotLeader("node 3 leads it", leader=3, leader_epoch=7)

        second.serve("refuse", refuse)
        with pytest.raises(NotLeader, match="node 3 leads it") as caught:
            await first.call(2, "refuse", b"", timeout_ms=1000)
        assert (caught.value.leader, caught.value.leader_epoch) == (3, 7)


async def test_a_call_that_the_peer_does_not_know_is_refused_by_name() -> None:
    async with two_nodes() as (first, _second, _):
        with pytest.raises(UnknownPeerCall, match=r"no\.such"):
            await first.call(2, "no.such", b"", timeout_ms=1000)


async def test_a_bug_of_a_handler_is_an_internal_error_and_the_connection_lives_on() -> None:
    async with two_nodes() as (first, second, network):

        async def broken(_body: bytes, _peer: int) -> bytes:
            raise KeyError("secret detail")

        async def fine(_body: bytes, _peer: int) -> bytes:
            return b"fine"

        second.serve("broken", broken)
        second.serve("fine", fine)
        with pytest.raises(GoQueueError) as caught:
            await first.call(2, "broken", b"", timeout_ms=1000)
        assert "secret" not in str(caught.value)
        assert await first.call(2, "fine", b"", timeout_ms=1000) == b"fine"
        assert len(network.pipes) == 1


async def test_the_handler_ends_when_the_caller_goes() -> None:
    async with two_nodes() as (first, second, _):
        began, ended = asyncio.Event(), asyncio.Event()

        async def hang(_body: bytes, _peer: int) -> bytes:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return b""

        second.serve("hang", hang)
        call = asyncio.ensure_future(first.call(2, "hang", b"", timeout_ms=60_000))
        await asyncio.wait_for(began.wait(), 5)
        call.cancel()
        await asyncio.wait_for(ended.wait(), 5)


async def test_an_answer_that_comes_after_the_caller_has_gone_can_be_undone() -> None:
    async with two_nodes() as (first, second, _):
        began, gate, undone = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop().create_future()

        async def stubborn(_body: bytes, _peer: int) -> bytes:
            began.set()
            while not gate.is_set():
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    # The lease is written already: it cannot be taken back here any more.
                    continue
            return b"lease"

        second.serve("receive", stubborn)
        call = asyncio.ensure_future(first.call(2, "receive", b"", timeout_ms=60_000, on_late=undone.set_result))
        await asyncio.wait_for(began.wait(), 5)
        call.cancel()
        gate.set()
        assert await asyncio.wait_for(undone, 5) == b"lease"


async def test_an_answer_in_the_turn_of_the_loop_in_which_its_caller_goes_can_be_undone() -> None:
    here, there = Pipe(2), Pipe(1)
    here.other, there.other = there, here
    calls, undone = OutgoingCalls(here, waiting_max=1), list[bytes]()
    call = asyncio.ensure_future(calls.call("receive", b"", timeout_ms=60_000, on_late=undone.append))
    asked = decode(await there.receive() or b"")

    here.inbox.put_nowait(encode(Response(asked.number, b"lease")))
    # After the reader has resolved the call, and before the call runs on.
    asyncio.get_running_loop().call_soon(call.cancel)
    with pytest.raises(asyncio.CancelledError):
        await call

    assert undone == [b"lease"]
    await calls.close()


async def test_an_answer_that_is_being_sent_is_sent_although_its_caller_goes() -> None:
    class SlowPipe(Pipe):
        begun, gate = asyncio.Event(), asyncio.Event()

        async def send(self, message: Buffer | Sequence[Buffer]) -> None:
            self.begun.set()
            await self.gate.wait()
            await super().send(message)

    async def lease(_body: bytes, _peer: int) -> bytes:
        return b"lease"

    here, there = Pipe(2), SlowPipe(1)
    here.other, there.other = there, here
    serving = asyncio.ensure_future(IncomingCalls(there, {"receive": lease}, running_max=1).run())
    await here.send(encode(Request(7, "receive", 60_000, b"")))
    await asyncio.wait_for(there.begun.wait(), 5)
    await here.send(encode(Abandon(7)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    there.gate.set()

    told = decode(await asyncio.wait_for(here.receive(), 5) or b"")
    assert isinstance(told, Response)
    assert (told.number, told.body) == (7, b"lease")
    here.close()
    await serving


async def test_a_deadline_ends_the_call_on_both_sides() -> None:
    async with two_nodes() as (first, second, _):
        ended = asyncio.Event()

        async def hang(_body: bytes, _peer: int) -> bytes:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return b""

        second.serve("hang", hang)
        with pytest.raises(RequestTimedOut):
            await first.call(2, "hang", b"", timeout_ms=20)
        await asyncio.wait_for(ended.wait(), 5)


async def test_a_lost_connection_fails_the_calls_under_way_and_the_next_call_connects_again() -> None:
    async with two_nodes() as (first, second, network):
        began = asyncio.Event()

        async def hang(body: bytes, _peer: int) -> bytes:
            began.set()
            if body:
                return body
            await asyncio.Event().wait()
            return b""

        second.serve("hang", hang)
        call = asyncio.ensure_future(first.call(2, "hang", b"", timeout_ms=60_000))
        await asyncio.wait_for(began.wait(), 5)
        network.pipes[0].close()
        with pytest.raises(PeerLost):
            await call
        assert await first.call(2, "hang", b"again", timeout_ms=1000) == b"again"
        assert len(network.pipes) == 2


async def test_a_peer_that_cannot_be_reached_is_told_apart_from_one_that_may_have_done_it() -> None:
    async with two_nodes() as (first, _second, network):
        network.down.add(2)
        with pytest.raises(PeerUnreachable) as caught:
            await first.call(2, "any", b"", timeout_ms=1000)
        assert not isinstance(caught.value, PeerLost)


async def test_more_calls_than_allowed_are_refused() -> None:
    async with two_nodes(calls_max=2) as (first, second, _):
        gate = asyncio.Event()

        async def wait(_body: bytes, _peer: int) -> bytes:
            await gate.wait()
            return b"done"

        second.serve("wait", wait)
        under_way = [asyncio.ensure_future(first.call(2, "wait", b"", timeout_ms=60_000)) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(TooBusy):
            await first.call(2, "wait", b"", timeout_ms=60_000)
        gate.set()
        assert await asyncio.gather(*under_way) == [b"done", b"done"]


async def test_a_node_asks_itself_without_a_connection() -> None:
    async with two_nodes() as (first, _second, network):

        async def here(body: bytes, peer: int) -> bytes:
            return body + str(peer).encode()

        first.serve("here", here)
        assert await first.call(1, "here", b"x", timeout_ms=1000) == b"x1"
        assert network.pipes == []


@pytest.mark.parametrize(
    "error",
    [
        TopicNotFound("orders"),
        UnstableOffset("group", (("orders", 1),)),
        NotLeader("no", leader=2, leader_epoch=9),
    ],
)
def test_errors_travel_whole(error: GoQueueError) -> None:
    received = received_error(sent_error(error))
    assert type(received) is type(error)
    assert str(received) == str(error)
    assert vars(received) == vars(error)
    assert wire_of(received) == wire_of(error)


def test_reasons_by_record_travel() -> None:
    error = InvalidRecord("two are bad", field="value")
    error.bad_records = {1: "no key", 4: "too old"}
    received = received_error(sent_error(error))
    assert isinstance(received, InvalidRecord)
    assert received.bad_records == {1: "no key", 4: "too old"}


def test_an_unknown_class_becomes_its_nearest_known_ancestor() -> None:
    sent = SentError(("BrandNew", "NotLeader", "GoQueueError"), "it moved", {"leader": 4, "leader_epoch": 2})
    received = received_error(sent)
    assert type(received) is NotLeader
    assert (str(received), received.leader) == ("it moved", 4)
