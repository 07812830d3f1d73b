"""The follower's end of a replication stream."""

from __future__ import annotations

import asyncio
import itertools
import time
from types import SimpleNamespace
from typing import Any, cast

from goqueue.cluster.replication import messages
from goqueue.cluster.replication.counts import CopyCounts
from goqueue.cluster.replication.follower_stream import FollowerStream
from goqueue.cluster.replication.messages import LogRound, Round
from goqueue.records import LogKind, TopicPartition

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


def a_stream(leader: Leader) -> FollowerStream:
    nothing = cast("Any", SimpleNamespace(opened=lambda *_: asyncio.Event().wait()))
    return FollowerStream(
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


async def test_rounds_that_are_there_already_do_not_keep_the_loop_from_everything_else() -> None:
    """A replica that catches up is sent megabytes at a time: the session of its node must be renewed meanwhile."""
    leader = Leader()
    stream = a_stream(leader)
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


class SlowLog:
    """A log in which every part of a round has to wait for the disk."""

    is_matched = is_current = True
    kind = LogKind.DATA

    def __init__(self, number: int, taken: list[int]) -> None:
        self.partition = SimpleNamespace(key=TopicPartition("t", number))
        self._taken = taken

    def take(self, part: LogRound, *_: object) -> None:
        time.sleep(0.01)
        self._taken.append(part.subscription)


async def test_a_round_of_many_logs_does_not_keep_the_loop_from_everything_else() -> None:
    """After a pass of retention every log starts elsewhere, and each of a thousand writes that down with syncs."""
    stream = a_stream(Leader())
    taken: list[int] = []
    stream._logs = {number: cast("Any", SlowLog(number, taken)) for number in range(20)}
    longest_s = 0.0

    async def others() -> None:
        nonlocal longest_s
        loop = asyncio.get_running_loop()
        while len(taken) < 20:
            began_s = loop.time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, loop.time() - began_s)

    beside = asyncio.create_task(others())
    await asyncio.sleep(0)
    parts = tuple(LogRound(number, 0, 0, 0, 0, 5) for number in range(20))
    await stream._take_round(Round(1, parts), memoryview(b""))
    await beside
    assert taken == list(range(20))
    assert longest_s < 0.15, "all of them would take 0.2 s"
