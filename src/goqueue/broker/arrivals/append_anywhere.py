"""One way to append to a partition, wherever it is led: for dead letters, redrives and transaction markers.

A call may fail after the batch was stored. Whoever calls sends the same batch again: the same producer id and the
same range of sequences, one batch at a time. The partition then recognises the repeat. A record that is not there
any more when the batch is made again leaves its place empty (`encode_with_gaps`), so that the range stays the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from msgspec import structs

from goqueue.broker.arrivals.arrival import HeldAt
from goqueue.broker.arrivals.publish import PublishService, confirm_refusal
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.caller import INTERNAL
from goqueue.clock import Clock
from goqueue.codec.batch import BatchHeader, parse_batch_header
from goqueue.codec.batch_decode import RECORDS_BYTES_MAX, decode_records
from goqueue.codec.markers import marker_is_commit
from goqueue.errors import DuplicateSequence, ProducerError
from goqueue.ports import Buffer
from goqueue.records import Acks, Appended, TopicPartition

_NOTHING_HELD: Mapping[int, HeldAt] = MappingProxyType({})


class Stored(NamedTuple):
    """What became of a batch: where it lies (-1: stored so long ago that its offsets are forgotten)."""

    appended: Appended
    # Records that are delayed instead, by their position in the batch.
    held: Mapping[int, HeldAt] = _NOTHING_HELD


class AppendAnywhere(Protocol):
    """Appends one closed batch to a partition, on this node or another."""

    def __call__(
        self, place: TopicPartition, batch: Buffer, acks: Acks, /, *, transaction: int | None = None
    ) -> Awaitable[Stored]:
        """Done when the batch is as safe as asked. After any other error than a refusal it may be stored or not.

        `transaction`: which transaction of its producer a transactional batch is meant for; None: whichever is open.
        """
        ...


class OnEnded(Protocol):
    """Told of a transaction's end in one partition. It must not raise."""

    def __call__(
        self, place: TopicPartition, header: BatchHeader, first: int, last: int, now_ms: int, /, *, commit: bool
    ) -> None:
        """What the producer of the marker wrote from `first` to `last` counts, or never will."""
        ...


class LocalAppends:
    """Appends to partitions that this node leads; others are refused with `NotLeader`.

    Batches pass the steps of `publish`; which of its ways in that is, the node decides. A batch with the
    control attribute is a marker: it goes to the log itself.
    """

    def __init__(
        self, partitions: Partitions, publish: PublishService, clock: Clock, on_ended: OnEnded | None = None
    ) -> None:
        self._partitions = partitions
        self._publish = publish
        self._clock = clock
        self._on_ended = on_ended

    async def __call__(
        self, place: TopicPartition, batch: Buffer, acks: Acks, *, transaction: int | None = None
    ) -> Stored:
        """Append, and wait until it is as safe as asked."""
        await self._publish.open(*place)
        header = parse_batch_header(batch)
        if header.is_control:
            return await self._mark(place, header, batch, acks)
        records = decode_records(batch, size_max=RECORDS_BYTES_MAX)
        facts = await self._publish.facts_of(place, header, records)
        if transaction is not None:
            facts = structs.replace(facts, transaction=transaction)
        if header.is_transactional:
            await self._publish.verify(header.producer_id, header.producer_epoch, place)
        partition = self._partitions.leader(*place)
        if header.producer_id >= 0 and not header.is_transactional:
            # One of our own. A transaction keeps its producer by itself, as long as it is open.
            partition.log.producers.keep(header.producer_id)
        try:
            pending = self._publish.append(*place, batch, acks=acks, facts=facts, caller=INTERNAL)
        except DuplicateSequence:
            return await self._forgotten(partition, acks)
        except ProducerError as error:
            await confirm_refusal(partition.writer, error)
            raise
        if pending.durable is not None:
            await pending.durable
        return Stored(pending.appended, pending.slots)

    async def _forgotten(self, partition: Partition, acks: Acks) -> Stored:
        """A repeat whose offsets are forgotten lies somewhere below the end."""
        unsafe = partition.writer.reached(partition.log.end_offset, acks)
        if unsafe is not None:
            await unsafe
        return Stored(Appended(-1, -1, partition.log.start_offset, duplicate=True))

    async def _mark(self, place: TopicPartition, header: BatchHeader, batch: Buffer, acks: Acks) -> Stored:
        partition = self._partitions.leader(*place)
        writer, now_ms = partition.writer, self._clock.now_ms()
        first = -1
        if self._on_ended is not None:
            open_first = {one.producer_id: one.open_first_offset for one in partition.log.producers.all()}
            first = open_first.get(header.producer_id, -1)
        try:
            appended = writer.append(batch, now_ms=now_ms, marker=True)
        except ProducerError as error:
            await confirm_refusal(writer, error)
            raise
        if self._on_ended is not None and first >= 0:
            commit = marker_is_commit(batch)
            self._on_ended(place, header, first, appended.base_offset - 1, now_ms, commit=commit)
        unsafe = writer.reached(appended.end_offset, acks)
        if unsafe is not None:
            await unsafe
        return Stored(appended)
