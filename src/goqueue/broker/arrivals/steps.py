"""The steps that every node has; features bring their own. The node lists them in order, see `node.ways_in`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goqueue.broker.arrivals.arrival import AfterAppend, Arrival, Facts
from goqueue.broker.arrivals.batch_checks import check_acks, check_timestamp, keyless
from goqueue.broker.arrivals.batch_lanes import NORMAL, lane_of
from goqueue.broker.arrivals.refused_records import check_records, name_records
from goqueue.codec.batch_encode import stamped
from goqueue.codec.frame import Flags
from goqueue.errors import InternalTopic, MessageTooLarge
from goqueue.records import Acks, Appended, Record

if TYPE_CHECKING:
    from goqueue.broker.replicas.partitions import Partition

_NO_TIMESTAMP = -1
# Looked up once: to find a member in its enumeration takes longer than to compare it.
_LEADER = Acks.LEADER
_MIXED_LANES = Flags.MIXED_LANES


class RefuseInternal:
    """Nobody publishes to an internal topic: its coordinator writes to the partition itself."""

    def applies(self, partition: Partition, _facts: Facts) -> bool:
        """To internal topics."""
        return partition.internal

    def __call__(self, arrival: Arrival) -> None:
        """Refuse."""
        raise InternalTopic(arrival.partition.topic_name)


class Limits:
    """Acks, size and timestamps, from the header alone; a refused batch is opened to name its bad records."""

    def applies(self, _partition: Partition, _facts: Facts) -> bool:
        """To all."""
        return True

    def __call__(self, arrival: Arrival) -> None:
        """Refuse what the topic's settings do not allow."""
        place = arrival.partition
        config = place.config
        if arrival.acks != _LEADER:
            check_acks(arrival.acks, place.in_sync_replicas, config.min_insync_replicas)
        size = len(arrival.batch)
        if size > config.max_message_bytes:
            raise MessageTooLarge(size, config.max_message_bytes)
        header, now_ms = arrival.header, arrival.now_ms
        first_ms = header.base_timestamp_ms
        if header.max_timestamp_ms - now_ms > config.timestamp_after_max_ms or (
            now_ms - first_ms > config.timestamp_before_max_ms and first_ms != _NO_TIMESTAMP
        ):
            if not config.stamps_records:
                name_records(arrival.records, lambda record: check_timestamp(config, record.timestamp_ms, now_ms))
            check_timestamp(config, header.max_timestamp_ms, now_ms)
            check_timestamp(config, first_ms, now_ms)


class StampRecords:
    """The broker's time in place of the producer's (LogAppendTime)."""

    def applies(self, partition: Partition, _facts: Facts) -> bool:
        """To topics that want it."""
        return partition.config.stamps_records

    def __call__(self, arrival: Arrival) -> None:
        """Stamp. Checked before: a new checksum would hide whatever the old one caught."""
        arrival.check()
        arrival.replace(stamped(arrival.batch, arrival.now_ms))


class RequireKeys:
    """A compacted topic keeps the newest record of each key, so each record needs one."""

    def applies(self, partition: Partition, _facts: Facts) -> bool:
        """To compacted topics."""
        return partition.config.is_compacted

    def __call__(self, arrival: Arrival) -> None:
        """Refuse records without a key, by name."""
        base_offset = arrival.header.base_offset

        def has_key(record: Record) -> None:
            if record.key is None:
                raise keyless(record.offset - base_offset)

        check_records(arrival.records(), has_key)


class FindLane:
    """The lane of a batch, by its records' priority headers."""

    def applies(self, partition: Partition, _facts: Facts) -> bool:
        """To topics whose producers say priorities in headers."""
        return partition.config.priority_headers

    def __call__(self, arrival: Arrival) -> None:
        """Open the batch, unless its maker knows."""
        if arrival.lane is None:
            records = arrival.records()
            arrival.lane = lane_of(records) if records else NORMAL


class Write:
    """Into the log, and into the topic's counters."""

    def applies(self, _partition: Partition, _facts: Facts) -> bool:
        """To all."""
        return True

    def __call__(self, arrival: Arrival) -> None:
        """Write; of a batch that is there already, say where."""
        place, lane, batch, now_ms = arrival.partition, arrival.lane, arrival.batch, arrival.now_ms
        if lane is None:
            lane = NORMAL
        if lane is NORMAL and not arrival.is_thinned:
            appended = place.writer.append(batch, now_ms=now_ms)
        else:
            appended = place.writer.append(
                batch, now_ms=now_ms, priority=lane.priority, flags=lane.flags, thinned=arrival.is_thinned
            )
        arrival.appended = appended
        if appended.duplicate:
            return
        offsets = appended.last_offset - appended.base_offset + 1
        count = len(arrival.records()) if arrival.is_thinned else offsets
        traffic = place.traffic
        traffic.bytes_in += len(batch)
        traffic.messages_in += count
        if lane is not NORMAL and lane.flags & _MIXED_LANES:
            _count_each_lane(place, appended, now_ms)
        else:
            traffic.lanes_in[lane.priority] += count
            place.enqueued.add(lane.priority, count, now_ms)
        if arrival.when_stored is not None:
            for call in arrival.when_stored:
                call(arrival)


class TellHooks:
    """Whoever wants to know that a batch is stored."""

    def __init__(self, hooks: Sequence[AfterAppend]) -> None:
        self._hooks = tuple(hooks)

    def applies(self, _partition: Partition, _facts: Facts) -> bool:
        """To all, if there is a hook."""
        return bool(self._hooks)

    def __call__(self, arrival: Arrival) -> None:
        """Tell, unless the batch was there before."""
        appended = arrival.appended
        if appended is not None and not appended.duplicate:
            for hook in self._hooks:
                hook(arrival, appended.base_offset, appended.last_offset)


def _count_each_lane(place: Partition, appended: Appended, now_ms: int) -> None:
    """Count a batch of several lanes. It was opened for the lane index, which says how many are of each."""
    end = appended.last_offset + 1
    for run in place.log.lane_runs(None, appended.base_offset, upper=end, runs_max=end - appended.base_offset).runs:
        place.traffic.lanes_in[run.lane] += run.count
        place.enqueued.add(run.lane, run.count, now_ms)
