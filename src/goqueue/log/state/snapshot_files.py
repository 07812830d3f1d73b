"""Producer snapshots (`.snapshot`): the producers as they stood at an offset, so that few frames are replayed.

One is written at each roll and stays as long as the segment that begins there. The
checkpoint carries another, as of its own moment.
"""

from __future__ import annotations

from goqueue.errors import DamagedIndex
from goqueue.log.segment.file_names import PRODUCER_SNAPSHOT, file_name, offsets_of
from goqueue.log.settings import LogSettings
from goqueue.log.state.producer_state import ProducerState
from goqueue.ports import Files


def snapshot_path(directory: str, offset: int) -> str:
    """Where the snapshot taken at `offset` lies."""
    return f"{directory}/{file_name(offset, PRODUCER_SNAPSHOT)}"


def write_snapshot(files: Files, directory: str, offset: int, producers: ProducerState) -> str:
    """Write a snapshot without syncing it, and return its path. A torn one fails its checksum."""
    path = snapshot_path(directory, offset)
    content = producers.encode()
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.append([content])
    finally:
        file.close()
    return path


def load_snapshot(
    files: Files, directory: str, *, at_most: int, settings: LogSettings
) -> tuple[int, ProducerState] | None:
    """The newest sound snapshot taken at or before an offset, with the offset it was taken at."""
    for offset in reversed(offsets_of(files.list(directory), PRODUCER_SNAPSHOT)):
        if offset > at_most:
            continue
        path = snapshot_path(directory, offset)
        try:
            producers = ProducerState.decode(
                files.read(path), settings.producer_window_batches, settings.producer_expiry_ms, where=path
            )
        except (DamagedIndex, FileNotFoundError):
            continue
        return offset, producers
    return None


def forget_snapshots(files: Files, directory: str, *, behind: int) -> None:
    """Remove, durably, every snapshot taken behind the end of a log that a crash has shortened.

    Other frames will be written in the place of those it speaks of: left there, it would take a
    producer's lost batch for a stored one.
    """
    lost = [offset for offset in offsets_of(files.list(directory), PRODUCER_SNAPSHOT) if offset > behind]
    for offset in lost:
        files.remove(snapshot_path(directory, offset))
    if lost:
        files.sync_dir(directory)
