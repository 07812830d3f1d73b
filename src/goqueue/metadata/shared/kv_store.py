"""Metadata in a key-value store that several nodes share: the engine of a cluster, above the `Kv` port.

A commit is one transaction that compares every guard and every key that its events were checked
against. The image is fed by the watch alone, the node's own commits included, so every node takes in
the same transactions in the same order. A creation with more partitions than a transaction holds is
staged (`kv_staging`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from goqueue.clock import Rng
from goqueue.errors import (
    Conflict,
    GoQueueError,
    GuardFailed,
    MetadataUnavailable,
    NotFound,
    SessionEnded,
    ShuttingDown,
    StorageError,
    TooBusy,
)
from goqueue.log.state.log_end import LogEnd
from goqueue.metadata.cluster_id import fresh_cluster_id
from goqueue.metadata.deltas import DeltaFeed
from goqueue.metadata.events import ClusterNamed, Delta, Event
from goqueue.metadata.image import ABSENT, Image
from goqueue.metadata.keys import CONTROLLER
from goqueue.metadata.membership import created_at
from goqueue.metadata.shared.kv import (
    NO_LEASE,
    Compare,
    Kv,
    KvCompacted,
    KvDelta,
    KvError,
    On,
    TxnResult,
    Write,
)
from goqueue.metadata.shared.kv_lane import Lane
from goqueue.metadata.shared.kv_members import generation_in
from goqueue.metadata.shared.kv_pairs import WRITERS, below, prefixed
from goqueue.metadata.shared.kv_staging import WRITES_MAX, Staging
from goqueue.metadata.shared.kv_values import changes, fences_of, writes_of
from goqueue.metadata.store import Guard, Listener, SessionGuard

LANES = 8
COMMIT_ATTEMPTS_MAX = 1000

_log = logging.getLogger("goqueue.cluster")

_RETRY_S = 0.05
# After a change that was refused, as by a store that is full.
REFUSED_RETRY_S = 2.0


class KvMetadata:
    """The metadata of a cluster as one of its nodes sees it."""

    def __init__(self, kv: Kv, prefix: str, rng: Rng, lease: int) -> None:
        """Use `open`: it reads what is there first."""
        self._kv = kv
        self._prefix = prefix
        self._rng = rng
        # Value and revision of every key, as the watch told them.
        self.pairs: dict[str, tuple[bytes, int]] = {}
        self.image = Image()
        self._feed = DeltaFeed(0)
        self._applied = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._problem: str | None = None
        self._failure: str | None = None
        self._refusal: str | None = None
        # Tries changes while the last one was refused.
        self._retrying: asyncio.Task[None] | None = None
        self._closed = False
        self._following: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        # Transactions that only tell how far others have come: the one under way, and the one that follows it.
        self._look: asyncio.Task[None] | None = None
        self._next_look: asyncio.Task[None] | None = None
        # As many transactions may be under way at once.
        self._lanes: asyncio.LifoQueue[Lane] = asyncio.LifoQueue()
        self._staging = Staging(self)
        self.use_lease(lease)

    def use_lease(self, lease: int) -> None:
        """Write under this lease from now on. What is under way under the one before ends with it."""
        # That the session before had ended is no problem of this one.
        self._refusal = None
        writer = f"{self._rng.getrandbits(64):016x}"
        self._staging.writer = writer
        self._lanes = asyncio.LifoQueue()
        for number in range(LANES):
            self._lanes.put_nowait(Lane(self._kv, f"{self._prefix}{WRITERS}{writer}/{number}", self._rng, lease))

    @classmethod
    async def open(cls, kv: Kv, *, prefix: str, rng: Rng, lease: int = NO_LEASE) -> KvMetadata:
        """Read the cluster's metadata and follow it; the first node gives the cluster its id."""
        store = cls(kv, prefix, rng, lease)
        await store._read_again()
        store._feed = DeltaFeed(store._applied)
        store._following = asyncio.create_task(store._follow())
        store._sweeping = asyncio.create_task(store._staging.sweep_forever())
        if not store.cluster_id:
            with suppress(Conflict):
                await store.commit([ClusterNamed(fresh_cluster_id(rng))])
        return store

    @property
    def cluster_id(self) -> str:
        """The id that the cluster got at its first start."""
        return self.image.cluster_id

    @property
    def generation(self) -> int:
        """How often the metadata was restored from a backup."""
        return generation_in(self.pairs)

    def problem(self) -> str | None:
        """Why the last change could not be made, or why the image may be behind."""
        return self._refusal or self._problem

    def log_ends(self) -> list[LogEnd]:
        """Nothing of it lies on the node's own disk."""
        return []

    def subscribe(self, listener: Listener) -> None:
        """See `MetadataStore.subscribe`."""
        self._feed.subscribe(listener)

    def watch(self, after: int) -> AsyncIterator[Delta]:
        """See `MetadataStore.watch`."""
        return self._feed.watch(after)

    async def commit(self, events: Sequence[Event], guards: Sequence[Guard | SessionGuard] = ()) -> int:
        """See `MetadataStore.commit`. Sessions can be guarded as well."""
        for attempt in range(COMMIT_ATTEMPTS_MAX):
            draft = await self._tried(events, guards)
            writes = _once_per_key(write for event in events for write in writes_of(event, draft))
            # What the events were found possible by. A key that is guarded as well need not be compared twice.
            guarded = {guard.key for guard in guards if isinstance(guard, Guard)}
            fences = {key for event in events for key in fences_of(event)} - guarded
            compares = [_compare(guard) for guard in guards]
            compares += [Compare(key, self.image.revision_of(key)) for key in sorted(fences)]
            if len(writes) > WRITES_MAX:
                result = await self._staging.transact(events, compares, writes)
            else:
                result = await self.transact(compares, writes)
            if result.succeeded:
                await self._until(result.revision)
                return result.revision
            await self.catch_up()
            for compare, found in zip(compares[: len(guards)], result.found, strict=False):
                number = ABSENT if found is None else getattr(found, compare.on.value)
                if number != compare.number:
                    raise GuardFailed(compare.key, compare.number, number)
            if len(writes) > WRITES_MAX:
                # Two that stage for one topic take the stage from each other: chance lets one of them finish.
                await asyncio.sleep(self._rng.random() * min(_RETRY_S * 2**attempt, 1))
        raise TooBusy(f"metadata changed {COMMIT_ATTEMPTS_MAX} times during a commit; nothing was changed")

    async def catch_up(self) -> None:
        """Wait for a transaction of our own: whatever was committed before it is applied before it.

        A transaction that was sent before a call proves nothing to the caller. Those who come while one is under way
        share the next one, so that many callers cost two.
        """
        if self._next_look is None:
            look = self._next_look = asyncio.get_running_loop().create_task(self._look_behind(self._look))
            # Those who asked may be gone when it fails.
            look.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(self._next_look)

    async def _look_behind(self, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        self._look, self._next_look = self._next_look, None
        result = await self.transact([], [])
        await self._until(result.revision)

    async def close(self) -> None:
        """Stop following. What is under way fails."""
        self._closed = True
        for task in (self._following, self._sweeping, self._next_look, self._look, self._retrying):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        self._feed.close()
        for _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(ShuttingDown("the node is stopping"))

    async def _tried(self, events: Sequence[Event], guards: Sequence[Guard | SessionGuard]) -> Image:
        """The image with the events; a refusal is believed only if the image is not behind."""
        for is_last in (False, True):
            self._check_following()
            draft = self.image.copy()
            try:
                for event in events:
                    draft.apply(event, self.image.revision + 1)
            except (Conflict, NotFound):
                if is_last:
                    for guard in guards:
                        expected, found = guard.compared(self.image)
                        if found != expected:
                            raise GuardFailed(guard.key, expected, found) from None
                    raise
                await self.catch_up()
            else:
                return draft
        raise AssertionError("unreachable")

    async def transact(self, compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
        """Make the writes if all compares hold, exactly once. Keys are without the cluster's prefix."""
        lanes = self._lanes
        lane = await lanes.get()
        try:
            result = await lane.transact(
                [Compare(self._prefix + one.key, one.number, one.on) for one in compares],
                [prefixed(write, self._prefix) for write in writes],
            )
        except MetadataUnavailable as error:
            if lanes is self._lanes:
                self._refusal = str(error)
                # Without a session nothing is taken; the next one begins without the refusal.
                if self._retrying is None and not isinstance(error, SessionEnded):
                    self._retrying = asyncio.create_task(self._until_taken())
            raise
        else:
            self._refusal = None
            return result
        finally:
            lanes.put_nowait(lane)

    async def read(self, prefix: str) -> Mapping[str, tuple[bytes, int]]:
        """The pairs below that prefix as they are now, and not only as this node knows them."""
        for _ in range(COMMIT_ATTEMPTS_MAX):
            try:
                found = await self._kv.range(self._prefix + prefix)
            except KvError:
                await asyncio.sleep(_RETRY_S)
            else:
                return below(self._prefix, found.pairs)
        raise MetadataUnavailable("the metadata store does not answer")

    def _check_following(self) -> None:
        if self._closed:
            raise ShuttingDown("the node is stopping")
        if self._failure is not None:
            raise MetadataUnavailable(self._failure)

    async def _until(self, revision: int) -> None:
        if self._applied < revision:
            self._check_following()
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append((revision, waiter))
            await waiter

    async def _follow(self) -> None:
        try:
            while True:
                await self._follow_for_a_while()
                await asyncio.sleep(_RETRY_S)
        except GoQueueError as error:
            # A newer version wrote it. Whoever waits must not wait for ever, and nothing more is changed.
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - whoever waits must be told, whatever it was
            self._fail(StorageError(f"{error!r} at a revision behind {self._applied}"))

    async def _follow_for_a_while(self) -> None:
        try:
            async for change in self._kv.watch(self._prefix, self._applied + 1):
                # A watch that was begun again may repeat what was seen.
                if change.revision > self._applied:
                    self._take(change)
        except KvCompacted:
            await self._read_again()
        except KvError as error:
            self._problem = f"the metadata store does not answer: {error}"
            await self._until_it_answers()

    async def _until_taken(self) -> None:
        """Try an empty change until one is taken: for a long time there may be nothing else to change."""
        while self._refusal is not None:
            await asyncio.sleep(REFUSED_RETRY_S)
            if self._refusal is not None:
                try:
                    await self.transact([], [])
                except MetadataUnavailable:
                    continue
                except Exception:  # noqa: BLE001 - without this loop the node would not be ready again
                    _log.exception("whether the metadata store takes changes again could not be tried")
        self._retrying = None

    async def _until_it_answers(self) -> None:
        """Ask for one key until there is an answer: nothing may be changed for a long time that a watch would tell."""
        while True:
            await asyncio.sleep(_RETRY_S)
            try:
                await self._kv.range(self._prefix + CONTROLLER)
            except KvError as error:
                self._problem = f"the metadata store does not answer: {error}"
            else:
                self._problem = None
                return

    def _fail(self, error: GoQueueError) -> None:
        self._problem = self._failure = f"the metadata cannot be followed: {error}"
        waiting, self._waiting = self._waiting, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(MetadataUnavailable(self._failure))

    def _take(self, change: KvDelta) -> None:
        touched = [*change.removed, *(pair.key for pair in change.written)]
        for key in change.removed:
            self.pairs.pop(key.removeprefix(self._prefix), None)
        for pair in change.written:
            self.pairs[pair.key.removeprefix(self._prefix)] = pair.value, pair.mod_revision
        self._apply(change.revision, [key.removeprefix(self._prefix) for key in touched])

    async def _read_again(self) -> None:
        """Read everything and take the difference in as one delta: at the start, and behind a compaction."""
        while True:
            try:
                found = await self._kv.range(self._prefix)
                break
            except KvError as error:
                self._problem = f"the metadata store does not answer: {error}"
                await asyncio.sleep(_RETRY_S)
        before, self.pairs = self.pairs, below(self._prefix, found.pairs)
        touched = {key for key, (_, revision) in self.pairs.items() if before.get(key, (b"", 0))[1] != revision}
        self._apply(found.revision, sorted(touched.union(before.keys() - self.pairs.keys())))

    def _apply(self, revision: int, touched: Sequence[str]) -> None:
        def revision_of(key: str) -> int:
            return self.pairs.get(key, (b"", ABSENT))[1]

        events: list[Event] = []
        try:
            for event in changes(self.image, self.pairs, touched):
                self.image.apply(event, revision, revision_of)
                events.append(event)
        except (msgspec.DecodeError, ValueError) as error:
            raise StorageError(f"metadata at revision {revision} cannot be read: {error}") from error
        self._applied = self.image.revision = revision
        self._staging.on_change(touched)
        self._problem = None
        if events:
            self._feed.publish(Delta(revision, tuple(events)))
        waiting, self._waiting = self._waiting, []
        for wanted, waiter in waiting:
            if wanted > revision:
                self._waiting.append((wanted, waiter))
            elif not waiter.done():
                waiter.set_result(None)


def _compare(guard: Guard | SessionGuard) -> Compare:
    if isinstance(guard, SessionGuard):
        return Compare(guard.key, created_at(guard.epoch), On.CREATED)
    return Compare(guard.key, guard.revision)


def _once_per_key(writes: Iterable[Write]) -> list[Write]:
    """A transaction writes no key twice: the last write counts."""
    return list({write.key: write for write in writes}.values())
