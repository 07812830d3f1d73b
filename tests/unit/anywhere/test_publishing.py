"""Records for partitions that several nodes lead go where a single node would put them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from goqueue.anywhere.asking import Asking
from goqueue.anywhere.homes import Homes
from goqueue.anywhere.writing.publishing import PublishAnywhere
from goqueue.broker.arrivals.deduplication.ids import DEDUPLICATION_HEADER
from goqueue.broker.arrivals.record_publishing import Published
from goqueue.errors import GoQueueError, InvalidRequest, NotLeader
from goqueue.partitioner import RoundRobin
from goqueue.records import Acks, NewRecord, TopicPartition


@dataclass
class Topic:
    partition_count: int = 6


@dataclass
class Settings:
    partitioner: str = "murmur3"
    dedup_window_ms: int = 60_000


@dataclass
class Known:
    """The partitions as this node's metadata has them."""

    settings: Settings = field(default_factory=Settings)
    round_robin: RoundRobin = field(default_factory=RoundRobin)

    def topic(self, _name: str) -> Topic:
        return Topic()

    def config(self, _topic: Topic) -> Settings:
        return self.settings

    def turns(self, _topic: Topic) -> RoundRobin:
        return self.round_robin


class Elsewhere(Homes):
    """Node 7 leads everything."""

    def __init__(self) -> None:
        self.node_id = 1

    def is_here(self, _place: TopicPartition) -> bool:
        return False

    def leader_of(self, _place: TopicPartition) -> int:
        return 7


class Peer(Asking):
    """Takes everything, and remembers to which partition."""

    def __init__(self) -> None:
        self.homes = Elsewhere()
        self.taken: list[int] = []
        # What it answers instead, one for each question.
        self.refusals: list[GoQueueError] = []

    def answer(self, *_: Any) -> None:
        """Nobody asks us."""

    async def settle_down(self, _seconds: float = 0) -> None:
        """The metadata has nothing new."""

    async def ask(self, _node_id: int, _method: Any, question: Any, _caller: Any, **_: Any) -> Any:
        self.taken.append(question.partition)
        if self.refusals:
            refusal = self.refusals.pop(0)
            return [Published(question.partition, -1, -1, refusal) for _ in question.records]
        return [Published(question.partition, 0, 0) for _ in question.records]


def published(peer: Peer, *records: NewRecord, **sender: int) -> list[Published]:
    service = PublishAnywhere(cast("Any", None), cast("Any", Known()), cast("Any", None), peer)
    return asyncio.run(service.publish_records("orders", records, acks=Acks.ALL, **cast("Any", sender)))


def test_the_same_deduplication_id_meets_the_same_partition_every_time() -> None:
    """Each partition has a window of its own: a repeat that takes its turn elsewhere is stored twice."""
    peer = Peer()
    repeat = NewRecord(None, b"bill 7", headers=((DEDUPLICATION_HEADER, b"bill-7"),))
    for _ in range(4):
        published(peer, repeat)
    assert len(set(peer.taken)) == 1


def test_records_without_key_and_id_take_turns() -> None:
    peer = Peer()
    published(peer, *[NewRecord(None, b"x")] * 6)
    assert sorted(peer.taken) == [0, 1, 2, 3, 4, 5]


def test_a_producer_with_sequences_must_say_the_partition_of_records_without_a_key() -> None:
    peer = Peer()
    with pytest.raises(InvalidRequest, match="which partition"):
        published(peer, NewRecord(None, b"x"), producer_id=5, producer_epoch=0, sequence=0)
    assert peer.taken == []


def test_a_producer_with_sequences_sends_to_one_partition_at_a_time() -> None:
    """Each partition would count from the same sequence, and refuse the next batch."""
    peer = Peer()
    records = [NewRecord(str(number).encode(), b"x") for number in range(20)]
    with pytest.raises(InvalidRequest, match="go to several"):
        published(peer, *records, producer_id=5, producer_epoch=0, sequence=0)
    assert peer.taken == []


def test_records_that_a_leader_refused_are_sent_to_the_next_one() -> None:
    peer = Peer()
    peer.refusals = [NotLeader("node 3 leads")]
    (found,) = published(peer, NewRecord(b"k", b"x"))
    assert (found.error, len(peer.taken)) == (None, 2)


def test_records_that_a_leader_wrote_and_lost_are_not_sent_to_the_next_one() -> None:
    """It may have them, and would store them a second time. The sender is told that the outcome is not known."""
    peer = Peer()
    peer.refusals = [NotLeader("node 3 leads", may_be_done=True)]
    (found,) = published(peer, NewRecord(b"k", b"x"))
    assert isinstance(found.error, NotLeader)
    assert len(peer.taken) == 1


def test_records_with_sequences_are_sent_to_the_next_leader_in_any_case() -> None:
    peer = Peer()
    peer.refusals = [NotLeader("node 3 leads", may_be_done=True)]
    (found,) = published(peer, NewRecord(b"k", b"x"), producer_id=5, producer_epoch=0, sequence=0)
    assert (found.error, len(peer.taken)) == (None, 2)
