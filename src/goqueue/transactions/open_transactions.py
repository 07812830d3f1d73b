"""Open transactions by producer: what a partition must know before it takes a transactional batch.

The machines keep it up to date as they apply records; whoever is about to append asks it in the
same step, so that no batch can land behind its transaction's marker and stay open for ever.

Each shard has a table of its own. A shard that loads goes through all that was once so: it is shown
when it has loaded, in the place of the table of the shard before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goqueue.caller import INTERNAL
from goqueue.codec.batch import TRANSACTIONAL
from goqueue.errors import CoordinatorFenced, InvalidRecord, InvalidTransactionState, ProducerFenced
from goqueue.records import TopicPartition
from goqueue.transactions.names import Name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from goqueue.broker.arrivals.arrival import Arrival, Facts
    from goqueue.broker.replicas.partitions import Partition
    from goqueue.coordinator.shard import Transaction
    from goqueue.transactions.commands import Producer


# The oldest is forgotten first, and asked for again.
_VERIFIED_MAX = 100_000


class Verified(NamedTuple):
    """What the coordinator on another node said about a producer in one partition."""

    epoch: int
    coordinator_epoch: int
    # Which transaction of the producer it is.
    number: int


class Known(NamedTuple):
    """A transactional producer; without a transaction, `partitions` is empty."""

    name: Name
    epoch: int
    partitions: frozenset[TopicPartition]
    # Which transaction of the id it is, or was last.
    number: int
    # The leader epoch of the coordinator that says so; -1 until its shard has loaded.
    coordinator_epoch: int = -1


class ShardProducers:
    """The transactional producers of one shard, as far as its log was taken in."""

    def __init__(self) -> None:
        self._own: dict[int, Known] = {}
        self._epoch = -1
        # The table of all shards, once this one is shown in it.
        self._shown: dict[int, Known] | None = None

    def put(self, producer_id: int, name: Name, epoch: int, partitions: frozenset[TopicPartition], number: int) -> None:
        """The producer has this epoch, and this transaction if there are partitions."""
        known = self._own[producer_id] = Known(name, epoch, partitions, number, self._epoch)
        if self._shown is not None:
            self._shown[producer_id] = known

    def forget(self, producer_id: int) -> None:
        """The producer's transactional id is gone, or has another producer."""
        self._own.pop(producer_id, None)
        if self._shown is not None:
            self._shown.pop(producer_id, None)

    def show_in(self, producers: dict[int, Known], former: ShardProducers | None, epoch: int) -> None:
        """From now on all that is known here is known there, and nothing that only the former shard knew.

        `epoch` is that of the term in which this node coordinates the shard.
        """
        self._epoch = epoch
        self._own = {producer_id: known._replace(coordinator_epoch=epoch) for producer_id, known in self._own.items()}
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
        # In a cluster, set by the node: asks the coordinator on another node, which makes it known here.
        self.ask: Callable[[Transaction, TopicPartition], Awaitable[None]] | None = None
        # Of other nodes' coordinators, by producer and partition.
        self._verified: dict[tuple[int, TopicPartition], Verified] = {}
        # How often a transaction of the producer ended there, as far as this node was told.
        self._ends: dict[tuple[int, TopicPartition], int] = {}
        self._terms: dict[TopicPartition, int] = {}

    def is_verified(self, producer: Producer, place: TopicPartition) -> bool:
        """Whether another node's coordinator said that the partition is in the producer's open transaction."""
        known = self._verified.get((producer.producer_id, place))
        return known is not None and known.epoch == producer.epoch

    async def verify(self, transaction: Transaction, place: TopicPartition) -> None:
        """Before `check`: have it known here whether the transaction is open, if another node coordinates it."""
        if self.ask is not None and transaction.producer_id not in self._producers:
            await self.ask(transaction, place)

    def note_verified(self, producer: Producer, place: TopicPartition, coordinator_epoch: int, number: int) -> None:
        """It has said so, and the transaction has not ended here since."""
        if len(self._verified) >= _VERIFIED_MAX:
            self._verified.pop(next(iter(self._verified)))
        self._verified[producer.producer_id, place] = Verified(producer.epoch, coordinator_epoch, number)

    def forget_verified(self, producer_id: int, place: TopicPartition) -> None:
        """The transaction ends here: what was verified, or is being, is void."""
        self._verified.pop((producer_id, place), None)
        if len(self._ends) >= _VERIFIED_MAX:
            self._ends.pop(next(iter(self._ends)))
        self._ends[producer_id, place] = self._ends.get((producer_id, place), 0) + 1

    def forget_term(self, place: TopicPartition) -> None:
        """This node's term in the partition began or ended: transactions may have ended there under another leader."""
        for key in [one for one in self._verified if one[1] == place]:
            del self._verified[key]
        self._terms[place] = self._terms.get(place, 0) + 1

    def ends_of(self, producer_id: int, place: TopicPartition) -> tuple[int, int]:
        """Changes whenever a transaction of the producer ends here, or may have ended under another leader."""
        return self._ends.get((producer_id, place), 0), self._terms.get(place, 0)

    def show(self, shard: int, producers: ShardProducers, coordinator_epoch: int) -> None:
        """The shard has loaded: its producers are those of this table, in this term of the coordinator."""
        producers.show_in(self._producers, self._shards.get(shard), coordinator_epoch)
        self._shards[shard] = producers

    def forget(self, shard: int) -> None:
        """Another node coordinates these transactions from now on: nothing is known about them here."""
        former = self._shards.pop(shard, None)
        if former is not None:
            ShardProducers().show_in(self._producers, former, -1)

    def get(self, producer_id: int) -> Known | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def withdraw(self, producer_id: int, partitions: Collection[TopicPartition]) -> None:
        """These partitions were not added after all: the shard that had said so is read again."""
        known = self._producers.get(producer_id)
        if known is not None:
            self._producers[producer_id] = known._replace(partitions=known.partitions.difference(partitions))

    def check_member(self, producer_id: int, epoch: int, place: TopicPartition) -> int:
        """Refuse what is not of an open transaction that has this partition in it; returns its coordinator's epoch."""
        known = self._producers.get(producer_id)
        if known is None:
            verified = self._verified.get((producer_id, place))
            if verified is not None and verified.epoch == epoch:
                return verified.coordinator_epoch
            if verified is not None and epoch < verified.epoch:
                raise _fenced(producer_id, epoch, verified.epoch)
        if known is not None and epoch < known.epoch:
            raise _fenced(producer_id, epoch, known.epoch)
        if known is None or epoch != known.epoch or place not in known.partitions:
            raise InvalidTransactionState(f"{place} is in no open transaction of producer {producer_id}")
        return known.coordinator_epoch

    def check(self, transaction: Transaction, place: TopicPartition) -> int:
        """As `check_member`, for what waits beside the log until the transaction ends."""
        return self.check_member(transaction.producer_id, transaction.producer_epoch, place)

    def check_end(self, place: TopicPartition, transaction: Transaction, coordinator_epoch: int) -> None:
        """Refuse the end of a transaction that a coordinator decided which has been replaced since.

        Its successor may have ended that transaction long ago, and the next one of the producer is open.
        """
        known = self._producers.get(transaction.producer_id)
        verified = self._verified.get((transaction.producer_id, place))
        begun = max((one.coordinator_epoch for one in (known, verified) if one is not None), default=-1)
        if 0 <= coordinator_epoch < begun:
            raise CoordinatorFenced(
                f"the end of a transaction of producer {transaction.producer_id} comes from coordinator epoch "
                f"{coordinator_epoch}, but epoch {begun} has begun since"
            )

    def number_at(self, producer_id: int, place: TopicPartition) -> int:
        """Which transaction of the producer is open in a partition of this node; -1 if none is known."""
        known: Known | Verified | None = self._producers.get(producer_id) or self._verified.get((producer_id, place))
        return -1 if known is None else known.number

    def check_number(self, producer_id: int, number: int, place: TopicPartition | None = None) -> None:
        """Refuse what was meant for an earlier transaction of the producer."""
        known: Known | Verified | None = self._producers.get(producer_id)
        if known is None and place is not None:
            known = self._verified.get((producer_id, place))
        if known is None or known.number != number:
            raise InvalidTransactionState("that transaction has ended")

    def applies(self, _partition: Partition, _facts: Facts) -> bool:
        """To all."""
        return True

    def __call__(self, arrival: Arrival) -> None:
        """Refuse transactional batches without a transaction, and a transactional producer's other batches."""
        header = arrival.header
        if header.attributes & TRANSACTIONAL:
            # What the broker itself writes in a producer's transaction (records in quarantine) has no sequences.
            if header.base_sequence < 0 and arrival.caller is not INTERNAL:
                raise InvalidRecord("a batch with a producer id needs an epoch and a sequence")
            self.check_member(header.producer_id, header.producer_epoch, arrival.partition.key)
            if arrival.facts.transaction is not None:
                self.check_number(header.producer_id, arrival.facts.transaction, arrival.partition.key)
        elif header.producer_id >= 0 and header.producer_id in self._producers:
            raise InvalidTransactionState(
                f"producer {header.producer_id} belongs to a transactional id and writes in transactions only"
            )


def _fenced(producer_id: int, epoch: int, begun: int) -> ProducerFenced:
    return ProducerFenced(f"producer {producer_id} has epoch {epoch}, but epoch {begun} has begun since")
