"""The series of the disk: logs and their sizes, syncs, what housekeeping did, and damage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from goqueue.node.metrics.metrics_page import DiskSources
from goqueue.node.metrics.series import Series

_TOPIC = ("topic",)
_PARTITION = ("topic", "partition")

LOG_SIZE = Series("storage_log_size_bytes", "Bytes on disk.", _TOPIC)
SEGMENTS = Series("storage_segments", "Segments of the partitions in use.", _TOPIC)
LOG_START = Series("storage_log_start_offset", "First offset held, of partitions in use.", _PARTITION)
LOG_END = Series("storage_log_end_offset", "Offset of the next record, of partitions in use.", _PARTITION)
FSYNCS = Series("storage_fsync", "Logs brought to the disk.")
FSYNC_ROUNDS = Series("storage_fsync_rounds", "Rounds of syncs, each for everyone who waited.")
FSYNC_SECONDS = Series("storage_fsync_seconds", "Time spent in rounds of syncs.")
FSYNC_ERRORS = Series("storage_fsync_errors", "Syncs that failed.")
WRITE_ERRORS = Series("storage_write_errors", "Writes that the disk refused, by the name of the error.", ("error",))
OPEN_FILES = Series("storage_open_files", "Files of segments that are open.")
DISK_FREE = Series("storage_disk_free_bytes", "Space left on the data directory's disk.")
WHOLE_DISK_SYNCS = Series("storage_fsync_whole_disk", "Rounds in which one sync of the file system replaced many.")
SEGMENTS_DELETED = Series("storage_segments_deleted", "Segments that retention deleted.")
COMPACTIONS = Series("storage_compactions", "Compactions that were finished.")
RECORDS_COMPACTED = Series("storage_records_compacted", "Records that compaction took away.")
CHECKPOINTS = Series("storage_checkpoints", "Recovery points written.")
HOUSEKEEPING_ERRORS = Series("storage_housekeeping_errors", "Partitions whose housekeeping failed, to be tried again.")
DAMAGED = Series("storage_damaged_frames", "Damaged frames found and still there, of partitions in use.", _TOPIC)
REPAIRED = Series("storage_repaired_segments", "Damaged segments that were made whole from other replicas.")
REPAIRED_RECORDS = Series("storage_repaired_records", "Offsets in them that came from other replicas.")
COPIED_ANEW = Series("storage_replicas_copied_anew", "Damaged compacted logs that were copied anew from their leader.")
REPAIR_ERRORS = Series("storage_repair_errors", "Attempts to repair a log that failed, to be tried again.")
REOPENED = Series("storage_partitions_reopened", "Partitions recovered again, because a log took no more writes.")
UNREADABLE = Series(
    "storage_unreadable_stretches",
    "Unreadable ranges of records, of partitions in use.",
    _TOPIC,
)


def storage_metrics(storage: DiskSources) -> Iterator[Metric]:
    """Every series of the disk, with its rows."""
    topics, partitions, flusher, housekeeping, free_bytes, write_failures = storage
    sizes = {
        topic.name: sum(partitions.size_bytes(topic.name, one) for one in range(topic.partition_count))
        for topic in topics.list()
    }
    yield LOG_SIZE.gauge(((topic,), size) for topic, size in sizes.items())
    in_use = sorted(partitions.all_open(), key=lambda one: one.key)
    segments: Counter[str] = Counter()
    damaged: Counter[str] = Counter()
    unreadable: Counter[str] = Counter()
    for place in in_use:
        for member in place.members():
            segments[place.topic_name] += len(member.log.segments)
            damaged[place.topic_name] += len(member.log.damage)
        unreadable[place.topic_name] += len(place.unreadable.still_there(place.log.start_offset))
    yield SEGMENTS.gauge(((topic,), count) for topic, count in segments.items())
    yield DAMAGED.gauge(((topic,), count) for topic, count in damaged.items())
    repairs = partitions.repairs
    yield REPAIRED.counter([((), repairs.segments)])
    yield REPAIRED_RECORDS.counter([((), repairs.records)])
    yield COPIED_ANEW.counter([((), repairs.resets)])
    yield REPAIR_ERRORS.counter([((), repairs.failures)])
    yield REOPENED.counter([((), repairs.reopened)])
    yield UNREADABLE.gauge(((topic,), count) for topic, count in unreadable.items())
    yield LOG_START.gauge(((one.topic_name, str(one.id)), one.log.start_offset) for one in in_use)
    yield LOG_END.gauge(((one.topic_name, str(one.id)), one.log.end_offset) for one in in_use)
    yield FSYNCS.counter([((), flusher.logs_synced)])
    yield FSYNC_ROUNDS.counter([((), flusher.rounds)])
    yield WHOLE_DISK_SYNCS.counter([((), flusher.whole_disk_syncs)])
    yield FSYNC_SECONDS.counter([((), flusher.seconds)])
    yield FSYNC_ERRORS.counter([((), flusher.failures)])
    yield WRITE_ERRORS.counter(((name,), count) for name, count in sorted(write_failures.counts.items()))
    yield OPEN_FILES.gauge([((), partitions.open_segments.open_files)])
    yield SEGMENTS_DELETED.counter([((), housekeeping.segments_deleted)])
    yield COMPACTIONS.counter([((), housekeeping.compactions)])
    yield RECORDS_COMPACTED.counter([((), housekeeping.records_compacted_away)])
    yield CHECKPOINTS.counter([((), housekeeping.checkpoints)])
    yield HOUSEKEEPING_ERRORS.counter([((), housekeeping.failures)])
    yield DISK_FREE.gauge([((), free_bytes())])
