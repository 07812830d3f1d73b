"""Writers: the way into one log of a partition for one term of leadership, and who makes them.

A node without other nodes makes `LocalWriter`s. In a cluster the factory gives writers that wait for the other
replicas. A factory is called once for each log of the family and each term in which this node leads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from goqueue.broker.reading.waiters import Waiters
from goqueue.broker.replicas.local_writer import LocalWriter, Syncer
from goqueue.codec.frame import Flags
from goqueue.errors import NotLeader, StorageError
from goqueue.log.partition_log import PartitionLog
from goqueue.ports import Buffer
from goqueue.records import Acks, Appended, LogKind, Priority, TopicPartition


class PartitionWriter(Protocol):
    """Writes to one log in one term. When the term is over it refuses, and whoever waits is told so."""

    leader_epoch: int
    # Whether a write is answered only once it is on the disk, whatever the producer asked for.
    syncs_every_batch: bool

    @property
    def is_over(self) -> bool:
        """Whether the term has ended."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether all that was in the log when the term began is known to be committed: until then readers wait."""
        ...

    @property
    def is_short(self) -> bool:
        """Whether so few replicas are in sync that one which lacks what is written now may lead next."""
        ...

    def end(self, reason: NotLeader) -> None:
        """The term is over: refuse what comes, and fail all who wait for what was written in it."""
        ...

    def append(
        self,
        batch: Buffer,
        *,
        now_ms: int,
        priority: int = Priority.NORMAL,
        flags: Flags = ...,
        headers: bytes = b"",
        marker: bool = False,
        thinned: bool = False,
    ) -> Appended:
        """Check and write one closed batch. Returns once it is written here, not yet durable."""
        ...

    def reached(self, end_offset: int, acks: Acks) -> Awaitable[None] | None:
        """Wait until all below `end_offset` is as safe as `acks` asks; None if it is now."""
        ...

    def replicated(self, end_offset: int) -> Awaitable[None] | None:
        """Wait until every in-sync replica has written all below `end_offset`; None if they have now.

        Less than `reached`: none of them need have synced it. Raises if the writer `is_short` then.
        """
        ...

    def readable(self, end_offset: int) -> Awaitable[None] | None:
        """Wait until all below `end_offset` is committed, however few replicas are in sync; None if it is now.

        For whoever replays a log before it answers.
        """
        ...

    def cannot_write(self, reason: StorageError) -> None:
        """Writes are refused before they come here. Where another replica can lead, it is asked to."""
        ...

    def confirmed(self) -> Awaitable[None] | None:
        """Wait until it is certain that this node leads at this moment; None if nobody else can. Raises `NotLeader`.

        For whoever refuses something for good because of what the log has not: a former leader's log lacks much.
        """
        ...


@dataclass(frozen=True, slots=True)
class TermLog:
    """What a writer writes to: one log of a family, in one term."""

    place: TopicPartition
    topic_id: UUID
    kind: LogKind
    log: PartitionLog
    # Readers of this log, to be woken by what is written.
    waiters: Waiters
    leader_epoch: int
    syncs_every_batch: bool


WriterFactory = Callable[[TermLog], PartitionWriter]


def local_writers(syncer: Syncer) -> WriterFactory:
    """Writers for a node that has the only copy."""

    def make(term: TermLog) -> LocalWriter:
        return LocalWriter(
            term.log,
            syncer,
            term.waiters,
            leader_epoch=term.leader_epoch,
            syncs_every_batch=term.syncs_every_batch,
        )

    return make


class NoWriter:
    """Stands where a replica that has never led has no writer: it refuses everything."""

    __slots__ = ("_reason", "leader_epoch", "syncs_every_batch")

    is_over = True
    is_settled = True
    is_short = False

    def __init__(self, reason: NotLeader) -> None:
        self._reason = reason
        self.leader_epoch = reason.leader_epoch
        self.syncs_every_batch = False

    def end(self, reason: NotLeader) -> None:
        """Who leads has changed again."""
        self._reason = reason

    def append(
        self,
        batch: Buffer,  # noqa: ARG002
        *,
        now_ms: int,  # noqa: ARG002
        priority: int = Priority.NORMAL,  # noqa: ARG002
        flags: Flags = Flags(0),  # noqa: ARG002, B008
        headers: bytes = b"",  # noqa: ARG002
        marker: bool = False,  # noqa: ARG002
        thinned: bool = False,  # noqa: ARG002
    ) -> Appended:
        """Refuse."""
        raise self._refusal()

    def reached(self, end_offset: int, acks: Acks) -> Awaitable[None] | None:  # noqa: ARG002
        """Refuse: only the leader knows how safe anything is."""
        raise self._refusal()

    def replicated(self, end_offset: int) -> Awaitable[None] | None:  # noqa: ARG002
        """Refuse, as well."""
        raise self._refusal()

    def readable(self, end_offset: int) -> Awaitable[None] | None:  # noqa: ARG002
        """Refuse, as well."""
        raise self._refusal()

    def cannot_write(self, reason: StorageError) -> None:
        """It does not lead."""

    def confirmed(self) -> Awaitable[None] | None:
        """Refuse: it does not lead."""
        raise self._refusal()

    def _refusal(self) -> NotLeader:
        return NotLeader(str(self._reason), leader=self._reason.leader, leader_epoch=self._reason.leader_epoch)
