"""The follower's end of a replication stream."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any, cast

from goqueue.cluster.replication import messages
from goqueue.cluster.replication.counts import CopyCounts
from goqueue.cluster.replication.follower_stream import FollowerStream
from goqueue.cluster.replication.messages import Round
from goqueue.records import TopicPartition

ROUNDS = 20


class Leader:
    """Both the network and the connection: its rounds are all there before the first one is taken."""

    def __init__(self) -> None:
        self.left = ROUNDS
        self.is_empty = asyncio.Event()

    async def connect(self, _node: int, _purpose: int) -> Leader:
        return self

    async def receive(self) -> bytes | None:
        if not self.left:
            self.is_empty.set()
            await asyncio.Event().wait()
        self.left -= 1
        return b"".join(messages.encode(Round(ROUNDS - self.left, ())))

    async def send(self, _message: object) -> None:
        pass

    def close(self) -> None:
        pass


async def test_rounds_that_are_there_already_do_not_keep_the_loop_from_everything_else() -> None:
    """A replica that catches up is sent megabytes at a time: the session of its node must be renewed meanwhile."""
    leader = Leader()
    nothing = cast("Any", SimpleNamespace(opening=lambda *_: asyncio.Event().wait()))
    stream = FollowerStream(
        1,
        purpose=1,
        network=cast("Any", leader),
        partitions=nothing,
        syncer=nothing,
        offload=nothing,
        broker_epoch=lambda: 1,
        counts=CopyCounts(),
        numbers=itertools.count(),
    )
    turns: list[int] = []

    async def others() -> None:
        while leader.left:
            turns.append(leader.left)
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    stream.follow(TopicPartition("t", 0), 1)
    await leader.is_empty.wait()
    await beside
    await stream.close()
    assert set(turns) >= set(range(1, ROUNDS)), "something else had its turn after every round"
