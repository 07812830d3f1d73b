"""TransactionService: what front-ends call. A reply is given only once all that it says is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import cast

import msgspec

from goqueue.broker.producer_ids import ProducerIds
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import TransactionsConfig
from goqueue.coordinator.runtime import Coordinator
from goqueue.errors import (
    ConcurrentTransactions,
    GoQueueError,
    InternalTopic,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    NotAttempted,
    PartitionNotFound,
    TopicNotFound,
    TransactionalIdNotFound,
    WriterNotFound,
)
from goqueue.ids import parse_group_id, parse_transactional_id
from goqueue.records import TopicPartition
from goqueue.transactions.admission import Admission
from goqueue.transactions.commands import (
    AbortAny,
    AddPartitions,
    Begin,
    Claim,
    DecideEpoch,
    Describe,
    Described,
    DescribedWriter,
    DescribeWriter,
    EndTransaction,
    EpochCommitted,
    EpochDecided,
    InitProducer,
    ListIds,
    ListWriters,
    OpenParticipant,
    Producer,
    ProducerIdNeeded,
)
from goqueue.transactions.markers import Markers
from goqueue.transactions.names import Name, Participant, parse_participant, parse_writer, shard_key
from goqueue.transactions.open_transactions import OpenTransactions
from goqueue.transactions.sessions import ProducerSessions
from goqueue.transactions.statistics import TransactionStatistics
from goqueue.transactions.transitions import fenced

TRANSACTION_STATE = "__transaction_state"

# A transaction that is being ended is done within milliseconds. Clients that are told to come back
# wait much longer than that, so the answer is held instead.
HOLD_SECONDS_MAX = 5.0

# The partition of the groups' topic in which a group's offsets lie.
GroupPlace = Callable[[str], TopicPartition]
# The partition of an internal topic that takes part wherever this one does; None if there is none.
CompanionOf = Callable[[TopicPartition], TopicPartition | None]


class TransactionService:
    """Transactional ids, their producers and transactions."""

    def __init__(
        self,
        coordinator: Coordinator,
        topics: TopicService,
        producer_ids: ProducerIds,
        markers: Markers,
        *,
        open_transactions: OpenTransactions,
        statistics: TransactionStatistics,
        config: TransactionsConfig,
        group_place: GroupPlace,
        companion_of: CompanionOf,
        clock: Clock,
    ) -> None:
        self._coordinator = coordinator
        self._topics = topics
        self._producer_ids = producer_ids
        self._markers = markers
        self._open = open_transactions
        self.statistics = statistics
        self._config = config
        self._group_place = group_place
        self._companion_of = companion_of
        self._sessions = ProducerSessions(clock, config.session_timeout_ms, self._end_session)
        self._admission = Admission(
            open_transactions, self._submit, lambda place: self._refusal(place) is None, self._with_companions
        )

    async def start(self, shards: Sequence[int]) -> None:
        """Load the shards that have a log: open transactions must be known before anybody writes to them.

        What was decided before the stop is carried out in the background.
        """
        self._markers.watch(shards)
        # A shard that cannot be read keeps its own producers from writing, and nobody else.
        await asyncio.gather(
            *(self._coordinator.submit_to(shard, ListIds()) for shard in shards), return_exceptions=True
        )

    async def init_producer(
        self, transactional_id: str, *, timeout_ms: int | None = None, current: Producer | None = None
    ) -> Producer:
        """Take a transactional id over; what it had open is ended first."""
        wanted_ms = self._config.timeout_ms if timeout_ms is None else timeout_ms
        if not 0 < wanted_ms <= self._config.timeout_ms_max:
            raise InvalidTransactionTimeout(
                f"a transaction lasts 1 to {self._config.timeout_ms_max} ms, not {wanted_ms}",
                field="transaction_timeout_ms",
            )
        reply = await self._submit(transactional_id, InitProducer(transactional_id, wanted_ms, current))
        if isinstance(reply, ProducerIdNeeded):
            new_id = await self._producer_ids.allocate()
            reply = await self._submit(transactional_id, InitProducer(transactional_id, wanted_ms, current, new_id))
        return cast("Producer", reply)

    async def begin(self, transactional_id: str, producer: Producer) -> int:
        """Begin a transaction before its first partition is known; returns its number."""
        return cast("int", await self._submit(transactional_id, Begin(transactional_id, producer)))

    async def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        *,
        number: int | None = None,
    ) -> dict[TopicPartition, GoQueueError]:
        """Make partitions part of the transaction, all or none; returns why not, by partition."""
        refused = {place: error for place in partitions if (error := self._refusal(place)) is not None}
        if refused:
            untried = NotAttempted("another partition of the request was refused")
            return {place: refused.get(place, untried) for place in partitions}
        places = self._with_companions(partitions)
        await self._submit(transactional_id, AddPartitions(transactional_id, producer, places, number))
        return {}

    async def add_group(
        self, transactional_id: str, producer: Producer, group: str, *, number: int | None = None
    ) -> None:
        """Make a group's offsets part of the transaction."""
        place = self._group_place(parse_group_id(group))
        await self._submit(transactional_id, AddPartitions(transactional_id, producer, frozenset({place}), number))

    async def add_shard(
        self, transactional_id: str, producer: Producer, place: TopicPartition, *, number: int | None = None
    ) -> None:
        """Make a partition of an internal topic part of the transaction: what its owner promises there."""
        await self._submit(transactional_id, AddPartitions(transactional_id, producer, frozenset({place}), number))

    async def end(
        self,
        transactional_id: str,
        producer: Producer,
        *,
        commit: bool,
        number: int | None = None,
        raises_epoch: bool = False,
    ) -> Producer:
        """Commit or abort: answered once that is decided for good, and the same again if asked again.

        Returns the producer that goes on: with `raises_epoch`, under the next epoch.
        """
        command = EndTransaction(transactional_id, producer, commit, number, raises_epoch)
        reply = await self._submit(transactional_id, command)
        if isinstance(reply, ProducerIdNeeded):
            new_id = await self._producer_ids.allocate()
            reply = await self._submit(transactional_id, msgspec.structs.replace(command, new_producer_id=new_id))
        return cast("Producer", reply)

    async def abort(self, transactional_id: str) -> None:
        """Abort on an operator's word; the producer is fenced."""
        self._check_exists(transactional_id)
        await self._submit(transactional_id, AbortAny(transactional_id))

    async def abort_hanging(self, producer: Producer, place: TopicPartition) -> None:
        """Abort in one partition a transaction that its coordinator does not know: it would stay open for ever.

        One that is known is refused, for a marker in one of its partitions would tear it.
        """
        known = self._open.get(producer.producer_id)
        if known is not None and (known.partitions or self._markers.is_ending(known.name)):
            raise InvalidTransactionState(f"the transaction is known: abort {known.name!s} by its name")
        await self._markers.abort_hanging(producer, place)

    async def describe(self, transactional_id: str) -> Described:
        """What is known of an id, or `TransactionalIdNotFound`."""
        self._check_exists(transactional_id)
        return cast("Described", await self._submit(transactional_id, Describe(transactional_id)))

    async def list(self) -> tuple[Described, ...]:
        """All ids by name. Asking does not make the internal topic."""
        if self._topics.find(TRANSACTION_STATE) is None:
            return ()
        shards = await self._coordinator.submit_all(ListIds())
        return tuple(sorted((one for shard in shards for one in shard), key=lambda one: one.transactional_id))

    def id_of(self, producer_id: int) -> str:
        """The transactional id that a producer belongs to."""
        known = self._open.get(producer_id)
        if known is None or isinstance(known.name, Participant):
            raise InvalidProducerIdMapping(f"producer {producer_id} belongs to no transactional id")
        return known.name

    def admit(
        self,
        producer: Producer,
        places: Collection[TopicPartition],
        *,
        shards: Collection[TopicPartition] = (),
        implicit: bool = False,
        number: int | None = None,
    ) -> asyncio.Future[None] | None:
        """What batches of a transaction that adds partitions by itself must wait for; see `Admission`."""
        return self._admission.admit(producer, places, shards=shards, implicit=implicit, number=number)

    def check_is(self, described: Described, producer: Producer) -> None:
        """Refuse a producer that is not, or no longer, the one of the id."""
        if producer.producer_id != described.producer_id:
            raise InvalidProducerIdMapping(f"the transactional id does not belong to producer {producer.producer_id}")
        if producer.epoch != described.producer_epoch:
            current = Producer(described.producer_id, described.producer_epoch)
            raise fenced(producer, current, aborted=described.aborted_epoch, timeout_ms=described.timeout_ms)

    def check_number(self, producer: Producer, number: int) -> None:
        """Refuse what comes too late for its transaction. To be asked in the same step as the write."""
        self._open.check_number(producer.producer_id, number)

    def heard(self, transactional_id: str, producer: Producer) -> None:
        """The producer lives; if it is not heard again for a session, what it has open is aborted."""
        known = self._open.get(producer.producer_id)
        # A zombie may not take the place of the one that has the id now.
        if known is not None and known.epoch == producer.epoch:
            self._sessions.heard(transactional_id, producer)

    # --- external coordinators ----------------------------------------------------------------

    async def open_participant(self, writer: str, epoch: int, task: str) -> Producer | None:
        """A producer that stages records for an epoch; None if the epoch is committed already."""
        participant = parse_participant(writer, epoch, task)
        reply = await self._submit(participant, OpenParticipant(participant))
        if isinstance(reply, ProducerIdNeeded):
            new_id = await self._producer_ids.allocate()
            reply = await self._submit(participant, OpenParticipant(participant, new_id))
        return None if isinstance(reply, EpochCommitted) else cast("Producer", reply)

    async def decide_epoch(
        self, writer: str, epoch: int, *, commit: bool, claims: Sequence[Claim] = ()
    ) -> EpochDecided:
        """Commit or abort an epoch of a writer: decided once, and answered the same if asked again."""
        parse_writer(writer, epoch)
        command = DecideEpoch(writer, epoch, commit, tuple(claims))
        return cast("EpochDecided", await self._submit(Participant(writer, epoch, ""), command))

    async def describe_writer(self, writer: str) -> DescribedWriter:
        """A writer's committed epochs and open participants, or `WriterNotFound`."""
        parse_writer(writer)
        if self._topics.find(TRANSACTION_STATE) is None:
            raise WriterNotFound(writer)
        return cast("DescribedWriter", await self._submit(Participant(writer, 0, ""), DescribeWriter(writer)))

    async def list_writers(self) -> tuple[DescribedWriter, ...]:
        """All writers by name. Asking does not make the internal topic."""
        if self._topics.find(TRANSACTION_STATE) is None:
            return ()
        shards = await self._coordinator.submit_all(ListWriters())
        return tuple(sorted((one for shard in shards for one in shard), key=lambda one: one.writer))

    def is_participant(self, producer_id: int) -> bool:
        """Whether the producer stages records for an external coordinator."""
        known = self._open.get(producer_id)
        return known is not None and isinstance(known.name, Participant)

    # --- the rest -----------------------------------------------------------------------------

    @property
    def session_count(self) -> int:
        """Producers that speak HTTP and were heard of lately."""
        return len(self._sessions)

    @property
    def ending_count(self) -> int:
        """Decided transactions whose partitions do not all know yet."""
        return self._markers.ending_count

    async def close(self) -> None:
        """Answer what is outstanding and stop. A second close does no harm."""
        await self._sessions.close()
        await self._markers.close()
        await self._coordinator.close()

    async def _end_session(self, transactional_id: str, producer: Producer) -> None:
        await self._submit(transactional_id, AbortAny(transactional_id, producer))

    async def _submit(self, name: Name, command: object) -> object:
        if isinstance(name, str):
            parse_transactional_id(name)
        shard = self._coordinator.partition_for(shard_key(name))
        self._markers.watch((shard,))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HOLD_SECONDS_MAX
        while True:
            try:
                return await self._coordinator.submit_to(shard, command)
            except ConcurrentTransactions:
                left = deadline - loop.time()
                if left <= 0:
                    raise
                await self._markers.ended(name, left)

    def _check_exists(self, transactional_id: str) -> None:
        if self._topics.find(TRANSACTION_STATE) is None:
            raise TransactionalIdNotFound(transactional_id)

    def _with_companions(self, places: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        companions = {self._companion_of(place) for place in places}
        return frozenset(places).union(place for place in companions if place is not None)

    def _refusal(self, place: TopicPartition) -> GoQueueError | None:
        topic = self._topics.find(place.topic)
        if topic is None:
            return TopicNotFound(place.topic)
        if topic.internal:
            return InternalTopic(place.topic)
        if not 0 <= place.partition < topic.partition_count:
            return PartitionNotFound(place.topic, place.partition)
        return None
