"""TransactionService: what front-ends call. A reply is given only once all that it says is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import cast

import msgspec

from goqueue.broker.arrivals.producer_ids import ProducerIds, is_plain
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import TransactionsConfig
from goqueue.coordinator.runtime import Coordinator
from goqueue.errors import (
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
from goqueue.ids import parse_group_id
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
from goqueue.transactions.elsewhere import Elsewhere
from goqueue.transactions.markers import Markers
from goqueue.transactions.names import Name, Participant, parse_participant, parse_writer, shard_key
from goqueue.transactions.open_transactions import OpenTransactions
from goqueue.transactions.sessions import ProducerSessions
from goqueue.transactions.statistics import TransactionStatistics
from goqueue.transactions.submissions import Submissions
from goqueue.transactions.transitions import fenced

TRANSACTION_STATE = "__transaction_state"

# The partition of the groups' topic in which a group's offsets lie.
GroupPlace = Callable[[str], TopicPartition]


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
        # In a cluster, set by the node: asks the coordinator, if that is another node.
        self.elsewhere: Elsewhere | None = None
        submissions = Submissions(coordinator, markers)
        self._submit = submissions.submit
        self._until_applied = submissions.until_applied
        self._sessions = ProducerSessions(clock, config.session_timeout_ms, self._end_session)
        self._admission = Admission(open_transactions, self._submit, lambda place: self._refusal(place) is None)

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
                f"transaction timeout {wanted_ms} ms is not from 1 to {self._config.timeout_ms_max} ms",
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
        await self._submit(transactional_id, AddPartitions(transactional_id, producer, frozenset(partitions), number))
        return {}

    async def join_offsets(self, transactional_id: str, producer: Producer, group: str, *, implicit: bool) -> None:
        """Before offsets of a group are taken in: they are part of the transaction, or with `implicit` become so."""
        waiting = None
        if self.elsewhere is not None:
            waiting = self.elsewhere.admit(transactional_id, producer, [self._group_place(group)], implicit=implicit)
        if waiting is not None:
            await waiting
        elif implicit and (self.elsewhere is None or self._open.get(producer.producer_id) is not None):
            await self.add_group(transactional_id, producer, group)

    async def add_offsets(self, transactional_id: str, producer: Producer, place: TopicPartition) -> None:
        """Make a partition of the groups' own topic part of the transaction."""
        await self._submit(transactional_id, AddPartitions(transactional_id, producer, frozenset({place})))

    async def add_group(
        self, transactional_id: str, producer: Producer, group: str, *, number: int | None = None
    ) -> None:
        """Make a group's offsets part of the transaction, as its coordinator."""
        place = self._group_place(parse_group_id(group))
        await self._submit(transactional_id, AddPartitions(transactional_id, producer, frozenset({place}), number))

    async def take_part(
        self,
        transactional_id: str,
        producer: Producer,
        places: Collection[TopicPartition],
        *,
        number: int | None = None,
    ) -> None:
        """Make partitions part of the transaction in which it settles or reopens messages, and writes nothing."""
        if places:
            command = AddPartitions(transactional_id, producer, frozenset(places), number)
            await self._submit(transactional_id, command)

    async def end(
        self,
        transactional_id: str,
        producer: Producer,
        *,
        commit: bool,
        number: int | None = None,
        raises_epoch: bool = False,
        until_applied: bool = True,
    ) -> Producer:
        """Commit or abort: answered once that is decided for good, and the same again if asked again.

        Returns the producer that goes on: with `raises_epoch`, under the next epoch. With `until_applied` it waits,
        for a bounded time, until every partition has been told: whoever reads next finds what was committed.
        """
        command = EndTransaction(transactional_id, producer, commit, number, raises_epoch)
        reply = await self._submit(transactional_id, command)
        if isinstance(reply, ProducerIdNeeded):
            new_id = await self._producer_ids.allocate()
            reply = await self._submit(transactional_id, msgspec.structs.replace(command, new_producer_id=new_id))
        if until_applied:
            await self._until_applied(transactional_id)
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

    def owner_of(self, producer_id: int) -> str | None:
        """The transactional id, or the writer, in whose name a producer writes transactions; None if it has none."""
        known = self._open.get(producer_id)
        if known is not None:
            return shard_key(known.name)
        name = None if self.elsewhere is None else self.elsewhere.known_name(producer_id)
        return None if name is None else shard_key(name)

    async def find_owner(self, producer_id: int) -> str | None:
        """As `owner_of`, whichever node coordinates the transactions."""
        owner = self.owner_of(producer_id)
        if owner is None and self.elsewhere is not None:
            name = await self.elsewhere.name_of(producer_id)
            return None if name is None else shard_key(name)
        return owner

    def admit(
        self,
        producer: Producer,
        places: Collection[TopicPartition],
        *,
        implicit: bool = False,
        number: int | None = None,
        transactional_id: str | None = None,
    ) -> asyncio.Future[None] | None:
        """What batches of a transaction that adds partitions by itself must wait for; see `Admission`."""
        if self.elsewhere is not None and transactional_id is not None:
            waiting = self.elsewhere.admit(transactional_id, producer, places, implicit=implicit)
            if waiting is not None:
                return waiting
        return self._admission.admit(producer, places, implicit=implicit, number=number)

    def check_is(self, described: Described, producer: Producer) -> None:
        """Refuse a producer that is not, or no longer, the one of the id."""
        if producer.producer_id != described.producer_id:
            raise InvalidProducerIdMapping(f"the transactional id does not belong to producer {producer.producer_id}")
        if producer.epoch != described.producer_epoch:
            current = Producer(described.producer_id, described.producer_epoch)
            raise fenced(producer, current, aborted=described.aborted_epoch, timeout_ms=described.timeout_ms)

    async def join(self, producer: Producer, place: TopicPartition, number: int | None) -> None:
        """Make a partition part of a participant's transaction, or of the one that was begun under this number."""
        if self.elsewhere is not None and self._open.get(producer.producer_id) is None:
            await self.elsewhere.join(producer, place, number)
        else:
            await self.join_here(producer, place, number)

    async def join_here(self, producer: Producer, place: TopicPartition, number: int | None) -> None:
        """As `join`, at the coordinator."""
        gate = self._admission.admit(producer, [place], implicit=number is not None, number=number)
        if gate is not None:
            await asyncio.shield(gate)
        if number is not None:
            self.heard(self.id_of(producer.producer_id), producer)
            self._open.check_number(producer.producer_id, number)

    def number_at(self, producer_id: int, place: TopicPartition) -> int:
        """Which transaction of the producer is open in a partition of this node; -1 if none is known."""
        return self._open.number_at(producer_id, place)

    async def enlist(self, producer_id: int, producer_epoch: int, place: TopicPartition, number: int) -> None:
        """Make a partition part of the open transaction of this number, for what the broker writes in its name."""
        producer = Producer(producer_id, producer_epoch)
        if self.elsewhere is not None and self._open.get(producer_id) is None:
            await self.elsewhere.enlist(producer, place, number)
        else:
            await self.enlist_here(producer, place, number)

    async def enlist_here(self, producer: Producer, place: TopicPartition, number: int) -> None:
        """As `enlist`, at the coordinator."""
        gate = self._admission.admit(producer, [place], implicit=True, number=number)
        if gate is not None:
            await asyncio.shield(gate)
        self._open.check_member(producer.producer_id, producer.epoch, place)
        self._open.check_number(producer.producer_id, number)

    async def name_here(self, producer_id: int) -> Name | None:
        """Whose transactions a producer writes, if this node coordinates them; what it coordinates is loaded first."""
        known = self._open.get(producer_id)
        if known is None and self._topics.find(TRANSACTION_STATE) is not None:
            await self._coordinator.load_all(ListIds())
            known = self._open.get(producer_id)
        return None if known is None else known.name

    def check_coordinates(self, key: str) -> None:
        """Refuse the key of a name whose transactions another node coordinates: what is not known here says nothing."""
        if self._topics.find(TRANSACTION_STATE) is not None:
            self._coordinator.check_here(key)

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

    async def is_participant(self, producer_id: int) -> bool:
        """Whether the producer stages records for an external coordinator."""
        known = self._open.get(producer_id)
        # Of an id that was given out to write no transactions nobody is asked: its batches are many, and are written
        # also while the metadata store is away.
        if known is not None or self.elsewhere is None or is_plain(producer_id):
            return known is not None and isinstance(known.name, Participant)
        return isinstance(await self.elsewhere.name_of(producer_id), Participant)

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

    def _check_exists(self, transactional_id: str) -> None:
        if self._topics.find(TRANSACTION_STATE) is None:
            raise TransactionalIdNotFound(transactional_id)

    def _refusal(self, place: TopicPartition) -> GoQueueError | None:
        topic = self._topics.find(place.topic)
        if topic is None:
            return TopicNotFound(place.topic)
        if topic.internal:
            return InternalTopic(place.topic)
        if not 0 <= place.partition < topic.partition_count:
            return PartitionNotFound(place.topic, place.partition)
        return None
