"""Asking: a peer answers with metadata that is no older than what the node that asks has seen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from goqueue.anywhere.asking import Asking, PeerMethod
from goqueue.anywhere.homes import Homes
from goqueue.caller import ANONYMOUS, Caller
from goqueue.errors import NotLeader, TopicNotFound
from goqueue.metadata.image import Image

REVISION: PeerMethod[int, int] = PeerMethod("test.revision", int, int)


class Calls:
    """Peers that answer within this process."""

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[[bytes, int], Awaitable[bytes]]] = {}

    def serve(self, name: str, handler: Callable[[bytes, int], Awaitable[bytes]]) -> None:
        self.handlers[name] = handler

    async def call(self, _node: int, name: str, body: bytes, **_: object) -> bytes:
        return await self.handlers[name](body, 1)


class Node:
    """One node whose image is at some revision, and catches up to another when it asks the store."""

    def __init__(self, calls: Calls, revision: int, newest: int) -> None:
        self.image = Image()
        self.image.revision = revision
        self.newest = newest
        self.catch_ups = 0
        self.asking = Asking(cast("Any", calls), Homes(1, lambda: self.image), self._catch_up)

    async def _catch_up(self) -> None:
        self.catch_ups += 1
        self.image.revision = self.newest


async def answered_by(answering: Node, calls: Calls, revision_of_asker: int) -> int:
    async def handler(_question: int, _caller: Caller) -> int:
        return answering.image.revision

    answering.asking.answer(REVISION, handler)
    asker = Node(calls, revision_of_asker, revision_of_asker)
    return await asker.asking.ask(2, REVISION, 0, ANONYMOUS)


async def test_a_peer_that_is_behind_catches_up_before_it_answers() -> None:
    calls = Calls()
    behind = Node(calls, 7, newest=12)
    assert await answered_by(behind, calls, 9) == 12
    assert behind.catch_ups == 1


async def test_a_peer_that_has_seen_as_much_answers_at_once() -> None:
    calls = Calls()
    level = Node(calls, 9, newest=12)
    assert await answered_by(level, calls, 9) == 9
    assert level.catch_ups == 0


async def test_a_peer_that_cannot_catch_up_does_not_say_that_a_topic_is_not_there() -> None:
    """A change that was made would be answered with 404, since the answer tells of the topic's partitions as well."""
    calls = Calls()
    behind = Node(calls, 7, newest=8)

    async def handler(_question: int, _caller: Caller) -> int:
        raise TopicNotFound("orders")

    behind.asking.answer(REVISION, handler)
    asker = Node(calls, 9, 9)
    with pytest.raises(NotLeader, match="has not caught up"):
        await asker.asking.ask(2, REVISION, 0, ANONYMOUS)
    behind.newest = 9
    with pytest.raises(TopicNotFound):
        await asker.asking.ask(2, REVISION, 0, ANONYMOUS)
