"""Backup, verify and restore: the three jobs, whoever runs their tasks (threads here, or Spark)."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from goqueue.backup import plan
from goqueue.backup.addresses import as_written
from goqueue.backup.files import Damaged, Piece, copy_file, hash_of, read_ahead, restore_file, verify_file
from goqueue.backup.manifest import LogFile, Manifest
from goqueue.backup.plan import Ends
from goqueue.backup.store import Store, Vault, open_store
from goqueue.backup.whole import appearing, refuse_filled
from goqueue.errors import GoQueueError, InvalidRequest

T = TypeVar("T")
R = TypeVar("R")


class BackupFailed(GoQueueError):
    """The backup, or a file of it, is not sound; nothing was left half done."""


class RunTasks(Protocol):
    """Does `work` on every piece and returns the results in their order; raises what a task raised."""

    def __call__(
        self,
        name: str,
        work: Callable[[T], R],
        pieces: Sequence[T],
        *,
        size: Callable[[T], int],
        announce: Callable[[T], object] = ...,
    ) -> list[R]:
        """Run them; `announce` gets the piece that comes next, so that the disk can begin with it."""
        ...


@dataclass(slots=True)
class Outcome:
    """What a job did, or would do."""

    facts: dict[str, Any]
    topics: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def backup(
    run: RunTasks | None,
    data_dir: Path,
    target: str | Path | Vault,
    *,
    ask_instant: Callable[[], Ends | None],
    incremental: bool = True,
    at_step: Callable[[str], None] = lambda _step: None,
) -> Outcome:
    """Copy every log as it is at one instant. Without a runner it is only planned."""
    if not (data_dir / "metadata").is_dir():
        raise InvalidRequest(f"{data_dir} is not the data directory of a broker", field="data_dir")
    begun = time.monotonic()
    store = open_store(target)
    parent = store.read() if incremental and store.names() else None
    if parent is not None and parent.encryption != store.encryption:
        # Its objects cannot serve this backup.
        parent = None
    checkpoints = plan.checkpoints(data_dir)
    ends = ask_instant()
    taken = dt.datetime.now(dt.UTC)
    kept, fresh = plan.unchanged(plan.segments(data_dir, ends or {}), parent)
    outcome = Outcome(
        {
            "backup": taken.strftime("%Y%m%dT%H%M%S%fZ"),
            "broker": "stopped" if ends is None else "running",
            "parent": parent.name if parent else None,
            "files_to_read": len(fresh),
            "files_unchanged": len(kept),
            "bytes_to_read": sum(map(_bytes_to_read, fresh)),
        }
    )
    if run is None:
        return outcome
    with store.writing():
        copy = partial(copy_file, target=_named(target))
        copied = _checked(partial(run, "backup", copy, fresh, size=_bytes_to_read))
        stored = [_store_small(store, path, content) for path, content in checkpoints.items()]
        manifest = Manifest(
            name=outcome.facts["backup"],
            taken_ms=int(taken.timestamp() * 1000),
            # A segment whose last write was cut off has nothing new behind the part that is known.
            files=sorted(
                [*kept, *(file for file in copied if file.size or not file.start), *stored],
                key=lambda file: (file.path, file.start),
            ),
            broker=outcome.facts["broker"],
            parent=parent.name if parent else None,
            encryption="age" if store.encryption else None,
        )
        at_step("backup-copied")
        store.write(manifest)
    return _finished(outcome, manifest, time.monotonic() - begun)


def verify(run: RunTasks, target: str | Path | Vault, name: str | None) -> Outcome:
    """Compute every checksum and hash of a backup again."""
    begun = time.monotonic()
    manifest, place = _found(target, name)
    look, announce = partial(verify_file, target=place), partial(read_ahead, target=place)
    found = run("verify", look, manifest.files, size=_bytes_of, announce=announce)
    outcome = Outcome({"backup": manifest.name}, problems=[problem for problem in found if problem is not None])
    return _finished(outcome, manifest, time.monotonic() - begun)


def restore(
    run: RunTasks | None,
    target: str | Path | Vault,
    name: str | None,
    data_dir: Path,
    *,
    until_ms: int | None = None,
    at_step: Callable[[str], None] = lambda _step: None,
) -> Outcome:
    """Lay a backup into an empty directory; without a runner it is only planned.

    A restore that is killed leaves a directory beside the one asked for, never one that a broker would start on.
    """
    begun = time.monotonic()
    refuse_filled(data_dir, "data_dir", "a restore never writes over data")
    manifest, place = _found(target, name)
    outcome = Outcome({"backup": manifest.name, "until_ms": until_ms})
    if run is None:
        return _finished(outcome, manifest, 0)
    with appearing(data_dir, "restoring") as fresh:
        lay = partial(restore_file, target=place, root=str(fresh), until_ms=until_ms)
        wanted = _by_path(manifest.files)
        found = _checked(
            partial(run, "restore", lay, wanted, size=_bytes_of_parts, announce=partial(_read_ahead_first, place))
        )
        laid = [file for files in found for file in files]
        restored = Manifest(manifest.name, manifest.taken_ms, laid, manifest.broker)
        if until_ms is None and restored.ends() != manifest.ends():
            raise BackupFailed("the restored logs do not end at the offsets of the backup")
        at_step("restore-laid")
    return _finished(outcome, restored, time.monotonic() - begun)


def listed(target: str | Path | Vault) -> list[dict[str, Any]]:
    """Every backup of a store, oldest first."""
    store = open_store(target)
    rows = []
    for name in store.names():
        manifest = store.read(name)
        taken = dt.datetime.fromtimestamp(manifest.taken_ms / 1000, dt.UTC)
        rows.append(
            {
                "backup": name,
                "taken": taken.isoformat(timespec="seconds"),
                "broker": manifest.broker,
                "parent": manifest.parent,
                "logs": len(manifest.ends()),
                "files": len(manifest.files),
                "bytes": sum(map(_bytes_of, manifest.files)),
            }
        )
    return rows


def _named(target: str | Path | Vault) -> str | Vault:
    """As tasks take it."""
    return target if isinstance(target, Vault) else as_written(target)


def _found(target: str | Path | Vault, name: str | None) -> tuple[Manifest, str | Vault]:
    """A backup, and how to open its objects: with the key if they are encrypted."""
    place = _named(target)
    manifest = open_store(place).read(name)
    if manifest.encryption is None:
        return manifest, place.target if isinstance(place, Vault) else place
    if not isinstance(place, Vault) or place.identity is None:
        raise InvalidRequest(
            f"backup {manifest.name} is encrypted: name the file of its private key",
            field="identity",
            hint="--identity FILE",
        )
    return manifest, place


def _by_path(files: Sequence[LogFile]) -> list[list[LogFile]]:
    """The parts of each file, in their order."""
    parts: dict[str, list[LogFile]] = {}
    for file in sorted(files, key=lambda one: one.start):
        parts.setdefault(file.path, []).append(file)
    return list(parts.values())


def _read_ahead_first(place: str | Vault, parts: Sequence[LogFile]) -> None:
    read_ahead(parts[0], place)


def _bytes_to_read(piece: Piece) -> int:
    return piece.limit - piece.start


def _bytes_of_parts(parts: Sequence[LogFile]) -> int:
    return sum(map(_bytes_of, parts))


def _bytes_of(file: LogFile) -> int:
    return file.size


def _checked(work: Callable[[], list[Any]]) -> list[Any]:
    try:
        return work()
    except Damaged as damage:
        raise BackupFailed(str(damage)) from None


def _store_small(store: Store, path: str, content: bytes) -> LogFile:
    hash_ = hash_of(memoryview(content))
    if not store.has_object(hash_, len(content)):
        store.put_bytes(hash_, content)
    return LogFile(path, len(content), hash_, "checkpoint")


def _finished(outcome: Outcome, manifest: Manifest, seconds: float) -> Outcome:
    size = sum(map(_bytes_of, manifest.files))
    outcome.facts |= {"files": len(manifest.files), "bytes": size, "seconds": round(seconds, 2)}
    if seconds:
        outcome.facts["mb_per_second"] = round(size / 1e6 / seconds, 1)
    outcome.topics = _topics(manifest.files)
    return outcome


def _topics(files: Sequence[LogFile]) -> list[dict[str, Any]]:
    frames, size, partitions = Counter[str](), Counter[str](), Counter[str]()
    for partition in {file.partition for file in files}:
        partitions[partition.split("/")[1] if "/" in partition else partition] += 1
    for file in files:
        topic = file.partition.split("/")[1] if "/" in file.partition else file.partition
        frames[topic] += file.frames
        size[topic] += file.size
    return [
        {"topic": topic, "partitions": partitions[topic], "frames": frames[topic], "bytes": size[topic]}
        for topic in sorted(partitions)
    ]
