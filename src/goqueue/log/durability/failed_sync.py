"""What a failed sync leaves behind, and how the next start gets rid of it.

After a failed sync the system may call pages clean that never reached the disk: they read
well, and every later sync succeeds without storing them. So a poisoned log leaves a note,
and whoever opens it next writes what was not known to be synced once more, as new bytes.
"""

from __future__ import annotations

from contextlib import suppress

from goqueue.log.segment.file_names import LOG, POISONED, TEMPORARY, file_name, offsets_of
from goqueue.log.segment.frame_reader import CHUNK_BYTES
from goqueue.log.state.checkpoint import Checkpoint
from goqueue.ports import Files


def leave_note(files: Files, directory: str, cause: str) -> None:
    """Say that a sync has failed here. A disk that does not take even this cannot be helped."""
    with suppress(OSError):
        files.replace(f"{directory}/{POISONED}", cause.encode())


def write_anew(files: Files, directory: str, checkpoint: Checkpoint | None) -> None:
    """Copy every segment that is not known to be synced over itself, if there is a note to do so."""
    names = files.list(directory)
    if POISONED not in names:
        return
    bases = offsets_of(names, LOG)
    synced_to = checkpoint.recovery.base_offset if checkpoint is not None else 0
    for base, end in zip(bases, [*bases[1:], None], strict=True):
        if end is None or end > synced_to:
            _copy_over_itself(files, f"{directory}/{file_name(base, LOG)}")
    files.sync_dir(directory)
    files.remove(f"{directory}/{POISONED}")


def _copy_over_itself(files: Files, path: str) -> None:
    source = files.open(path)
    files.remove(path + TEMPORARY)
    target = files.open(path + TEMPORARY, create=True)
    try:
        position, size = 0, source.size()
        while position < size:
            data = source.pread(min(CHUNK_BYTES, size - position), position)
            if not data:
                break
            target.append([data])
            position += len(data)
        target.sync()
    finally:
        source.close()
        target.close()
    files.rename(path + TEMPORARY, path)
