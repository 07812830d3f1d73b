"""Committed offsets of one group: commit, fetch, delete, expire.

An offset belongs to a topic's id. One that was committed to a topic since deleted is not
there any more, even if a topic of the same name is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from goqueue.errors import GoQueueError, InvalidRequest, OffsetMetadataTooLarge
from goqueue.groups.commands import CommittedOffset, CommittedOffsets, OffsetToCommit, Outcomes
from goqueue.groups.outbox import Outbox
from goqueue.groups.records import OffsetKey, OffsetRecord
from goqueue.groups.subscription.topic_partitions import TopicCatalog
from goqueue.records import TopicPartition


class OffsetTable:
    """How far a group has read. Only `apply` changes it."""

    __slots__ = ("_group", "_offsets")

    def __init__(self, group: str) -> None:
        self._group = group
        self._offsets: dict[TopicPartition, OffsetRecord] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def apply(self, key: OffsetKey, record: OffsetRecord | None) -> None:
        """Take in one offset, or its end."""
        partition = TopicPartition(key.topic, key.partition)
        if record is None:
            self._offsets.pop(partition, None)
        else:
            self._offsets[partition] = record

    def commit(
        self, offsets: tuple[OffsetToCommit, ...], *, metadata_bytes_max: int, now_ms: int, out: Outbox
    ) -> Outcomes:
        """Write down those that can be; one that cannot does not stop the others."""
        outcomes: list[GoQueueError | None] = []
        for one in offsets:
            refusal: GoQueueError | None = None
            if one.offset < 0:
                refusal = InvalidRequest(f"{one.offset} is no offset", field="offset")
            elif len(one.metadata.encode()) > metadata_bytes_max:
                refusal = OffsetMetadataTooLarge(f"more than {metadata_bytes_max} bytes beside an offset")
            else:
                record = OffsetRecord(one.topic_id, one.offset, one.leader_epoch, one.metadata, now_ms)
                out.write(OffsetKey(self._group, one.topic, one.partition), record)
            outcomes.append(refusal)
        return tuple(outcomes)

    def fetch(self, partitions: tuple[TopicPartition, ...] | None, catalog: TopicCatalog) -> CommittedOffsets:
        """Those of these partitions, or all, that are there and belong to a topic that is."""
        wanted = self._offsets if partitions is None else partitions
        found = {}
        for partition in wanted:
            record = self._offsets.get(partition)
            if record is not None and catalog.name_of(record.topic_id) == partition.topic:
                found[partition] = CommittedOffset(
                    record.topic_id, record.offset, record.leader_epoch, record.metadata, record.committed_ms
                )
        return found

    def offset_of(self, one: OffsetToCommit) -> int:
        """What is committed in that partition of that topic; 0 if nothing is."""
        record = self._offsets.get(TopicPartition(one.topic, one.partition))
        return record.offset if record is not None and record.topic_id == one.topic_id else 0

    def delete(self, partition: TopicPartition, out: Outbox) -> None:
        """Forget one offset; nothing is written when there is none."""
        if partition in self._offsets:
            out.write(OffsetKey(self._group, partition.topic, partition.partition), None)

    def delete_all(self, out: Outbox) -> None:
        """Forget every offset."""
        for partition in self._offsets:
            self.delete(partition, out)

    def expire(self, *, is_read: Callable[[str], bool], before_ms: int, catalog: TopicCatalog, out: Outbox) -> int:
        """Forget what was committed before this time and is not read, and what has lost its topic.

        Returns how many are left.
        """
        left = 0
        for partition, record in self._offsets.items():
            is_orphan = catalog.name_of(record.topic_id) != partition.topic
            if is_orphan or (record.committed_ms < before_ms and not is_read(partition.topic)):
                self.delete(partition, out)
            else:
                left += 1
        return left

    def records(self) -> Iterator[tuple[OffsetKey, OffsetRecord]]:
        """All that is stored."""
        for partition, record in self._offsets.items():
            yield OffsetKey(self._group, partition.topic, partition.partition), record
