"""A follower's due index: fed from below the high watermark, so that a new leader finds it at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from unittest.mock import patch

from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config
from goqueue.delay.due.index import DueIndex, Known
from goqueue.delay.due.indexing import Indexing
from goqueue.delay.due.replay import replay as replay_log
from goqueue.delay.holding.records import Slot, SlotKey, encode
from goqueue.log.partition_log import PartitionLog
from goqueue.metadata.events import Assignment, AssignmentsChanged
from goqueue.records import LogKind, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

PLACE = TopicPartition("t", 0)
HOUR_MS = 3_600_000


class Follower:
    """A node that follows a partition; what its leader writes is written to the copy by hand."""

    def __init__(self, services: Services, log: PartitionLog, topic_id: bytes) -> None:
        self.services = services
        self.log = log
        self.topic_id = topic_id

    @classmethod
    async def begin(cls, services: Services) -> Follower:
        await services.topics.create(NewTopic("t", 1))
        topic = services.topics.get("t")
        await lead(services, 2, 1)
        member = await services.publish._partitions.follow_member(PLACE, LogKind.DELAY)
        return cls(services, member.log, topic.topic_id.bytes)

    def write(self, values: Sequence[str], *, epoch: int = 1, delay_ms: int = HOUR_MS) -> None:
        """Slots, as a leader of this epoch would write them, each a batch."""
        now_ms = self.services.clock.now_ms()
        for value in values:
            slot = Slot(now_ms + delay_ms, "t", self.topic_id, 0, None, value.encode(), (), now_ms)
            self.append([encode(SlotKey(self.log.end_offset), slot)], epoch)

    def settle(self, slots: Sequence[int], *, epoch: int = 1) -> None:
        self.append([encode(SlotKey(slot), None) for slot in slots], epoch)

    def append(self, records: list, epoch: int) -> None:  # type: ignore[type-arg]
        now_ms = self.services.clock.now_ms()
        self.log.append_batch(encode_batch(records, now_ms=now_ms), now_ms=now_ms, leader_epoch=epoch)

    async def known(self) -> tuple[Known, list[int]]:
        """How far the index has the log, and the slots that it has."""
        await asyncio.sleep(3)
        file = next(one for one in files(self.services) if one._file.index is not None)

        def ask(index: DueIndex) -> tuple[Known, list[int]]:
            known = index.register(self.topic_id, 0)
            return known, [row.slot for row in index.of_partition(known.number, due_before_ms=2**62, limit=1000)]

        return await file.ask(ask)


def files(services: Services) -> Sequence[Indexing]:
    return services.delay._files


async def lead(services: Services, leader: int, epoch: int, isr: tuple[int, ...] = (1,)) -> None:
    topic = services.topics.get("t")
    assignment = Assignment(leader, epoch, (1, 2), isr if leader == 1 else (2,))
    await services.defaults._metadata.commit([AssignmentsChanged("t", topic.topic_id, {0: assignment})])


async def delivered(services: Services) -> list[str]:
    found = await services.reads.read({PLACE: 0}, limit=1000, max_bytes=10**6)
    return sorted((one.value or b"").decode() for one in found[PLACE].records)


def test_the_index_of_a_follower_has_what_lies_below_the_high_watermark() -> None:
    async def story(services: Services) -> None:
        follower = await Follower.begin(services)
        follower.write(["a", "b", "c"])
        follower.log.high_watermark = 2
        known, slots = await follower.known()
        assert (known.end_offset, known.epoch, slots) == (2, 1, [0, 1])
        follower.write(["d"])
        follower.settle([1, 3])
        follower.log.high_watermark = 5
        # The high watermark lies within the batch that settles two: it is taken in whole, later.
        known, slots = await follower.known()
        assert (known.end_offset, slots) == (4, [0, 1, 2, 3])
        follower.log.high_watermark = 6
        known, slots = await follower.known()
        assert (known.end_offset, slots) == (6, [0, 2])
        assert await delivered(services) == []
        # Nothing of what is only followed is due here, whatever the time.
        await asyncio.sleep(2 * HOUR_MS / 1000)
        assert services.delay.stats().pending == {}

        with patch("goqueue.delay.due.indexing.replay", wraps=replay_log) as replay:
            follower.write(["e"], delay_ms=0)
            await lead(services, 1, 2)
            await asyncio.sleep(1)
        assert await delivered(services) == ["a", "c", "e"]
        (brought_up,) = replay.call_args_list
        assert brought_up.args[2].end_offset == 6, "only what the index lacked was replayed"

    assert SimNode(3, Config()).live(story)


def test_a_follower_that_lost_what_it_had_after_an_unclean_election_rebuilds_its_index() -> None:
    async def story(services: Services) -> None:
        follower = await Follower.begin(services)
        follower.write(["a", "b", "lost", "lost too"])
        follower.log.high_watermark = 4
        assert (await follower.known())[1] == [0, 1, 2, 3]
        # A replica that had only the first two leads now, and has written more than was lost.
        await lead(services, 2, 5)
        follower.log.truncate_to(2)
        follower.write(["x", "y", "z"], epoch=5, delay_ms=2 * HOUR_MS)
        follower.settle([0], epoch=5)
        follower.log.high_watermark = 6
        known, slots = await follower.known()
        assert (known.end_offset, known.epoch, slots) == (6, 5, [1, 2, 3, 4])
        await lead(services, 1, 6)
        await asyncio.sleep(3 * HOUR_MS / 1000)
        assert await delivered(services) == ["b", "x", "y", "z"]

    assert SimNode(4, Config()).live(story)


def test_a_replica_that_is_given_away_leaves_nothing_in_the_index() -> None:
    async def story(services: Services) -> None:
        follower = await Follower.begin(services)
        follower.write(["a", "b"])
        follower.log.high_watermark = 2
        assert (await follower.known())[1] == [0, 1]
        topic = services.topics.get("t")
        elsewhere = Assignment(2, 1, (2, 3), (2,))
        await services.defaults._metadata.commit([AssignmentsChanged("t", topic.topic_id, {0: elsewhere})])
        known, slots = await follower.known()
        assert (known.end_offset, slots) == (0, [])

    assert SimNode(5, Config()).live(story)
