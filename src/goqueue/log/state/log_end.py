"""LogEnd: up to where a copy of an open log is whole."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment.file_names import LOG, file_name


class LogEnd(msgspec.Struct, frozen=True):
    """Where an open log ends: so many bytes into its newest segment."""

    directory: str
    segment: str
    size_bytes: int


def log_ends(logs: Iterable[PartitionLog]) -> list[LogEnd]:
    """The ends of those logs that have a segment, at one instant."""
    return [
        LogEnd(log.directory, file_name(log.segments[-1].base_offset, LOG), log.segments[-1].size_bytes)
        for log in logs
        if log.segments
    ]
