"""Metadata of a single node: a compacted log under `metadata/`, replayed at start.

A commit is tried on a draft of the image, written, synced, and only then applied and
told to the listeners. Commits that arrive during a sync share the next one.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from goqueue.clock import Clock, Rng
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import LogPoisoned, ShuttingDown, StorageError
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.metadata.image import ClusterNamed, EpochsRaised, Event, Image
from goqueue.metadata.state_records import StateRecord, image_of, records_for
from goqueue.ports import Files, Offload
from goqueue.records import NewRecord, TimestampType

DIRECTORY = "metadata"

# The log of metadata is no topic's: it has a fixed id, so that it is never taken for one.
LOG_ID = UUID(int=1)

Listener = Callable[[Event], None]

_SEGMENT_BYTES = 1024 * 1024
_READ_BYTES = 1024 * 1024
_DAY_MS = 24 * 3600 * 1000
_SETTINGS = LogSettings(
    segment_bytes=_SEGMENT_BYTES,
    segment_ms=7 * _DAY_MS,
    index_interval_bytes=4096,
    retention_ms=-1,
    retention_bytes=-1,
    max_message_bytes=64 * 1024 * 1024,
    cleanup_delete=False,
    cleanup_compact=True,
    timestamp_type=TimestampType.CREATE_TIME,
    tombstone_retention_ms=_DAY_MS,
    compaction_dirty_ratio=0.5,
    min_compaction_lag_ms=0,
    producer_window_batches=1,
    producer_expiry_ms=_DAY_MS,
)


@dataclass(slots=True)
class _Commit:
    """Events that are written and wait for the disk."""

    events: Sequence[Event]
    done: asyncio.Future[None]


class LocalMetadata:
    """The durable list of metadata events on this node's own disk."""

    def __init__(self, log: PartitionLog, image: Image, clock: Clock, offload: Offload) -> None:
        """Use `open`: it replays the log first."""
        self._log = log
        self._clock = clock
        self._offload = offload
        self._listeners: list[Listener] = []
        # `image` is what is durable; the draft is ahead of it by what is written and not yet synced.
        self.image = image
        self._draft = image.copy()
        self._waiting: list[_Commit] = []
        self._syncing: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    def open(cls, files: Files, *, clock: Clock, rng: Rng, offload: Offload) -> LocalMetadata:
        """Replay what is there; the very first start gives the cluster its id. Blocks."""
        now_ms = clock.now_ms()
        log = PartitionLog.open(files, DIRECTORY, settings=_SETTINGS, topic_id=LOG_ID, now_ms=now_ms)
        if log.damage:
            raise log.damage[0]
        # A kill may have come between a write and its sync. What is believed from here on must outlast
        # a power cut, or topics would go whose records were promised.
        _sync(log)
        log.high_watermark = log.end_offset
        metadata = cls(log, image_of(_stored_records(log)), clock, offload)
        if not metadata.cluster_id:
            metadata._commit_at_open([ClusterNamed(_cluster_id(rng))])
        if not log.recovery.is_clean:
            metadata._raise_epochs()
        # The node may write to every log but this one. Whether it stopped in order is known by this one.
        with suppress(StorageError):
            log.begin_use()
        return metadata

    @property
    def cluster_id(self) -> str:
        """The id that the cluster got at its first start."""
        return self.image.cluster_id

    @property
    def log(self) -> PartitionLog:
        """The log behind it, for inspection."""
        return self._log

    @property
    def poisoned(self) -> bool:
        """Whether a sync has failed: no change is taken until the node is started again."""
        return self._log.poisoned

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every event, in order, right after the image took it in."""
        self._listeners.append(listener)

    async def commit(self, events: Sequence[Event]) -> None:
        """Make the events durable as one, then apply them; all or none."""
        if self._closed:
            raise ShuttingDown("the node is stopping")
        self._write(events)
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(_Commit(tuple(events), done))
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync_until_idle())
        # A caller that goes away must not leave the round half done.
        await asyncio.shield(done)

    async def settled(self) -> None:
        """Wait until everything written so far is applied (or has failed)."""
        while self._syncing is not None:
            await asyncio.shield(self._syncing)

    async def close(self) -> None:
        """Finish what is under way and close the log. A second close does no harm."""
        self._closed = True
        await self.settled()
        await self._offload(self._log.close)

    def _write(self, events: Sequence[Event]) -> None:
        draft = self._draft.copy()
        records: list[StateRecord] = []
        for event in events:
            draft.apply(event)
            records += records_for(event, draft)
        now_ms = self._clock.now_ms()
        batch = encode_batch([NewRecord(key, value) for key, value in records], now_ms=now_ms)
        self._log.append_batch(batch, now_ms=now_ms, leader_epoch=0)
        self._draft = draft

    async def _sync_until_idle(self) -> None:
        try:
            while self._waiting:
                await self._sync_round()
                await self._compact_if_due()
        finally:
            self._syncing = None

    async def _sync_round(self) -> None:
        commits, self._waiting = self._waiting, []
        sync = self._log.begin_sync()
        error: Exception | None = None
        if sync is not None:
            try:
                await self._offload(sync.run)
            except Exception as failure:  # noqa: BLE001 - whatever broke the sync goes to those who wait for it
                error = failure
            except BaseException:
                # The loop is being torn down; nobody may be left waiting.
                for commit in commits:
                    commit.done.cancel()
                raise
            self._log.end_sync(sync, error)
        elif self._log.poisoned:
            error = LogPoisoned(DIRECTORY, "an earlier sync failed")
        for commit in commits:
            self._finish(commit, error)

    def _finish(self, commit: _Commit, error: Exception | None) -> None:
        if error is None:
            self._apply(commit.events)
            commit.done.set_result(None)
        else:
            commit.done.set_exception(StorageError(f"the metadata log could not be synced: {error}"))
            # Marks it as seen: a caller that went away must not turn into a warning.
            commit.done.exception()

    def _apply(self, events: Sequence[Event]) -> None:
        self._log.high_watermark = self._log.synced_end
        for event in events:
            self.image.apply(event)
            for listener in self._listeners:
                self._tell(listener, event)

    def _tell(self, listener: Listener, event: Event) -> None:
        try:
            listener(event)
        except Exception as error:  # noqa: BLE001 - the event is durable whatever a listener makes of it
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"a listener failed at {type(event).__name__}", "exception": error}
            )

    def _commit_at_open(self, events: Sequence[Event]) -> None:
        self._write(events)
        _sync(self._log)
        self._apply(events)

    def _raise_epochs(self) -> None:
        """After a crash the ends of logs may be lost, and other records get their offsets.

        Readers that keep their own positions learn of it by the epoch: they ask where the one
        they know ended (KIP-320). That no log lost anything cannot be known here, and asking
        costs a reader one request.
        """
        raised = [EpochsRaised(topic.name, topic.topic_id) for topic in self.image.topics()]
        if raised:
            # On a full disk the broker starts all the same: what is there can be read.
            with suppress(StorageError):
                self._commit_at_open(raised)

    async def _compact_if_due(self) -> None:
        now_ms = self._clock.now_ms()
        if not self._log.needs_compaction(now_ms):
            return
        # What cannot be compacted (a full disk) is only larger than it need be until next time.
        with suppress(StorageError, OSError):
            compaction = self._log.begin_compaction(now_ms)
            await self._offload(compaction.run)
            self._log.end_compaction(compaction)


def _sync(log: PartitionLog) -> None:
    sync = log.begin_sync()
    if sync is not None:
        sync.run()
        log.end_sync(sync, None)


def _stored_records(log: PartitionLog) -> Iterator[StateRecord]:
    offset = log.start_offset
    while offset < log.end_offset:
        read = log.read_batches(offset, max_bytes=_READ_BYTES, upper=log.end_offset)
        for batch in read.batches:
            for record in decode_records(batch):
                if record.key is None:
                    raise StorageError(f"the metadata record at offset {record.offset} has no key")
                yield record.key, record.value
        if read.next_offset <= offset:
            raise StorageError(f"the metadata log cannot be read at offset {offset}")
        offset = read.next_offset


def _cluster_id(rng: Rng) -> str:
    # As Kafka's: a random UUID in URL-safe base64, 22 characters, not beginning with a dash.
    while True:
        text = urlsafe_b64encode(UUID(int=rng.getrandbits(128), version=4).bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
