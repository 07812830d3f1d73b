"""The JSON of prepared transactions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from goqueue.servers.http.types.common import Body, Reply
from goqueue.servers.http.types.transactions import Epoch, ProducerId

Task = Annotated[str, Meta(min_length=1, max_length=100)]


class OpenParticipant(Body):
    """A task that is going to stage records; put the attempt into its name."""

    task: Task


class OpenedParticipant(Reply, omit_defaults=False):
    """The producer under which the task stages records; -1 if the epoch is committed already."""

    producer_id: int
    producer_epoch: int
    already_committed: bool


class CountedParticipant(Body):
    """A task that counts, while it is still this producer."""

    task: Task
    producer_id: ProducerId
    producer_epoch: Epoch


class CommitEpoch(Body):
    """The tasks that count; all others of the epoch are aborted."""

    participants: Annotated[list[Task | CountedParticipant], Meta(max_length=100_000)]


class EpochOutcome(Reply, omit_defaults=False):
    """What became of the epoch; `already_decided` if this call changed nothing."""

    status: str
    already_decided: bool
    committed: int
    aborted: int


class ParticipantRow(Reply, omit_defaults=False):
    """A task that stages records, or is being ended."""

    epoch: int
    task: str
    state: str
    producer_id: int
    producer_epoch: int
    started_ms: int
    timeout_ms: int
    partitions: list[str]


class WriterRow(Reply, omit_defaults=False):
    """A writer: `committed_epochs` are ranges, both ends included; `last_committed_epoch` is -1 before the first."""

    writer: str
    last_committed_epoch: int
    committed_epochs: list[tuple[int, int]]
    participants: list[ParticipantRow]


class Writers(Reply, omit_defaults=False):
    """All writers."""

    writers: list[WriterRow]
    count: int
