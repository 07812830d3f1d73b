"""Publishing records to partitions that several nodes lead: split by leader, one outcome for each record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.anywhere.asking import ANSWER_MS, Asking, PeerMethod, is_elsewhere
from goqueue.broker.arrivals.placement import PlacedRecords, placements_of
from goqueue.broker.arrivals.record_publishing import Published
from goqueue.caller import ANONYMOUS, Caller
from goqueue.errors import DiskFull, GoQueueError
from goqueue.records import Acks, NewRecord, TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.arrivals.publish import PublishService
    from goqueue.broker.replicas.partitions import Partitions
    from goqueue.delay.holding.staging import Staging

# How long an acks=all write may take at another node before its outcome is called unknown.
_PUBLISH_MS = 30_000


class _Publish(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    partition: int
    records: list[NewRecord]
    acks: Acks
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional: bool
    transaction: int | None
    dues: list[int | None] | None


_PUBLISH: PeerMethod[_Publish, list[Published]] = PeerMethod("records.publish", _Publish, list[Published])


class PublishAnywhere:
    """`PublishService` whose `publish_records` reaches all partitions of the cluster; batches are taken here only."""

    def __init__(self, local: PublishService, partitions: Partitions, staging: Staging, asking: Asking) -> None:
        self._local = local
        self._staging = staging
        self._partitions = partitions
        self._asking = asking
        self._homes = asking.homes
        asking.answer(_PUBLISH, self._publish_here)

    def __getattr__(self, name: str) -> Any:
        """What is asked of the leader itself."""
        return getattr(self._local, name)

    async def publish_records(
        self,
        topic: str,
        records: Sequence[NewRecord],
        *,
        acks: Acks,
        partition: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        sequence: int = -1,
        transactional: bool = False,
        transaction: int | None = None,
        dues: Sequence[int | None] | None = None,
        written: Callable[[], None] | None = None,
        caller: Caller = ANONYMOUS,
    ) -> list[Published]:
        """See `RecordPublishing.publish`. `written` is called when all are answered, if others lead some of them."""
        sender = (producer_id, producer_epoch, sequence, transactional, transaction)
        placements = self._placements(topic, records, partition, is_idempotent=producer_id >= 0)
        if len(placements) == 1 and self._homes.is_here(TopicPartition(topic, placements[0].partition)):
            found = await self._local.publish_records(
                topic,
                records,
                acks=acks,
                partition=placements[0].partition,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                sequence=sequence,
                transactional=transactional,
                transaction=transaction,
                dues=dues,
                written=written,
                caller=caller,
            )
            if not isinstance(_are_elsewhere(found, is_repeatable=False), DiskFull):
                return found
            # Nothing was written, and a replica that has room will lead in a moment.

        async def publish(placed: PlacedRecords) -> list[Published]:
            said = None if dues is None else [dues[at] for at in placed.positions]
            question = _Publish(topic, placed.partition, [records[at] for at in placed.positions], acks, *sender, said)
            return await self._at_leader(question, caller)

        outcomes = await asyncio.gather(*(publish(placed) for placed in placements), return_exceptions=True)
        if written is not None:
            written()
        return _merged(placements, outcomes, len(records))

    def _placements(
        self, topic: str, records: Sequence[NewRecord], partition: int | None, *, is_idempotent: bool
    ) -> list[PlacedRecords]:
        found = self._partitions.topic(topic)
        return placements_of(
            records,
            range(len(records)),
            partition=partition,
            partitions=found.partition_count,
            config=self._partitions.config(found),
            turns=self._partitions.turns(found),
            is_idempotent=is_idempotent,
        )

    async def _at_leader(self, question: _Publish, caller: Caller) -> list[Published]:
        place = TopicPartition(question.topic, question.partition)
        # The next leader knows the sequences of what it has.
        is_repeatable = question.producer_id >= 0

        async def ask(node: int) -> list[Published]:
            timeout_ms = _PUBLISH_MS + ANSWER_MS
            found = await self._asking.ask_or_answer(node, _PUBLISH, question, caller, timeout_ms=timeout_ms)
            if (refusal := _are_elsewhere(found, is_repeatable=is_repeatable)) is not None:
                raise refusal
            return found

        return await self._asking.at_home(lambda: self._homes.leader_of(place), ask, is_repeatable=is_repeatable)

    async def _publish_here(self, asked: _Publish, caller: Caller) -> list[Published]:
        if asked.dues is not None:
            await self._staging.load(TopicPartition(asked.topic, asked.partition))
        return await self._local.publish_records(
            asked.topic,
            asked.records,
            acks=asked.acks,
            partition=asked.partition,
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
            sequence=asked.sequence,
            transactional=asked.transactional,
            transaction=asked.transaction,
            dues=asked.dues,
            caller=caller,
        )


class StagingAnywhere:
    """`Staging` as front-ends see it: the leader of a partition loads it, when it is asked to stage there."""

    def __init__(self, local: Staging, asking: Asking) -> None:
        self._local = local
        self._homes = asking.homes

    async def load(self, place: TopicPartition) -> None:
        """See `Staging.load`."""
        if self._homes.is_here(place):
            await self._local.load(place)


def _are_elsewhere(found: Sequence[Published], *, is_repeatable: bool) -> GoQueueError | None:
    """The refusal, if none of the records was stored because another node is to be asked, now or soon.

    Records of one partition are stored by priority, one batch after the other: each of them must have been refused.
    """
    errors = [one.error for one in found if one.error is not None]
    if not errors or len(errors) < len(found):
        return None
    return errors[0] if all(is_elsewhere(one, is_repeatable=is_repeatable) for one in errors) else None


def _merged(
    placements: Sequence[PlacedRecords], outcomes: Sequence[list[Published] | BaseException], count: int
) -> list[Published]:
    """One outcome per record, in the order sent. What failed for all placements concerns the request, and is raised."""
    failures = [one for one in outcomes if isinstance(one, BaseException)]
    for failure in failures:
        if len(failures) == len(outcomes) or not isinstance(failure, GoQueueError):
            raise failure
    results: list[Published | None] = [None] * count
    for placed, outcome in zip(placements, outcomes, strict=True):
        for number, at in enumerate(placed.positions):
            if isinstance(outcome, GoQueueError):
                results[at] = Published(placed.partition, -1, -1, outcome)
            elif not isinstance(outcome, BaseException):
                results[at] = outcome[number]
    return [one for one in results if one is not None]
