"""What `goqueue log` shows of segments, frames and damage: plain values, for a table or for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from goqueue.broker.replicas.partition_files import log_name
from goqueue.cli.times import time_text
from goqueue.codec.compression import Codec
from goqueue.codec.frame import Flags
from goqueue.log.inspection.repair import Cut, Repair
from goqueue.log.inspection.verify import Damage, PartitionReport, SegmentReport, SoundFrame
from goqueue.records import Priority

SEGMENT_COLUMNS = [
    "topic",
    "partition",
    "segment",
    "end_offset",
    "frames",
    "records",
    "bytes",
    "first_append",
    "last_append",
    "max_timestamp",
    "lanes",
    "damage",
]
FRAME_COLUMNS = [
    "topic",
    "partition",
    "segment",
    "position",
    "bytes",
    "first_offset",
    "last_offset",
    "records",
    "appended",
    "lane",
    "flags",
    "codec",
    "producer_id",
]

_LANES = [*(lane.name.lower() for lane in Priority), "mixed"]


class LogDirectory(NamedTuple):
    """A partition's directory, and whose it is."""

    topic: str
    partition: int
    directory: str

    @property
    def name(self) -> str:
        """How it is called in messages: `orders-0`, or `orders-0 (delivery log)`."""
        return log_name(self.directory) if "/" in self.directory else f"{self.topic}-{self.partition}"


def segment_row(place: LogDirectory, segment: SegmentReport) -> dict[str, Any]:
    """One segment."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "segment": segment.base_offset,
        "file": segment.file,
        "first_offset": segment.base_offset,
        "end_offset": segment.end_offset,
        "frames": segment.frames,
        "records": segment.records,
        "bytes": segment.size_bytes,
        "first_append": time_text(segment.first_append_ms),
        "last_append": time_text(segment.last_append_ms),
        "max_timestamp": time_text(segment.max_timestamp_ms),
        # Control frames are of no lane: they are shown as what is left over.
        "lanes": {name: count for name, count in zip(_LANES, segment.lanes, strict=True) if count},
        "control_frames": segment.control_frames,
        "damage": [damage_row(damage) for damage in segment.damage],
        "index_faults": [{"file": fault.file, "reason": fault.reason} for fault in segment.index_faults],
    }


def frame_row(place: LogDirectory, segment: int, found: SoundFrame | Damage) -> dict[str, Any]:
    """One frame, or the damaged bytes in its place."""
    where = {"topic": place.topic, "partition": place.partition, "segment": segment, "position": found.position}
    if isinstance(found, Damage):
        return {
            **where,
            "bytes": found.size_bytes,
            "first_offset": found.first_offset,
            "flags": ["DAMAGED"],
            "damage": found.reason,
        }
    header, batch = found.header, found.batch
    return {
        **where,
        "bytes": found.size_bytes,
        "first_offset": header.offset,
        "last_offset": batch.last_offset,
        "records": batch.count,
        "appended": time_text(header.timestamp_ns // 1_000_000),
        "max_timestamp": time_text(batch.max_timestamp_ms),
        "lane": None if header.flags & Flags.CONTROL else _lane(header.flags, header.priority),
        "flags": [flag.name.lower() for flag in Flags if header.flags & flag and flag.name],
        "codec": Codec(batch.codec).name.lower(),
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
    }


def partition_row(place: LogDirectory, report: PartitionReport) -> dict[str, Any]:
    """One partition as `verify` found it."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "sound": report.is_sound,
        "segments": len(report.segments),
        "damage": [damage_row(damage) for damage in report.damage],
        "index_faults": [{"file": fault.file, "reason": fault.reason} for fault in report.index_faults],
    }


def damage_row(damage: Damage) -> dict[str, Any]:
    """Damaged bytes and the offsets that were in them."""
    return {
        "file": damage.file,
        "position": damage.position,
        "bytes": damage.size_bytes,
        "reason": damage.reason,
        "first_offset": damage.first_offset,
        "next_offset": damage.next_offset,
        "records_claimed": None if damage.claimed is None else damage.claimed.count,
    }


def damage_line(damage: Damage) -> str:
    """The same in one line."""
    if not damage.size_bytes:
        return f"{damage.file}, at byte {damage.position}: {damage.reason}; {damage.offsets}"
    end = damage.position + damage.size_bytes
    return f"{damage.file}, bytes {damage.position} to {end} ({damage.size_bytes:,}): {damage.reason}; {damage.offsets}"


def repair_row(place: LogDirectory, repair: Repair) -> dict[str, Any]:
    """What was done to one partition, and what is left to do."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "end_offset": repair.end_offset,
        "rebuilt_files": repair.rebuilt_files,
        "cut": repair.is_cut,
        "lost" if repair.is_cut else "would_lose": None if repair.cut is None else asdict(repair.cut),
        "damage": [damage_row(damage) for damage in repair.damage],
    }


def cut_line(cut: Cut) -> str:
    """What is lost by a cut, in one line."""
    return (
        f"{cut.file} from byte {cut.position} on: {cut.size_bytes:,} bytes, {cut.offsets}, "
        f"{cut.records} in {cut.sound_frames} sound frames and the damaged bytes"
    )


def totals(reports: Sequence[tuple[LogDirectory, PartitionReport]]) -> dict[str, int]:
    """How much was looked at."""
    segments = [segment for _, report in reports for segment in report.segments]
    return {
        "partitions": len(reports),
        "segments": len(segments),
        "frames": sum(segment.frames for segment in segments),
        "records": sum(segment.records for segment in segments),
        "bytes": sum(segment.size_bytes for segment in segments),
    }


def _lane(flags: int, priority: int) -> str:
    return "mixed" if flags & Flags.MIXED_LANES else Priority(priority).name.lower()
