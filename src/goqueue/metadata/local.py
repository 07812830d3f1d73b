"""Metadata of a single node: a compacted log under `metadata/`, replayed at start.

A commit is tried on a draft of the image, with its guards, written, synced, and only then applied
and told to the listeners. Commits that arrive during a sync share the next one. The revision of a
commit is the offset of its first record plus one, so revisions grow through every restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from msgspec import structs

from goqueue.clock import Clock, Rng
from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import Conflict, GuardFailed, LogPoisoned, NotFound, ShuttingDown, StorageError
from goqueue.log.durability.write_failures import WriteObserver
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.log.state.log_end import LogEnd, log_ends
from goqueue.metadata.cluster_id import fresh_cluster_id
from goqueue.metadata.deltas import DeltaFeed
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    ClusterNamed,
    ControllerChanged,
    Delta,
    Event,
    Node,
    NodeChanged,
    SessionChanged,
)
from goqueue.metadata.features import distinct
from goqueue.metadata.image import Image
from goqueue.metadata.state_records import StateRecord, StoredRecord, image_of, records_for
from goqueue.metadata.store import Guard, Listener, SessionGuard
from goqueue.ports import Files, Offload
from goqueue.records import NewRecord, TimestampType

DIRECTORY = "metadata"

# The log of metadata is no topic's: it has a fixed id, so that it is never taken for one.
LOG_ID = UUID(int=1)

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
    """A transaction that is written and waits for the disk."""

    delta: Delta
    done: asyncio.Future[None]


class LocalMetadata:
    """The durable list of metadata events on this node's own disk."""

    def __init__(self, log: PartitionLog, image: Image, clock: Clock, offload: Offload) -> None:
        """Use `open`: it replays the log first."""
        self._log = log
        self._clock = clock
        self._offload = offload
        self._feed = DeltaFeed(image.revision)
        # `image` is what is durable; the draft is ahead of it by what is written and not yet synced.
        self.image = image
        self._draft = image.copy()
        self._waiting: list[_Commit] = []
        self._syncing: asyncio.Task[None] | None = None
        self._closed = False
        # Whether epochs had to be raised at the start and could not be: the next start has to try again.
        self.owes_epochs = False

    @classmethod
    def open(
        cls,
        files: Files,
        *,
        clock: Clock,
        rng: Rng,
        offload: Offload,
        was_clean: bool | None = None,
        observer: WriteObserver | None = None,
        check: Callable[[Image], None] | None = None,
    ) -> LocalMetadata:
        """Replay what is there; the very first start gives the cluster its id. Blocks.

        `was_clean` says how the node stopped last. Unless that is known (None), it was as this log was closed.
        `check` may raise at what it finds: nothing is written then, and the next start finds all as it was.
        """
        now_ms = clock.now_ms()
        log = PartitionLog.open(files, DIRECTORY, settings=_SETTINGS, topic_id=LOG_ID, now_ms=now_ms, observer=observer)
        if log.damage:
            raise log.damage[0]
        # A kill may have come between a write and its sync. What is believed from here on must outlast
        # a power cut, or topics would go whose records were promised.
        _sync(log)
        log.high_watermark = log.end_offset
        image = image_of(_stored_records(log))
        # Compaction may have removed the newest records of all, and revisions do not go back.
        image.revision = log.end_offset
        if check is not None:
            try:
                check(image)
            except BaseException:
                log.abandon()
                raise
        metadata = cls(log, image, clock, offload)
        if not metadata.cluster_id:
            metadata._commit_at_open([ClusterNamed(fresh_cluster_id(rng))])
        if was_clean is False or not log.recovery.is_clean:
            metadata._raise_epochs()
        # A copy of logs and metadata has no mark of a stop, and was perhaps taken while the node ran: then this
        # log must say so, even if nothing has been written to it.
        with suppress(StorageError):
            log.begin_use()
        return metadata

    @property
    def cluster_id(self) -> str:
        """The id that the cluster got at its first start."""
        return self.image.cluster_id

    def problem(self) -> str | None:
        """After a failed sync no change is taken until the node is started again."""
        return "it takes no changes since a sync failed, until a restart" if self._log.poisoned else None

    def log_ends(self) -> list[LogEnd]:
        """The end of the one log behind it."""
        return log_ends([self._log])

    def take_leadership(self, node_id: int) -> list[str]:
        """Let this node lead every topic, alone and in a new epoch; returns those that another led before. Blocks."""
        alone = (node_id,)
        changed: list[AssignmentsChanged] = []
        for topic in self.image.topics():
            assignments = self.image.assignments(topic.topic_id)
            if any(one.leader != node_id for one in distinct(assignments)):
                led = _begun(
                    assignments, leader=node_id, replicas=alone, isr=alone, eligible=(), adding=(), removing=()
                )
                changed.append(AssignmentsChanged(topic.name, topic.topic_id, led))
        if changed:
            self._commit_at_open(changed)
        return [one.name for one in changed]

    def be_alone(self, node: Node) -> None:
        """Show this node as the only one, with a session and as the controller. Nothing is written."""
        for image in (self.image, self._draft):
            for event in (NodeChanged(node.node_id, node), SessionChanged(node.node_id, 1)):
                image.apply(event, image.revision)
            image.apply(ControllerChanged(node.node_id, 1), image.revision)

    def subscribe(self, listener: Listener) -> None:
        """See `MetadataStore.subscribe`."""
        self._feed.subscribe(listener)

    def watch(self, after: int) -> AsyncIterator[Delta]:
        """See `MetadataStore.watch`."""
        return self._feed.watch(after)

    async def commit(self, events: Sequence[Event], guards: Sequence[Guard | SessionGuard] = ()) -> int:
        """Make the events durable as one, then apply them; all or none. See `MetadataStore.commit`."""
        if self._closed:
            raise ShuttingDown("the node is stopping")
        try:
            delta = self._write(events, guards)
        except (Conflict, NotFound):
            # What refuses it may be written and not yet durable: the caller is to see it in the image.
            await self.catch_up()
            if self._log.poisoned:
                raise LogPoisoned(DIRECTORY, "an earlier sync failed") from None
            raise
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(_Commit(delta, done))
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync_until_idle())
        # A caller that goes away must not leave the round half done.
        await asyncio.shield(done)
        return delta.revision

    async def catch_up(self) -> None:
        """Wait until everything written so far is applied (or has failed)."""
        while self._syncing is not None:
            await asyncio.shield(self._syncing)

    async def close(self) -> None:
        """Finish what is under way and close the log. A second close does no harm."""
        self._closed = True
        await self.catch_up()
        self._feed.close()
        await self._offload(self._log.close)

    def _write(self, events: Sequence[Event], guards: Sequence[Guard | SessionGuard] = ()) -> Delta:
        for guard in guards:
            expected, found = guard.compared(self._draft)
            if found != expected:
                raise GuardFailed(guard.key, expected, found)
        draft = self._draft.copy()
        revision = self._log.end_offset + 1
        records: list[StateRecord] = []
        for event in events:
            draft.apply(event, revision)
            records += records_for(event, draft)
        now_ms = self._clock.now_ms()
        batch = encode_batch([NewRecord(key, value) for key, value in records], now_ms=now_ms)
        self._log.append_batch(batch, now_ms=now_ms, leader_epoch=0)
        self._draft = draft
        return Delta(revision, tuple(events))

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
            self._apply(commit.delta)
            commit.done.set_result(None)
        else:
            commit.done.set_exception(StorageError(f"the metadata log could not be synced: {error}"))
            # Marks it as seen: a caller that went away must not turn into a warning.
            commit.done.exception()

    def _apply(self, delta: Delta) -> None:
        self._log.high_watermark = self._log.synced_end
        for event in delta.events:
            self.image.apply(event, delta.revision)
        self._feed.publish(delta)

    def _commit_at_open(self, events: Sequence[Event]) -> None:
        delta = self._write(events)
        _sync(self._log)
        self._apply(delta)

    def _raise_epochs(self) -> None:
        """After a crash the ends of logs may be lost, and other records get their offsets.

        Readers that keep their own positions learn of it by the epoch: they ask where the one
        they know ended (KIP-320). That no log lost anything cannot be known here, and asking
        costs a reader one request.
        """
        raised = [
            AssignmentsChanged(topic.name, topic.topic_id, _begun(self.image.assignments(topic.topic_id)))
            for topic in self.image.topics()
        ]
        if raised:
            # On a full disk the broker starts all the same: what is there can be read.
            try:
                self._commit_at_open(raised)
            except StorageError:
                self.owes_epochs = True

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


def _begun(assignments: Sequence[Assignment], **changes: int | tuple[int, ...]) -> dict[int, Assignment]:
    """Each partition in its next epoch, with these changes."""
    # Equal assignments stay one value, however many partitions have it.
    begun = {one: structs.replace(one, leader_epoch=one.leader_epoch + 1, **changes) for one in set(assignments)}
    return {partition: begun[one] for partition, one in enumerate(assignments)}


def _stored_records(log: PartitionLog) -> Iterator[StoredRecord]:
    offset = log.start_offset
    while offset < log.end_offset:
        read = log.read_batches(offset, max_bytes=_READ_BYTES, upper=log.end_offset)
        for batch in read.batches:
            revision = parse_batch_header(batch).base_offset + 1
            for record in decode_records(batch):
                if record.key is None:
                    raise StorageError(f"the metadata record at offset {record.offset} has no key")
                yield record.key, record.value, revision
        if read.next_offset <= offset:
            raise StorageError(f"the metadata log cannot be read at offset {offset}")
        offset = read.next_offset
