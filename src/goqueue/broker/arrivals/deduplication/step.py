"""The step that removes repeats from a batch on its way in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.broker.arrivals.deduplication.reading import is_left_alone
from goqueue.broker.arrivals.deduplication.window import Remembered
from goqueue.broker.arrivals.deduplication.windows import Deduplication
from goqueue.broker.replicas.opening import Awaited
from goqueue.records import NewRecord

if TYPE_CHECKING:
    from goqueue.broker.arrivals.arrival import Arrival, Facts
    from goqueue.broker.replicas.partitions import Partition


class RemoveRepeats:
    """A step: a closed batch goes on without the records that are repeats.

    Its offsets and sequences stay, as after compaction: its producer counts on them.
    """

    def __init__(self, deduplication: Deduplication) -> None:
        self._deduplication = deduplication

    def applies(self, partition: Partition, _facts: Facts) -> bool:
        """To topics with a window."""
        return partition.config.dedup_window_ms > 0

    def preparing(self, partition: Partition, now_ms: int) -> Awaited | None:
        """Wait for the ids of the partition's window."""
        return self._deduplication.preparing(partition, now_ms)

    def __call__(self, arrival: Arrival) -> None:
        """Remove repeats, and remember what is left once it is stored."""
        if arrival.facts.has_no_repeats or is_left_alone(arrival.header):
            return
        records = arrival.records()
        if not any(record.headers for record in records):
            return
        new = [NewRecord(one.key, one.value, one.headers) for one in records]
        sifted = self._deduplication.sift(arrival.partition, new, range(len(new)), arrival.now_ms)
        if len(sifted.fresh) < len(records):
            arrival.thin([records[at] for at in sifted.fresh])
        arrival.after(self._remember)

    def _remember(self, arrival: Arrival) -> None:
        place, appended = arrival.partition, arrival.appended
        if appended is None:
            return
        shift = appended.base_offset - arrival.header.base_offset
        for one in arrival.records():
            if one.headers:
                remembered = Remembered(place.id, one.offset + shift, one.timestamp_ms, arrival.now_ms)
                self._deduplication.remember(place, one.headers, remembered)
