"""TransactionService: what front-ends call. A reply is given only once all that it says is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import cast

from goqueue.broker.producer_ids import ProducerIds
from goqueue.broker.topics import TopicService
from goqueue.config import TransactionsConfig
from goqueue.coordinator.runtime import Coordinator
from goqueue.errors import (
    GoQueueError,
    InternalTopic,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    NotAttempted,
    PartitionNotFound,
    TopicNotFound,
    TransactionalIdNotFound,
)
from goqueue.ids import parse_group_id, parse_transactional_id
from goqueue.records import TopicPartition
from goqueue.transactions.commands import (
    AbortAny,
    AddPartitions,
    Begin,
    Describe,
    Described,
    EndTransaction,
    InitProducer,
    ListIds,
    Producer,
    ProducerIdNeeded,
)
from goqueue.transactions.markers import Markers
from goqueue.transactions.open_transactions import OpenTransactions

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
        config: TransactionsConfig,
        group_place: GroupPlace,
    ) -> None:
        self._coordinator = coordinator
        self._topics = topics
        self._producer_ids = producer_ids
        self._markers = markers
        self._open = open_transactions
        self._config = config
        self._group_place = group_place

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
        """Take a transactional id over; `ConcurrentTransactions` while what it had open is being ended."""
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
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, GoQueueError]:
        """Make partitions part of the transaction, all or none; returns why not, by partition."""
        refused = {place: error for place in partitions if (error := self._refusal(place)) is not None}
        if refused:
            untried = NotAttempted("another partition of the request was refused")
            return {place: refused.get(place, untried) for place in partitions}
        await self._submit(transactional_id, AddPartitions(transactional_id, producer, frozenset(partitions)))
        return {}

    async def add_group(self, transactional_id: str, producer: Producer, group: str) -> None:
        """Make a group's offsets part of the transaction."""
        place = self._group_place(parse_group_id(group))
        await self._submit(transactional_id, AddPartitions(transactional_id, producer, frozenset({place})))

    async def end(self, transactional_id: str, producer: Producer, *, commit: bool) -> None:
        """Commit or abort: answered once that is decided for good, and the same again if asked again."""
        await self._submit(transactional_id, EndTransaction(transactional_id, producer, commit))

    async def abort(self, transactional_id: str) -> None:
        """Abort on an operator's word; the producer is fenced."""
        self._check_exists(transactional_id)
        await self._submit(transactional_id, AbortAny(transactional_id))

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
        transactional_id = self._open.transactional_id_of(producer_id)
        if transactional_id is None:
            raise InvalidProducerIdMapping(f"producer {producer_id} belongs to no transactional id")
        return transactional_id

    @property
    def ending_count(self) -> int:
        """Decided transactions whose partitions do not all know yet."""
        return self._markers.ending_count

    async def close(self) -> None:
        """Answer what is outstanding and stop. A second close does no harm."""
        await self._markers.close()
        await self._coordinator.close()

    async def _submit(self, transactional_id: str, command: object) -> object:
        shard = self._coordinator.partition_for(parse_transactional_id(transactional_id))
        self._markers.watch((shard,))
        return await self._coordinator.submit_to(shard, command)

    def _check_exists(self, transactional_id: str) -> None:
        if self._topics.find(TRANSACTION_STATE) is None:
            raise TransactionalIdNotFound(transactional_id)

    def _refusal(self, place: TopicPartition) -> GoQueueError | None:
        topic = self._topics.find(place.topic)
        if topic is None:
            return TopicNotFound(place.topic)
        if topic.internal:
            return InternalTopic(place.topic)
        if not 0 <= place.partition < len(topic.partitions):
            return PartitionNotFound(place.topic, place.partition)
        return None
