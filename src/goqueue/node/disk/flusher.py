"""Group commit: one round of syncs at a time serves everyone who waited for it.

Those who ask while a round is under way are served by the next one, so with many
writers the disk is asked once per round and not once per write. Logs that nobody waits
for are synced within the flush interval. A log whose sync fails is poisoned alone;
when one syncfs stood for many logs, its failure poisons all of them, because nobody
can tell whose bytes were lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from goqueue.config import DurabilityConfig
from goqueue.errors import GoQueueError, LogPoisoned, StorageError
from goqueue.log.durability.sync_rounds import SyncRound
from goqueue.log.durability.write_failures import lacks_handles
from goqueue.log.partition_log import PartitionLog
from goqueue.ports import Files, Offload

# Two syncs at once share a commit of the file system's journal; more than this many gain nothing.
SYNCS_AT_ONCE_MAX = 8


@dataclass(slots=True)
class FlusherStats:
    """Counters since the start, for the metrics page."""

    rounds: int = 0
    logs_synced: int = 0
    whole_disk_syncs: int = 0
    waiters_served: int = 0
    failures: int = 0
    seconds: float = 0.0
    seconds_max: float = 0.0


OnSynced = Callable[[PartitionLog, int, int], None]


class Flusher:
    """Implements the broker's `Syncer`. Lives on the event loop; syncs run in the offload."""

    def __init__(self, files: Files, offload: Offload, config: DurabilityConfig) -> None:
        self.stats = FlusherStats()
        self._files = files
        self._offload = offload
        self._config = config
        self._waiting: dict[PartitionLog, list[_Waiter]] = {}
        # Those whom the round under way will answer.
        self._served: dict[PartitionLog, list[_Waiter]] = {}
        # Dirty logs wait for the timer; due ones for the next round.
        self._dirty: dict[PartitionLog, None] = {}
        self._due: dict[PartitionLog, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rounds: asyncio.Task[None] | None = None
        # Told what was made safe: the log, and from which offset to which. It must not raise.
        self.on_synced: OnSynced | None = None

    def mark_dirty(self, log: PartitionLog) -> None:
        """Bytes were appended that nobody waits for: sync them within the flush interval."""
        if log in self._dirty:
            return
        self._dirty[log] = None
        if self._timer is None:
            # Half the interval, so that the other half is left for the disk.
            delay_seconds = self._config.flush_interval_ms / 2000
            self._timer = asyncio.get_running_loop().call_later(delay_seconds, self._flush_dirty)

    def synced(self, log: PartitionLog, end_offset: int) -> Awaitable[None]:
        """Wait until all below `end_offset` survives a power cut. Raises LogPoisoned if it never will."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if log.synced_end >= end_offset:
            future.set_result(None)
            return future
        self._waiting.setdefault(log, []).append((end_offset, future))
        self._start_rounds()
        return future

    def give_up(self, log: PartitionLog, reason: GoQueueError) -> None:
        """Raise `reason` for all who wait for the log; its bytes are synced all the same."""
        for waiters in (self._waiting.pop(log, ()), self._served.pop(log, ())):
            for _, future in waiters:
                if not future.done():
                    future.set_exception(reason)
                    # Whoever gave up waiting must not turn this into a warning about a lost exception.
                    future.exception()

    def flush_soon(self) -> None:
        """Sync every log that is dirty now, without waiting for the interval."""
        self._flush_dirty()

    async def flush(self) -> None:
        """Sync every log that is dirty now, and return when that is done."""
        self._flush_dirty()
        while self._rounds is not None:
            await asyncio.shield(self._rounds)

    async def close(self) -> None:
        """Serve all who wait, sync what is dirty, then rest. A second close does no harm."""
        await self.flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush_dirty(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due.update(self._dirty)
        self._dirty.clear()
        self._start_rounds()

    def _start_rounds(self) -> None:
        # The task takes its first step after this pass of the loop, so that all who ask
        # in the same pass are in the same round.
        if self._rounds is None and (self._waiting or self._due):
            self._rounds = asyncio.get_running_loop().create_task(self._run_rounds())

    async def _run_rounds(self) -> None:
        try:
            while self._waiting or self._due:
                await self._run_round()
        finally:
            self._rounds = None

    async def _run_round(self) -> None:
        waiting, self._waiting = self._waiting, {}
        self._served = waiting
        logs = dict.fromkeys((*waiting, *self._due))
        self._due.clear()
        errors: dict[PartitionLog, Exception] = {}
        syncs: dict[PartitionLog, SyncRound] = {}
        for log in logs:
            self._dirty.pop(log, None)
            try:
                sync = log.begin_sync()
            except (GoQueueError, OSError) as error:
                errors[log] = error
            else:
                if sync is not None:
                    syncs[log] = sync
        try:
            await self._run_syncs(syncs, errors)
        except Exception as error:  # noqa: BLE001 - no thread was to be had: nobody is left waiting for what never ran
            errors.update(dict.fromkeys(syncs, error))
        ends = [(log, log.synced_end) for log in syncs] if self.on_synced is not None else ()
        for log, sync in syncs.items():
            log.end_sync(sync, errors.get(log))
        for log in logs:
            if log.is_dirty and not log.poisoned and log not in errors:
                # A checkpoint that must come first could not be written, or more was appended meanwhile.
                self.mark_dirty(log)
        for log, waiters in waiting.items():
            self._answer(log, waiters, errors.get(log))
        for log, before in ends:
            if self.on_synced is not None and log.synced_end > before:
                self.on_synced(log, before, log.synced_end)

    async def _run_syncs(self, syncs: dict[PartitionLog, SyncRound], errors: dict[PartitionLog, Exception]) -> None:
        """Run every sync, and note under `errors` whose failed."""
        if not syncs:
            return
        loop = asyncio.get_running_loop()
        started = loop.time()
        items = list(syncs.items())
        file_count = sum(sync.file_count for sync in syncs.values())
        if file_count >= self._config.syncfs_files_min or any(sync.needs_whole_disk for sync in syncs.values()):
            errors.update(await self._offload(partial(_sync_whole_disk, self._files, items)))
            self.stats.whole_disk_syncs += 1
        elif len(items) == 1:
            errors.update(await self._offload(partial(_sync_each, items)))
        else:
            shares = [items[first::SYNCS_AT_ONCE_MAX] for first in range(min(len(items), SYNCS_AT_ONCE_MAX))]
            for failed in await asyncio.gather(*(self._offload(partial(_sync_each, share)) for share in shares)):
                errors.update(failed)
        starved = [item for item in items if lacks_handles(errors.get(item[0]))]
        if starved:
            # Files could not be opened to be synced. A sync of the whole disk opens none.
            for log, _ in starved:
                del errors[log]
            errors.update(await self._offload(partial(_sync_whole_disk, self._files, starved)))
            self.stats.whole_disk_syncs += 1
        seconds = loop.time() - started
        self.stats.rounds += 1
        self.stats.logs_synced += len(items)
        self.stats.failures += sum(1 for log in syncs if log in errors)
        self.stats.seconds += seconds
        self.stats.seconds_max = max(self.stats.seconds_max, seconds)

    def _answer(self, log: PartitionLog, waiters: list[_Waiter], error: Exception | None) -> None:
        """Tell everyone of this round. They wrote before it began, so what is not safe now was not saved by it."""
        synced_end = log.synced_end
        for end_offset, future in waiters:
            if future.done():
                continue
            if end_offset <= synced_end:
                future.set_result(None)
                self.stats.waiters_served += 1
            else:
                future.set_exception(_refusal(log, error))
                # Whoever gave up waiting must not turn this into a warning about a lost exception.
                future.exception()


_Waiter = tuple[int, "asyncio.Future[None]"]
_Failed = dict[PartitionLog, Exception]


def _refusal(log: PartitionLog, error: Exception | None) -> GoQueueError:
    if isinstance(error, GoQueueError):
        return error
    if error is not None or log.poisoned:
        return LogPoisoned(log.directory, str(error or "a sync failed earlier"))
    return StorageError(f"{log.directory} was cut, closed or not writable before its last records were safe")


def _sync_each(items: Sequence[tuple[PartitionLog, SyncRound]]) -> _Failed:
    failed: _Failed = {}
    for log, sync in items:
        try:
            sync.run()
        except Exception as error:  # noqa: BLE001 (an unknown failure must poison, not pass)
            failed[log] = error
    return failed


def _sync_whole_disk(files: Files, items: Sequence[tuple[PartitionLog, SyncRound]]) -> _Failed:
    try:
        files.sync_all()
    except Exception as error:  # noqa: BLE001 (as above)
        return dict.fromkeys((log for log, _ in items), error)
    failed: _Failed = {}
    for log, sync in items:
        try:
            sync.check_whole_disk()
        except OSError as error:
            failed[log] = error
    return failed
