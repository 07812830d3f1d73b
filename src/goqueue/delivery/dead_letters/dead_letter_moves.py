"""Dead letters: messages that failed for good go to `{topic}.dlq`, each exactly once.

The machine says which batch is next, under which producer id and sequence, and that is durable
before it is appended. After a crash the same batch is sent again, with the same range of sequences, by
which the dead-letter partition recognises it. One batch per queue at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Protocol
from uuid import UUID

from goqueue.broker.arrivals.append_anywhere import AppendAnywhere
from goqueue.broker.reading.unreadable import Unreadable
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.broker.topics import NewTopic, TopicService
from goqueue.caller import INTERNAL
from goqueue.clock import Clock
from goqueue.codec.batch_encode import encode_with_gaps
from goqueue.coordinator.runtime import Shards
from goqueue.coordinator.timers import Alarm
from goqueue.delivery.agreement import Agreement
from goqueue.delivery.dead_letters.raw_letters import raw_letter
from goqueue.delivery.reading.opened_batches import open_batches, raw_batch
from goqueue.delivery.state.commands import BeginMove, Dead, EndMove, Move, ProducerIdNeeded
from goqueue.delivery.state.records import QueueId, QueuePlace
from goqueue.delivery.stats import DeadLetterCounts
from goqueue.errors import GoQueueError, OutOfOrderSequence, PartitionNotFound, ProducerFenced, TopicIdNotFound
from goqueue.ids import DEAD_LETTER_SUFFIX
from goqueue.metadata.events import Topic
from goqueue.ports import Offload
from goqueue.records import Acks, Header, NewRecord, Record, TopicPartition

# How long after a failure a queue's dead letters are tried again.
RETRY_MS = 1000

HEADER_PREFIX = "goqueue-dlq-"
_NO_STRETCH = (0, -1)

OnFailure = Callable[[QueueId, BaseException], None]


class OnMoved(Protocol):
    """Told of messages that lie in the dead-letter topic. It must not raise."""

    def __call__(self, queue_id: QueueId, dead: Sequence[Dead], topic: str, first: int | None, now_ms: int, /) -> None:
        """They lie one behind the other from `first` on; None: an earlier life put them there."""
        ...


class ProducerIds(Protocol):
    """Where producer ids come from."""

    def allocate(self) -> Awaitable[int]:
        """A new one."""
        ...


class DeadLetters:
    """Moves what is dying, in the background, for all queues."""

    def __init__(
        self,
        *,
        topics: TopicService,
        partitions: Partitions,
        append_anywhere: AppendAnywhere,
        producer_ids: ProducerIds,
        offload: Offload,
        clock: Clock,
        on_failure: OnFailure | None = None,
        on_moved: OnMoved | None = None,
    ) -> None:
        self._on_moved = on_moved
        self._topics = topics
        self._partitions = partitions
        self._append_anywhere = append_anywhere
        self._producer_ids = producer_ids
        self._offload = offload
        self._clock = clock
        self._on_failure = on_failure
        self._shards: Shards[QueuePlace] | None = None
        self._agreement: Agreement | None = None
        self._tasks: dict[QueueId, asyncio.Task[None]] = {}
        self._again: set[QueueId] = set()
        # Of those at it, the ones of which it was said meanwhile that there is more.
        self._noticed: set[QueueId] = set()
        self._alarm = Alarm(clock, self._retry)
        self._closed = False
        self._moved: Counter[str] = Counter()
        self._failures: Counter[UUID] = Counter()
        # While a queue is at it: the last stretch that has its letter, so that its other messages do not get one each.
        self._lettered: dict[QueueId, tuple[int, int]] = {}

    def serve(self, shards: Shards[QueuePlace], agreement: Agreement) -> None:
        """Move for the queues of these shards."""
        self._shards = shards
        self._agreement = agreement

    def topic_for(self, topic: str) -> str:
        """Where a topic's dead letters go."""
        return topic + DEAD_LETTER_SUFFIX

    def notice(self, queue_id: QueueId) -> None:
        """The queue has messages that are dying; see to them soon."""
        if queue_id in self._tasks:
            # It may have just been told that there is nothing left.
            self._noticed.add(queue_id)
            return
        if self._closed or queue_id in self._again:
            return
        task = asyncio.get_running_loop().create_task(self._move_all(queue_id))
        self._tasks[queue_id] = task
        task.add_done_callback(lambda _: self._ended(queue_id))

    def counts(self, topic: str | None) -> DeadLetterCounts:
        """What was moved since the start of the node, in all or of one topic."""
        if topic is None:
            return DeadLetterCounts(self._moved, self._failures.total())
        moved = {topic: self._moved[topic]} if topic in self._moved else {}
        return DeadLetterCounts(moved, self._failures[self._topics.get(topic).topic_id])

    async def close(self) -> None:
        """Stop behind the batches under way; what is not moved yet is moved after the next start."""
        self._closed = True
        self._alarm.cancel()
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks)

    def _retry(self) -> None:
        again, self._again = self._again, set()
        for queue_id in again:
            self.notice(queue_id)

    def _ended(self, queue_id: QueueId) -> None:
        del self._tasks[queue_id]
        if queue_id in self._noticed:
            self._noticed.discard(queue_id)
            self.notice(queue_id)

    async def _move_all(self, queue_id: QueueId) -> None:
        try:
            while not self._closed and await self._move_some(queue_id):
                pass
        except Exception as error:  # noqa: BLE001 - whatever it was, the messages are safe where they are
            if self._is_elsewhere(queue_id):
                # Whoever leads the partition now moves them.
                return
            self._failures[queue_id.topic_id] += 1
            if self._closed:
                return
            self._again.add(queue_id)
            self._alarm.set(self._clock.now_ms() + RETRY_MS)
            if self._on_failure is not None:
                self._on_failure(queue_id, error)
        finally:
            # A letter that could not be appended is made again.
            self._lettered.pop(queue_id, None)

    def _is_elsewhere(self, queue_id: QueueId) -> bool:
        try:
            topic = self._topics.by_id(queue_id.topic_id)
        except TopicIdNotFound:
            return True
        return not self._partitions.is_led(topic.name, queue_id.partition)

    async def _move_some(self, queue_id: QueueId) -> bool:
        """Move one batch; False when nothing is dying any more."""
        try:
            topic = self._topics.by_id(queue_id.topic_id)
        except TopicIdNotFound:
            # The messages went with their topic, and the queue's state is about to.
            return False
        if self._agreement is not None:
            partition = await self._partitions.open_leader(topic.name, queue_id.partition)
            await self._agreement.reach(queue_id, partition)
        # Before anything is written: a refusal of what is written drops the queue, at every attempt.
        self._partitions.check_copies(topic.name, queue_id.partition)
        move = await self._submit(queue_id, BeginMove(queue_id))
        if isinstance(move, ProducerIdNeeded):
            move = await self._submit(queue_id, BeginMove(queue_id, await self._producer_ids.allocate()))
        if not isinstance(move, Move):
            return False
        try:
            appended = await self._append(topic, queue_id, move)
        except (OutOfOrderSequence, ProducerFenced):
            # The partition lost what it knew of the producer, so that this batch cannot be in it under its sequence.
            producer_id = await self._producer_ids.allocate()
            await self._submit(queue_id, BeginMove(queue_id, producer_id, renews=True, of=move.id))
            return True
        if appended is not None:
            await self._submit(queue_id, EndMove(queue_id, appended.id, len(appended.dead)))
            self._moved[topic.name] += len(appended.dead)
        return True

    async def _append(self, topic: Topic, queue_id: QueueId, move: Move) -> Move | None:
        """Append the batch, perhaps once more; returns what was appended. None: another batch is on its way by now.

        Each message has its sequence, whether or not it is still there to be read: so the batch has the same range
        of sequences whenever it is made, and its partition recognises it.
        """
        target = await self._dead_letter_topic(topic, queue_id.partition)
        source = await self._partitions.open_leader(topic.name, queue_id.partition)
        while True:
            lettered = self._lettered.get(queue_id, _NO_STRETCH)
            letters = await self._letters(source, queue_id, topic.name, move.dead)
            now_ms = self._clock.now_ms()
            batch = encode_with_gaps(
                [letters.get(one.offset) for one in move.dead],
                producer_id=move.producer_id,
                producer_epoch=0,
                base_sequence=move.sequence,
                now_ms=now_ms,
            )
            bytes_max = self._topics.config(target).max_message_bytes
            if len(batch) <= bytes_max:
                break
            if len(move.dead) == 1:
                # With its history it is larger than any message of its topic. It must not stay here for ever.
                await self._topics.alter_config(target, {"max.message.bytes": str(len(batch))}, caller=INTERNAL)
                break
            # Fewer of them, which is stored before they are appended: a repeat must be of the same ones.
            limit = max(1, min(len(move.dead) - 1, len(move.dead) * bytes_max // len(batch)))
            self._lettered[queue_id] = lettered
            fewer = await self._submit(queue_id, BeginMove(queue_id, limit=limit, of=move.id))
            if not isinstance(fewer, Move):
                return None
            move = fewer
        appended = (await self._append_anywhere(TopicPartition(target, queue_id.partition), batch, Acks.ALL)).appended
        if self._on_moved is not None:
            self._tell_moved(queue_id, move, letters, target, None if appended.duplicate else appended.base_offset)
        return move

    def _tell_moved(
        self, queue_id: QueueId, move: Move, letters: Mapping[int, NewRecord], target: str, first: int | None
    ) -> None:
        """Tell of the letters, run by run: where the place of a message is empty, the next run begins behind it."""
        on_moved, now_ms = self._on_moved, self._clock.now_ms()
        if on_moved is None:
            return
        if first is None:
            on_moved(queue_id, move.dead, target, None, now_ms)
            return
        for has_letter, run in groupby(enumerate(move.dead), lambda one: one[1].offset in letters):
            if has_letter:
                found = list(run)
                on_moved(queue_id, [one for _, one in found], target, first + found[0][0], now_ms)

    async def _dead_letter_topic(self, topic: Topic, partition: int) -> str:
        name = self.topic_for(topic.name)
        count = topic.partition_count
        found = await self._topics.ensure_as(NewTopic(name, count))
        if found.partition_count <= partition:
            # The topic has grown since.
            await self._topics.add_partitions(name, count, caller=INTERNAL)
        if self._topics.get(name).partition_count <= partition:
            raise PartitionNotFound(name, partition)
        return name

    async def _letters(
        self, source: Partition, queue_id: QueueId, topic: str, dead: Sequence[Dead]
    ) -> dict[int, NewRecord]:
        """By offset, the letters of those messages that are still there."""
        letters: dict[int, NewRecord] = {}
        for one in dead:
            opened = await self._offload(partial(open_batches, source, one.offset, one.offset, nowait=False))
            unreadable = next((part.unreadable for part in opened if part.first <= one.offset <= part.last), None)
            found = [r for part in opened for r in part.records if r.offset == one.offset]
            if unreadable is not None:
                raw = await self._raw_letter(source, queue_id, topic, one, unreadable)
                if raw is not None:
                    letters[one.offset] = raw
            elif found:
                letters[one.offset] = dead_letter(found[0], one, topic, queue_id, self._clock.now_ms())
        return letters

    async def _raw_letter(
        self, source: Partition, queue_id: QueueId, topic: str, dead: Dead, found: Unreadable
    ) -> NewRecord | None:
        """The letter of a stretch that nobody can read; None if another message of it has brought it already."""
        first, last = self._lettered.get(queue_id, _NO_STRETCH)
        if first <= dead.offset <= last:
            return None
        self._lettered[queue_id] = (found.first, found.last)
        raw = await self._offload(partial(raw_batch, source, dead.offset))
        bytes_max = self._topics.config(self.topic_for(topic)).max_message_bytes
        now_ms = self._clock.now_ms()
        return raw_letter(found, raw, dead, topic, queue_id, now_ms, prefix=HEADER_PREFIX, bytes_max=bytes_max)

    async def _submit(self, queue_id: QueueId, command: object) -> object:
        if self._shards is None:
            raise GoQueueError("no queues are served yet")
        return await self._shards.submit_to(queue_id.place, command)


def dead_letter(record: Record, dead: Dead, topic: str, queue_id: QueueId, now_ms: int) -> NewRecord:
    """The record as it was, and its history as headers. What an earlier death wrote stays before it."""
    history: dict[str, str] = {
        "topic": topic,
        "partition": str(queue_id.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp_ms),
        "group": queue_id.group,
        "consumer": dead.consumer,
        "delivery-count": str(dead.count),
        "first-delivered": str(dead.first_ms),
        "last-delivered": str(dead.last_ms),
        "died": str(now_ms),
        "reason": dead.reason,
        "error": dead.error,
    }
    headers: list[Header] = [*record.headers]
    headers += [(HEADER_PREFIX + name, text.encode()) for name, text in history.items() if text]
    if record.key is not None:
        headers.append((HEADER_PREFIX + "key", record.key))
    return NewRecord(record.key, record.value, tuple(headers), now_ms)
