"""Open transactions by producer: what a partition must know before it takes a transactional batch.

The machines keep it up to date as they apply records; whoever is about to append asks it in the
same step, so that no batch can land behind its transaction's marker and stay open for ever.

Each shard has a table of its own. A shard that loads goes through all that was once so: it is shown
when it has loaded, in the place of the table of the shard before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goqueue.codec.batch import TRANSACTIONAL
from goqueue.errors import InvalidRecord, InvalidTransactionState, ProducerFenced
from goqueue.records import TopicPartition
from goqueue.transactions.names import Name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from goqueue.broker.arrival import Arrival, Facts
    from goqueue.broker.partitions import Partition
    from goqueue.coordinator.shard import Transaction


class Known(NamedTuple):
    """A transactional producer; without a transaction, `partitions` is empty."""

    name: Name
    epoch: int
    partitions: frozenset[TopicPartition]
    # Which transaction of the id it is, or was last.
    number: int


class ShardProducers:
    """The transactional producers of one shard, as far as its log was taken in."""

    def __init__(self) -> None:
        self._own: dict[int, Known] = {}
        # The table of all shards, once this one is shown in it.
        self._shown: dict[int, Known] | None = None

    def put(self, producer_id: int, name: Name, epoch: int, partitions: frozenset[TopicPartition], number: int) -> None:
        """The producer has this epoch, and this transaction if there are partitions."""
        known = self._own[producer_id] = Known(name, epoch, partitions, number)
        if self._shown is not None:
            self._shown[producer_id] = known

    def forget(self, producer_id: int) -> None:
        """The producer's transactional id is gone, or has another producer."""
        self._own.pop(producer_id, None)
        if self._shown is not None:
            self._shown.pop(producer_id, None)

    def show_in(self, producers: dict[int, Known], former: ShardProducers | None) -> None:
        """From now on all that is known here is known there, and nothing that only the former shard knew."""
        if former is not None:
            former._shown = None  # noqa: SLF001 - of the same class
            for producer_id in former._own.keys() - self._own.keys():  # noqa: SLF001
                producers.pop(producer_id, None)
        producers.update(self._own)
        self._shown = producers


class OpenTransactions:
    """Every transactional producer of this node. A step on the way in."""

    def __init__(self) -> None:
        self._producers: dict[int, Known] = {}
        self._shards: dict[int, ShardProducers] = {}

    def show(self, shard: int, producers: ShardProducers) -> None:
        """The shard has loaded: its producers are those of this table."""
        producers.show_in(self._producers, self._shards.get(shard))
        self._shards[shard] = producers

    def forget(self, shard: int) -> None:
        """Another node coordinates these transactions from now on: nothing is known about them here."""
        former = self._shards.pop(shard, None)
        if former is not None:
            ShardProducers().show_in(self._producers, former)

    def get(self, producer_id: int) -> Known | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def withdraw(self, producer_id: int, partitions: Collection[TopicPartition]) -> None:
        """These partitions were not added after all: the shard that had said so is read again."""
        known = self._producers.get(producer_id)
        if known is not None:
            self._producers[producer_id] = known._replace(partitions=known.partitions.difference(partitions))

    def check_member(self, producer_id: int, epoch: int, place: TopicPartition) -> None:
        """Refuse what is not of an open transaction that has this partition in it."""
        known = self._producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            raise ProducerFenced(f"producer {producer_id} has epoch {epoch}, but epoch {known.epoch} has begun since")
        if known is None or epoch != known.epoch or place not in known.partitions:
            raise InvalidTransactionState(f"{place} is in no open transaction of producer {producer_id}")

    def check_of(self, topic: str) -> Callable[[Transaction, int], None]:
        """As `check_member`, for a coordinator whose shards are the partitions of `topic`."""
        return lambda transaction, shard: self.check_member(
            transaction.producer_id, transaction.producer_epoch, TopicPartition(topic, shard)
        )

    def check_number(self, producer_id: int, number: int) -> None:
        """Refuse what was meant for an earlier transaction of the producer."""
        known = self._producers.get(producer_id)
        if known is None or known.number != number:
            raise InvalidTransactionState("that transaction has ended")

    def applies(self, _partition: Partition, _facts: Facts) -> bool:
        """To all."""
        return True

    def __call__(self, arrival: Arrival) -> None:
        """Refuse transactional batches without a transaction, and a transactional producer's other batches."""
        header = arrival.header
        if header.attributes & TRANSACTIONAL:
            if header.base_sequence < 0:
                raise InvalidRecord("a batch with a producer id needs an epoch and a sequence")
            self.check_member(header.producer_id, header.producer_epoch, arrival.partition.key)
        elif header.producer_id >= 0 and header.producer_id in self._producers:
            raise InvalidTransactionState(
                f"producer {header.producer_id} belongs to a transactional id and writes in transactions only"
            )
