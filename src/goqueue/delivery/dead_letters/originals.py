"""Originals: the message that a dead letter was, where it still lies in the log."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.delivery.agreement import Agreement
from goqueue.delivery.dead_letters.letters import Letter
from goqueue.delivery.leases.taker import key_hash
from goqueue.delivery.reading.opened_batches import open_batches
from goqueue.delivery.shards import QueueShards
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.records import QueueId
from goqueue.errors import TooBusy
from goqueue.ports import Offload
from goqueue.records import Record


class Original(NamedTuple):
    """A message that its group can be given again where it lies."""

    queue: QueueId
    lane: int
    offset: int
    # Only where keys are kept in order, 0 without a key.
    key: int


class Originals:
    """Finds the messages of dead letters."""

    def __init__(
        self,
        shards: QueueShards,
        agreement: Agreement,
        *,
        topics: TopicService,
        partitions: Partitions,
        offload: Offload,
        clock: Clock,
    ) -> None:
        self._shards = shards
        self._agreement = agreement
        self._topics = topics
        self._partitions = partitions
        self._offload = offload
        self._clock = clock

    async def find(self, letter: Letter, group: str, reopened: int) -> Original | None:
        """The message, if it is still what it was and its group has a queue there; None if it must be sent anew.

        `reopened` are that many of the queue on their way already: `TooBusy` when it may hold no more.
        """
        topic = self._topics.find(letter.history.get("topic", ""))
        number, offset = letter.number("partition"), letter.number("offset")
        if topic is None or topic.internal or number is None or offset is None or number >= topic.partition_count:
            return None
        partition = await self._partitions.open_leader(topic.name, number)
        queue = await self._shards.known(QueueId(group, topic.topic_id, number))
        if queue is None or not queue.sequence:
            return None
        await self._agreement.reach(queue.id, partition)
        found = await self._offload(partial(_read, partition, offset))
        if found is None or not _is_same(found[0], letter) or self._is_too_old(found[0], queue):
            return None
        _check_room(queue, topic.name, reopened)
        record, lane = found
        return Original(queue.id, lane, offset, key_hash(record.key) if queue.policy.key_ordered else 0)

    def _is_too_old(self, record: Record, queue: Queue) -> bool:
        """Whether its time to live is over: it would be passed over where it lies."""
        ttl_ms = queue.policy.ttl_ms
        return ttl_ms is not None and record.timestamp_ms <= self._clock.now_ms() - ttl_ms


def _read(partition: Partition, offset: int) -> tuple[Record, int] | None:
    """The record at an offset and its lane, if readers may see it."""
    log = partition.log
    if not log.start_offset <= offset < log.last_stable_offset:
        return None
    for opened in open_batches(partition, offset, offset, nowait=False):
        for record in opened.records:
            if record.offset == offset:
                runs = log.lane_runs(None, offset, upper=offset + 1, runs_max=1).runs
                return next(((record, lane) for lane, first, count in runs if first <= offset < first + count), None)
    return None


def _is_same(record: Record, letter: Letter) -> bool:
    """Whether no other record has got the offset: of a topic made again, say, or after a crash."""
    return (
        record.key == letter.key
        and record.value == letter.value
        and record.timestamp_ms == letter.number("timestamp")
        and letter.headers[: len(record.headers)] == tuple(record.headers)
    )


def _check_room(queue: Queue, topic: str, reopened: int) -> None:
    bound = queue.policy.outstanding_max
    if len(queue.outstanding) + reopened >= bound:
        raise TooBusy(
            f"group {queue.id.group!r} has {bound} unsettled messages in partition {queue.id.partition} of topic "
            f"{topic!r}, as many as delivery.outstanding_max allows: redrive the rest when it has settled some"
        )
