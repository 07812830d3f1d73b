"""Redrive: dead letters go back to where they came from, as a job with progress.

The redrive is a queue group of its own on the dead-letter topic: what it has sent back is
settled there, in the same transaction, so that no crash and no second run sends a letter twice.
Letters that are not meant stay held until the job ends and are then given back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from msgspec import structs

from goqueue.broker.arrivals.append_anywhere import AppendAnywhere
from goqueue.broker.replicas.partition_facts import PartitionFacts
from goqueue.broker.topics import TopicService
from goqueue.caller import INTERNAL
from goqueue.clock import Clock
from goqueue.delivery.dead_letters.letters import Edits, Letter, LetterFilter, letter_of
from goqueue.delivery.dead_letters.return_routes import Destination, IsQueueGroup, ReturnRoutes
from goqueue.delivery.dead_letters.send_back import OnSentBack, Outcome, SendBack, Transactions
from goqueue.delivery.service import DeliveryService
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.errors import Conflict, GoQueueError, InvalidRequest, NotFound, TooBusy, TopicNotFound
from goqueue.ids import DEAD_LETTER_SUFFIX, QUARANTINE_SUFFIX, REDRIVE_GROUP
from goqueue.records import TopicPartition

_BATCH = 500
_BATCH_AT_A_RATE = 50
_VISIBILITY_MS = 3_600_000
_SETTLED_WAIT_MS = 1000


class RedriveState(StrEnum):
    """How far a job is."""

    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class RedriveRequest(msgspec.Struct, frozen=True):
    """What a job is to do. `to` None: each letter goes to the topic it came from.

    There only the group in which it died gets it again, or with `all_groups` every one.
    """

    topic: str
    filter: LetterFilter = msgspec.field(default_factory=LetterFilter)
    edits: Edits = msgspec.field(default_factory=Edits)
    to: str | None = None
    all_groups: bool = False
    limit: int | None = None
    per_second: float | None = None
    dry_run: bool = False


@dataclass(slots=True)
class RedriveProgress:
    """What a job has done so far. `total` is how many letters there were to look at when it began."""

    topic: str
    dry_run: bool
    started_ms: int
    total: int
    state: RedriveState = RedriveState.RUNNING
    scanned: int = 0
    matched: int = 0
    redriven: int = 0
    failed: int = 0
    ended_ms: int | None = None
    error: str | None = None


class Redrives:
    """One job per dead-letter topic at a time; what the last one did is remembered until the next."""

    def __init__(
        self,
        delivery: DeliveryService,
        topics: TopicService,
        facts: PartitionFacts,
        append_anywhere: AppendAnywhere,
        transactions: Transactions,
        is_queue_group: IsQueueGroup,
        clock: Clock,
        on_sent: OnSentBack | None = None,
    ) -> None:
        self._on_sent = on_sent
        self._delivery = delivery
        self._topics = topics
        self._facts = facts
        self._append_anywhere = append_anywhere
        self._transactions = transactions
        self._routes = ReturnRoutes(delivery.originals, topics, is_queue_group, clock)
        self._clock = clock
        self._jobs: dict[str, tuple[RedriveProgress, asyncio.Task[None]]] = {}

    async def start(self, request: RedriveRequest) -> RedriveProgress:
        """Begin a job; refused while one runs on the same dead letters."""
        if request.topic.endswith(DEAD_LETTER_SUFFIX):
            raise InvalidRequest(
                f"{request.topic!r} is a dead-letter topic", field="topic", hint="name the topic they came from"
            )
        source = dead_letters_of(self._topics, request.topic)
        if request.to is not None:
            self._topics.get(request.to)
        running = self._jobs.get(request.topic)
        if running is not None and not running[1].done():
            raise Conflict(f"a redrive of topic {request.topic!r} is running already")
        progress = RedriveProgress(request.topic, request.dry_run, self._clock.now_ms(), await self._left(source))
        task = asyncio.get_running_loop().create_task(self._run(request, source, progress))
        self._jobs[request.topic] = (progress, task)
        return progress

    async def _left(self, places: Sequence[TopicPartition]) -> int:
        """Letters that were not sent back yet, or a few more: some above the lowest may have been."""
        settled = await self._delivery.positions.committed(REDRIVE_GROUP, places)
        left = 0
        for at, bounds in (await self._facts.bounds(places)).items():
            left += bounds.last_stable_offset - max(bounds.log_start_offset, settled.get(at, 0))
        return left

    def progress(self, topic: str) -> RedriveProgress:
        """What the topic's last job did, or is doing."""
        found = self._jobs.get(topic)
        if found is None:
            raise NotFound(f"no redrive of topic {topic!r} was begun since the broker was started")
        return found[0]

    async def cancel(self, topic: str) -> RedriveProgress:
        """Stop the job after what it has in hand."""
        progress = self.progress(topic)
        task = self._jobs[topic][1]
        task.cancel()
        await asyncio.wait([task])
        return progress

    async def close(self) -> None:
        """Stop all jobs."""
        tasks = [task for _, task in self._jobs.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, request: RedriveRequest, places: Sequence[TopicPartition], progress: RedriveProgress) -> None:
        kept: list[Delivery] = []
        state = RedriveState.FAILED
        try:
            await self._work(request, places, progress, kept)
            state = RedriveState.DONE
        except asyncio.CancelledError:
            state = RedriveState.CANCELLED
        except GoQueueError as error:
            progress.error = str(error)
        finally:
            await asyncio.shield(self._give_back(kept))
            # Only now: whoever reads that it is over may begin the next one at once.
            progress.state = state
            progress.ended_ms = self._clock.now_ms()

    async def _work(
        self,
        request: RedriveRequest,
        places: Sequence[TopicPartition],
        progress: RedriveProgress,
        kept: list[Delivery],
    ) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        turn = 0
        way = SendBack(
            request.topic, self._delivery, self._append_anywhere, self._transactions, self._clock, self._on_sent
        )
        await way.open()
        await self._delivery.note_redriven({at.topic for at in places})
        # What a crash left with an earlier job would else be held until its visibility ends.
        await self._delivery.release_all(REDRIVE_GROUP, places)
        while request.limit is None or progress.matched < request.limit:
            turn += 1
            receive = Receive(
                REDRIVE_GROUP,
                # A consumer may hold only so many; what is not meant is held by those of the turns before.
                f"redrive-{turn}",
                places,
                _BATCH if request.per_second is None else _BATCH_AT_A_RATE,
                visibility_ms=_VISIBILITY_MS,
            )
            batch = await self._delivery.receive(receive, caller=INTERNAL)
            if not batch and progress.scanned < progress.total:
                # What was sent is settled a moment after its transaction, and counts as held until then.
                batch = await self._delivery.receive(
                    structs.replace(receive, wait_ms=_SETTLED_WAIT_MS), caller=INTERNAL
                )
            if not batch:
                await self._check_all_seen(progress, kept)
                return
            await self._sort(request, batch, progress, kept, way)
            if request.per_second is not None:
                await asyncio.sleep(max(0.0, progress.redriven / request.per_second - (loop.time() - begun)))

    async def _sort(
        self,
        request: RedriveRequest,
        batch: list[Delivery],
        progress: RedriveProgress,
        kept: list[Delivery],
        way: SendBack,
    ) -> None:
        """Send back those that are meant; the others, and those that cannot be sent, are kept for later."""
        meant: list[tuple[Delivery, Letter]] = []
        for one in batch:
            letter = letter_of(one.partition, one.offset, one.timestamp_ms, one.key, one.value, one.headers)
            has_room = request.limit is None or progress.matched < request.limit
            if has_room and request.filter.redrives(letter):
                progress.matched += 1
                meant.append((one, letter))
            else:
                kept.append(one)
        progress.scanned += len(batch)
        if request.dry_run:
            kept += [one for one, _ in meant]
            return
        if not meant:
            return
        where = Destination(request.topic, request.to, request.all_groups, request.edits)
        sending = asyncio.ensure_future(self._send(where, meant, way))
        try:
            outcome = await asyncio.shield(sending)
        except asyncio.CancelledError:
            # What is in hand is finished first: it is sent and counted, or neither.
            await asyncio.wait([sending])
            if sending.exception() is None:
                self._count(sending.result(), progress, kept)
            raise
        except GoQueueError:
            kept += [one for one, _ in meant]
            raise
        self._count(outcome, progress, kept)

    async def _send(self, where: Destination, meant: Sequence[tuple[Delivery, Letter]], way: SendBack) -> Outcome:
        return await way.send(await self._routes.choose(where, meant))

    def _count(self, outcome: Outcome, progress: RedriveProgress, kept: list[Delivery]) -> None:
        progress.redriven += len(outcome.sent)
        progress.failed += len(outcome.refused)
        for one, error in outcome.refused:
            progress.error = str(error)
            kept.append(one)

    async def _check_all_seen(self, progress: RedriveProgress, kept: Sequence[Delivery]) -> None:
        """Nothing comes any more: because all was seen, or because a group may hold no more in a partition."""
        if progress.scanned >= progress.total:
            return
        for (topic, partition), count in Counter((one.topic, one.partition) for one in kept).items():
            held_max = (await self._delivery.policy(REDRIVE_GROUP, topic)).outstanding_max
            if count >= held_max:
                raise TooBusy(
                    f"stopped at {count} letters of partition {partition} that the filter passes over: "
                    f"delivery.outstanding_max allows no more to be held"
                )

    async def _give_back(self, kept: Sequence[Delivery]) -> None:
        for first in range(0, len(kept), _BATCH):
            try:
                await self._delivery.settle(
                    [Settlement(one.receipt, Action.RELEASE) for one in kept[first : first + _BATCH]], caller=INTERNAL
                )
            except GoQueueError:
                # They come back by themselves when their time is up.
                return


def dead_letters_of(topics: TopicService, topic: str) -> list[TopicPartition]:
    """The partitions with a topic's dead letters; none while it has had none."""
    # Records that their schema did not allow have a topic of their own, and are letters too.
    name = topic if topic.endswith((DEAD_LETTER_SUFFIX, QUARANTINE_SUFFIX)) else topic + DEAD_LETTER_SUFFIX
    found = topics.find(name)
    if found is None:
        if topics.find(topic) is None:
            raise TopicNotFound(topic)
        return []
    return [TopicPartition(name, number) for number in range(found.partition_count)]
