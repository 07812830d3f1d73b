"""Participants: open and decided transactions name the partitions in which something of them waits.

Earlier versions had the partitions of internal topics as participants. Done twice, it changes nothing the second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from goqueue.broker.replicas.partitions import Partitions
from goqueue.coordinator.journal import PartitionJournal
from goqueue.coordinator.shard import Record
from goqueue.node.migration.replay import last_values
from goqueue.ports import Offload
from goqueue.records import Acks, TopicPartition
from goqueue.transactions.records import VALUES, TransactionRecord, TransactionState
from goqueue.transactions.service import TRANSACTION_STATE

if TYPE_CHECKING:
    from goqueue.node.migration.driver import Waiting


async def rewrite_participants(
    partitions: Partitions, *, former: str, waiting: Waiting, offload: Offload, now_ms: int
) -> None:
    """In every transaction, put the partitions where something waits in the place of those of the former topic."""
    for shard in partitions.led_with_data(TRANSACTION_STATE):
        partition = await partitions.open_leader(TRANSACTION_STATE, shard)
        stored = await last_values(partition.log, offload)
        changed = _changed(stored, former, waiting)
        if changed:
            end_offset = PartitionJournal(partition.writer).append(changed, None, now_ms)
            durable = partition.writer.reached(end_offset, Acks.ALL)
            if durable is not None:
                await durable


def _changed(stored: Mapping[bytes, bytes], former: str, waiting: Waiting) -> list[Record]:
    changed: list[Record] = []
    for key, value in stored.items():
        record = VALUES.decode(value)
        if not isinstance(record, TransactionRecord):
            continue
        places = frozenset(place for place in record.places if place.topic != former)
        if record.state is TransactionState.ONGOING or record.state.is_prepared:
            places |= waiting.get(record.producer_id, frozenset[TopicPartition]())
        if places != record.places:
            changed.append((key, VALUES.encode(msgspec.structs.replace(record, partitions=tuple(sorted(places))))))
    return changed
