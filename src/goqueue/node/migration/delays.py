"""Delayed messages: `__delayed` was one topic for all of them, spread by a hash of their topic.

Each of its shards is read twice. The first reading finds out what is settled, what was changed later, and what is on
its way; the second writes every slot that counts to the delay log of its partition, under a new number. The new logs
begin behind all offsets of the former topic, so a slot that was named to somebody before is not found any more, and
never means another message. What is on its way keeps producer id and sequence, and is recognised where it has
arrived already.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from goqueue.broker.replicas.partitions import Partitions
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import empty_batch, encode_batch
from goqueue.delay.firing.targets import size_of
from goqueue.delay.holding.records import (
    Change,
    Fire,
    FireKey,
    Schedule,
    ScheduleKey,
    Slot,
    SlotKey,
    SlotState,
    decode,
    encode,
)
from goqueue.delay.holding.store import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Pair
from goqueue.delay.recurring.schedule_homes import ScheduleHomes
from goqueue.delay.recurring.schedules import home_partition
from goqueue.metadata.events import ScheduleHome, Topic
from goqueue.metadata.store import MetadataStore
from goqueue.node.migration.layout import DELAYED
from goqueue.partitioner import partition_for_key
from goqueue.ports import Files, Offload
from goqueue.records import Acks, LogKind, TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.replicas.family import FamilyLog
    from goqueue.clock import Clock
    from goqueue.log.partition_log import PartitionLog
    from goqueue.node.migration.driver import Waiting
    from goqueue.node.migration.progress import Progress

_log = logging.getLogger("goqueue.migration")

_INDEX_DIRECTORY = "delay"
_FORMER_INDEX = ".due"
_READ_BYTES = 1024 * 1024
_EMPTY_OFFSETS_MAX = 1 << 30


class _Former:
    """What the first reading of a shard found."""

    def __init__(self) -> None:
        self.settled: set[int] = set()
        # By slot, the offset of its newest record where that is not its first.
        self.changed: dict[int, int] = {}
        self.fires: dict[int, Fire] = {}
        self.schedules: dict[str, Schedule] = {}
        # By topic, partition and producer: the slot that says how far its delayed records are held.
        self.origins: dict[tuple[bytes, int, int], Slot] = {}

    def take(self, change: Change) -> None:
        """The next record."""
        key, value = change.key, change.value
        if isinstance(key, SlotKey):
            if not isinstance(value, Slot):
                self.settled.add(key.slot)
                self.changed.pop(key.slot, None)
            elif change.offset != key.slot:
                self.changed[key.slot] = change.offset
            elif value.origin is not None and value.state != SlotState.STAGED:
                origin = value.origin
                bare = structs.replace(value, key=None, value=None, headers=())
                self.origins[value.topic_id, origin.partition, origin.producer_id] = bare
        elif isinstance(key, FireKey):
            if isinstance(value, Fire):
                self.fires[key.slot] = value
            else:
                self.fires.pop(key.slot, None)
        elif isinstance(key, ScheduleKey):
            if isinstance(value, Schedule):
                self.schedules[key.name] = value
            else:
                self.schedules.pop(key.name, None)

    def counts(self, change: Change) -> bool:
        """Whether a record is what its slot is now."""
        key = change.key
        if not isinstance(key, SlotKey) or not isinstance(change.value, Slot) or key.slot in self.settled:
            return False
        return self.changed.get(key.slot, key.slot) == change.offset


class DelaysStep:
    """Takes over `__delayed`."""

    topic = DELAYED

    def __init__(
        self, *, files: Files, metadata: MetadataStore, partitions: Partitions, offload: Offload, clock: Clock
    ) -> None:
        self._files = files
        self._metadata = metadata
        self._partitions = partitions
        self._offload = offload
        self._clock = clock
        self._homes = ScheduleHomes(metadata)
        self._written: dict[TopicPartition, FamilyLog] = {}
        self._first_offset = 0
        self._waiting: dict[int, frozenset[TopicPartition]] = {}
        self._dropped = 0

    async def begin_anew(self) -> None:
        """Remove delay logs: none of them has been used yet."""
        await self._offload(lambda: self._partitions.remove_members(LogKind.DELAY))
        self._written, self._waiting, self._dropped = {}, {}, 0

    async def write(self, progress: Progress) -> Waiting:
        """Take one shard after the other; done when all delay logs are synced."""
        shards = [
            (await self._partitions.open_leader(DELAYED, shard)).log
            for shard in self._partitions.led_with_data(DELAYED)
        ]
        self._first_offset = max((log.end_offset for log in shards), default=0)
        # Each is read twice.
        total = 2 * sum(log.end_offset - log.start_offset for log in shards)
        done = 0

        def at(offset: int) -> None:
            progress.at(done + offset - log.start_offset, total)

        for log in shards:
            former = _Former()
            async for change in self._changes(log, at):
                former.take(change)
            done += log.end_offset - log.start_offset
            await self._write_shard(log, former, at)
            done += log.end_offset - log.start_offset
        for member in self._written.values():
            durable = member.writer.reached(member.log.end_offset, Acks.ALL)
            if durable is not None:
                await durable
        if self._dropped:
            _log.warning("%d delayed messages of topics that were deleted are not taken over", self._dropped)
        return self._waiting

    async def finish(self) -> None:
        """Remove the indexes of the former shards."""
        await self._offload(self._remove_indexes)

    def _remove_indexes(self) -> None:
        for name in self._files.list(_INDEX_DIRECTORY):
            if _FORMER_INDEX in name:
                self._files.remove(f"{_INDEX_DIRECTORY}/{name}")

    async def _changes(self, log: PartitionLog, at: Callable[[int], None]) -> AsyncIterator[Change]:
        offset, end = log.start_offset, log.end_offset
        while offset < end:
            changes, offset = await self._offload(partial(_read, log, offset, end))
            for one in changes:
                yield one
            at(offset)

    async def _write_shard(self, log: PartitionLog, former: _Former, at: Callable[[int], None]) -> None:
        fired = {slot: fire for fire in former.fires.values() for slot in fire.slots}
        # Under which number, and where, slots lie that others name.
        named = {*fired, *(one.next_slot for one in former.schedules.values())}
        numbers: dict[int, tuple[TopicPartition, int]] = {}
        batches: dict[TopicPartition, list[tuple[int, Slot]]] = defaultdict(list)
        sizes: dict[TopicPartition, int] = defaultdict(int)
        async for change in self._changes(log, at):
            slot = change.value
            if not former.counts(change) or not isinstance(slot, Slot) or not isinstance(change.key, SlotKey):
                continue
            fire = fired.get(change.key.slot)
            if fire is not None and not former.settled.isdisjoint(fire.slots):
                # Some slots of its fire are settled, which none is before the whole batch is safe in its topic.
                continue
            found = self._place(slot, fire, former)
            if found is None:
                self._dropped += 1
                continue
            place, kept = found
            if sizes[place] + size_of(kept) > BATCH_BYTES_MAX or len(batches[place]) >= BATCH_RECORDS_MAX:
                await self._write_slots(place, batches.pop(place), named, numbers)
                sizes[place] = 0
            batches[place].append((change.key.slot, kept))
            sizes[place] += size_of(kept)
        for place, slots in batches.items():
            await self._write_slots(place, slots, named, numbers)
        await self._write_origins(former)
        await self._write_fires(former, numbers)
        await self._write_schedules(former, numbers)

    def _place(self, slot: Slot, fire: Fire | None, former: _Former) -> tuple[TopicPartition, Slot] | None:
        """The partition of a slot, chosen as it would have been when due; and the slot as it is kept there."""
        topic = self._metadata.image.topic(slot.topic)
        if topic is None or topic.internal:
            return None
        state, reason = slot.state, slot.reason
        if topic.topic_id.bytes != slot.topic_id and state != SlotState.STAGED:
            state, reason = (
                SlotState.EXPIRED.value,
                f"there is no topic {slot.topic!r} with the id that it was held for",
            )
        schedule = former.schedules.get(slot.schedule) if slot.schedule else None
        config = self._partitions.config(topic)
        if fire is not None:
            partition = fire.partition
        elif schedule is not None:
            partition = home_partition(slot.schedule, schedule.partition, schedule.key, topic, config.partitioner)
        elif slot.partition >= 0:
            partition = slot.partition
        elif slot.key is not None:
            partition = partition_for_key(slot.key, topic.partition_count, config.partitioner)
        else:
            partition = self._partitions.turns(topic).take(topic.partition_count)
        if partition >= topic.partition_count:
            partition, state, reason = 0, SlotState.EXPIRED.value, f"topic {slot.topic!r} has no partition {partition}"
        place = TopicPartition(topic.name, partition)
        return place, structs.replace(
            slot, partition=partition, topic_id=topic.topic_id.bytes, state=state, reason=reason
        )

    async def _write_slots(
        self,
        place: TopicPartition,
        slots: list[tuple[int, Slot]],
        named: set[int],
        numbers: dict[int, tuple[TopicPartition, int]],
    ) -> None:
        member = await self._member(place)
        first = member.log.end_offset
        self._append(member, [(SlotKey(first + at), slot) for at, (_, slot) in enumerate(slots)])
        for at, (former, slot) in enumerate(slots):
            if former in named:
                numbers[former] = (place, first + at)
            if slot.state == SlotState.STAGED and slot.origin is not None:
                known = self._waiting.get(slot.origin.producer_id, frozenset())
                self._waiting[slot.origin.producer_id] = known | {place}

    async def _write_origins(self, former: _Former) -> None:
        """How far each producer has come: a slot that is settled at once says it, as those did that were delivered."""
        for slot in former.origins.values():
            topic = self._metadata.image.topic(slot.topic)
            if slot.origin is None or topic is None or topic.topic_id.bytes != slot.topic_id:
                continue
            if slot.origin.partition < topic.partition_count:
                member = await self._member(TopicPartition(topic.name, slot.origin.partition))
                number = member.log.end_offset
                self._append(member, [(SlotKey(number), slot), (SlotKey(number), None)])

    async def _write_fires(self, former: _Former, numbers: dict[int, tuple[TopicPartition, int]]) -> None:
        for fire in former.fires.values():
            found = [numbers[slot] for slot in fire.slots if slot in numbers]
            if len(found) != len(fire.slots):
                continue
            place, slots = found[0][0], tuple(slot for _, slot in found)
            self._append(await self._member(place), [(FireKey(slots[0]), structs.replace(fire, slots=slots))])

    async def _write_schedules(self, former: _Former, numbers: dict[int, tuple[TopicPartition, int]]) -> None:
        for name, schedule in former.schedules.items():
            topic = self._metadata.image.topic(schedule.topic)
            if topic is None or topic.internal:
                continue
            place = self._home(name, schedule, topic)
            number = numbers.get(schedule.next_slot)
            next_slot = -1 if number is None or number[0] != place else number[1]
            kept = structs.replace(schedule, partition=place.partition, next_slot=next_slot)
            self._append(await self._member(place), [(ScheduleKey(name), kept)])
            home = ScheduleHome(topic.topic_id, place.partition)
            await self._homes.claim(name, home, self._homes.all().get(name))

    def _home(self, name: str, schedule: Schedule, topic: Topic) -> TopicPartition:
        algorithm = self._partitions.config(topic).partitioner
        return TopicPartition(topic.name, home_partition(name, schedule.partition, schedule.key, topic, algorithm))

    async def _member(self, place: TopicPartition) -> FamilyLog:
        member = self._written.get(place)
        if member is None:
            member = self._written[place] = await self._partitions.open_member(place, LogKind.DELAY)
            self._skip_offsets(member)
        return member

    def _skip_offsets(self, member: FamilyLog) -> None:
        """Let the log begin behind the former offsets: an empty batch takes them."""
        now_ms = self._clock.now_ms()
        while (left := self._first_offset - member.log.end_offset) > 0:
            batch = empty_batch(min(left, _EMPTY_OFFSETS_MAX), now_ms=now_ms)
            member.writer.append(batch, now_ms=now_ms, thinned=True)

    def _append(self, member: FamilyLog, pairs: list[Pair]) -> None:
        now_ms = self._clock.now_ms()
        member.writer.append(encode_batch([encode(*one) for one in pairs], now_ms=now_ms), now_ms=now_ms)


def _read(log: PartitionLog, offset: int, end: int) -> tuple[list[Change], int]:
    read = log.read_batches(offset, max_bytes=_READ_BYTES, upper=end)
    records = [one for batch in read.batches for one in decode_records(batch) if one.offset >= offset]
    changes = [decode(one.offset, one.key, one.value) for one in records]
    return changes, read.next_offset if read.batches else end
