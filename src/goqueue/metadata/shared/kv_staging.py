"""Staging: creations with more partitions than a transaction holds, and the removal of those that failed.

Whoever stages partitions of a topic holds its stage key, which names the writer: assignments are
written first, each write fenced by that key, and become visible with the topic's key in the transaction
that removes the stage key. A stage that outlives its commit, or the session of its writer, is swept: its
partition keys are removed, and the stage key last.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from goqueue.errors import InvalidRequest, MetadataUnavailable
from goqueue.metadata import keys
from goqueue.metadata.events import Event, PartitionsAdded, TopicCreated
from goqueue.metadata.image import ABSENT, Image
from goqueue.metadata.shared.kv import TXN_OPS_MAX, Compare, Delete, Put, TxnResult, Write
from goqueue.metadata.shared.kv_pairs import STAGES, WRITERS, stage_of
from goqueue.metadata.shared.kv_values import staged_writes

# The lane and a few compares take part in every transaction.
WRITES_MAX = TXN_OPS_MAX - 8

_RETRY_S = 1.0

_log = logging.getLogger("goqueue.cluster")


class Store(Protocol):
    """What of the metadata store staging works with."""

    @property
    def image(self) -> Image:
        """The image as this node knows it."""
        ...

    @property
    def pairs(self) -> Mapping[str, tuple[bytes, int]]:
        """The pairs behind the image."""
        ...

    async def transact(self, compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
        """Make the writes if all compares hold, exactly once."""
        ...

    async def read(self, prefix: str) -> Mapping[str, tuple[bytes, int]]:
        """The pairs below that prefix as they are now, and not only as this node knows them."""
        ...


class Staging:
    """The stages of one writer, and the sweep of those that nobody works on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # The name under which this node writes, another one with every session.
        self.writer = ""
        # Commits of this node that are staging, by stage key.
        self._held: Counter[str] = Counter()
        self._news = asyncio.Event()

    async def transact(self, events: Sequence[Event], compares: list[Compare], writes: list[Write]) -> TxnResult:
        """Write the assignments of new partitions first, then all the rest in one transaction."""
        if len(events) != 1 or not isinstance(event := events[0], TopicCreated | PartitionsAdded):
            raise InvalidRequest(
                f"a change of metadata with {len(writes)} keys is larger than a transaction of {WRITES_MAX}",
                hint="split it up: only the creation of one topic or of its partitions may be larger",
            )
        stage = stage_of(event)
        self._held[stage] += 1
        try:
            return await self._staged(event, stage, compares, writes)
        finally:
            self._held[stage] -= 1
            # Unless it was made, or is tried again, somebody has to remove what is left of it.
            self._news.set()

    def on_change(self, touched: Sequence[str]) -> None:
        """Look for abandoned stages when a stage has changed, or the session of a writer has ended."""
        pairs = self._store.pairs
        if any(key.startswith(STAGES) or (key.startswith(WRITERS) and key not in pairs) for key in touched):
            self._news.set()

    async def sweep_forever(self) -> None:
        """Remove what is left of abandoned stages, whenever there may be any."""
        self._news.set()
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                swept = [await self._sweep(stage, revision) for stage, revision in list(self._abandoned())]
            except MetadataUnavailable:
                swept = [False]
            except Exception:  # noqa: BLE001 - without this loop what is left of failed creations would stay for ever
                _log.exception("what is left of creations that failed could not be removed, and will be tried again")
                swept = [False]
            if not all(swept):
                # Somebody else was faster, or the image is behind: look again when it has caught up.
                await asyncio.sleep(_RETRY_S)
                self._news.set()

    async def _staged(
        self, event: TopicCreated | PartitionsAdded, stage: str, compares: list[Compare], writes: list[Write]
    ) -> TxnResult:
        staged = staged_writes(event)
        keys_staged = {write.key for write in staged}
        # Whoever stages for this topic takes its stage key over, so that nobody else's assignments come in between.
        found = (await self._store.read(stage)).get(stage)
        taken = await self._take(stage, ABSENT if found is None else found[1], compares)
        if not taken.succeeded:
            return taken
        fenced = [*compares, Compare(stage, taken.revision)]
        if found is not None and isinstance(event, PartitionsAdded):
            # The former holder may have staged more partitions than this commit adds.
            removed = await self._remove(event.topic_id, event.first + len(event.assignments), fenced)
            if not removed.succeeded:
                return removed
        for at in range(0, len(staged), WRITES_MAX):
            result = await self._store.transact(fenced, staged[at : at + WRITES_MAX])
            if not result.succeeded:
                return result
        visible = [write for write in writes if write.key not in keys_staged]
        return await self._store.transact(fenced, [*visible, Delete(stage)])

    async def _take(self, stage: str, revision: int, compares: Sequence[Compare]) -> TxnResult:
        return await self._store.transact([*compares, Compare(stage, revision)], [Put(stage, self.writer.encode())])

    async def _remove(self, topic_id: UUID, first: int, fenced: Sequence[Compare]) -> TxnResult:
        """Remove the partition keys of a topic from that number on."""
        found = await self._store.read(keys.partitions_of(topic_id))
        writes = [Delete(key) for key in found if keys.parse_partition_key(key)[1] >= first]
        result = TxnResult(succeeded=True, revision=0)
        for at in range(0, len(writes), WRITES_MAX):
            result = await self._store.transact(fenced, writes[at : at + WRITES_MAX])
            if not result.succeeded:
                break
        return result

    def _abandoned(self) -> Iterator[tuple[str, int]]:
        """Stages of commits of this node that have ended, and of writers whose sessions have."""
        pairs = self._store.pairs
        stages = [key for key in pairs if key.startswith(STAGES)]
        if not stages:
            return
        alive = {key.removeprefix(WRITERS).partition("/")[0] for key in pairs if key.startswith(WRITERS)}
        for stage in stages:
            value, revision = pairs[stage]
            writer = value.decode()
            if not self._held[stage] and (writer == self.writer or writer not in alive):
                yield stage, revision

    async def _sweep(self, stage: str, revision: int) -> bool:
        """Whether nothing is left of that stage; otherwise it has changed since."""
        topic_id = UUID(stage.removeprefix(STAGES))
        topic = self._store.image.topic_by_id(topic_id)
        if topic is None:
            # A topic that became visible meanwhile has taken its stage key away.
            writes = [Delete(keys.partitions_of(topic_id), is_prefix=True), Delete(stage)]
            return (await self._store.transact([Compare(stage, revision)], writes)).succeeded
        topic_key = keys.topic_key(topic.name)
        as_known = [Compare(topic_key, self._store.image.revision_of(topic_key))]
        taken = await self._take(stage, revision, as_known)
        if not taken.succeeded:
            return False
        fenced = [*as_known, Compare(stage, taken.revision)]
        if not (await self._remove(topic_id, topic.partition_count, fenced)).succeeded:
            return False
        return (await self._store.transact(fenced, [Delete(stage)])).succeeded
