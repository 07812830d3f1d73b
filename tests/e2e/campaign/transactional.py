"""Transactions: some committed, some aborted, and one that carries its input's offsets."""

from __future__ import annotations

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from tests.e2e.campaign.ledger import Fate
from tests.e2e.campaign.load import KAFKA, Campaign, Load
from tests.e2e.campaign.streams import INPUTS
from tests.e2e.transactional_clients import SECONDS_MAX, ConfluentTransactional

from goqueue.records import TopicPartition as Place

TRANSACTIONS, OUTPUTS = "transactions", "outputs"
PARTITIONS = 3


class TransactionalWriter(Load):
    """Each transaction writes one record to every partition; a quarter of them is aborted."""

    def __init__(self, campaign: Campaign, number: int) -> None:
        super().__init__(campaign, f"transactional-writer-{number}")
        self._ledger = campaign.ledger(f"transactions-{number}")

    def work(self) -> None:
        producer = ConfluentTransactional(self.broker.kafka, self.name, **{**KAFKA, "linger.ms": 0})
        try:
            while not self.is_ended:
                self._one(producer)
        except AssertionError as problem:
            raise TimeoutError("a flush of the client timed out") from problem
        finally:
            producer.close()

    def _one(self, producer: ConfluentTransactional) -> None:
        body = self._ledger.begin()
        # Until its commit is asked for, nobody may ever see it.
        self._ledger.note(body.id, Fate.REFUSED)
        producer.begin()
        for partition in range(PARTITIONS):
            producer.send(Place(TRANSACTIONS, partition), [body.encode(self.chance)])
        if self.chance.random() < 0.25:
            producer.abort()
            return
        self._ledger.note(body.id, Fate.UNKNOWN)
        producer.commit()
        self._ledger.note(body.id, Fate.ACKNOWLEDGED)


class Transformer(Load):
    """Consume, transform, produce: every input is in the output exactly once."""

    GROUP = "transformers"

    def __init__(self, campaign: Campaign) -> None:
        super().__init__(campaign, "transformer", consumes=True)

    def work(self) -> None:
        consumer = Consumer(
            self.settings(
                group_id=self.GROUP,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6000,
                isolation_level="read_committed",
            )
        )
        producer = Producer(self.settings(transactional_id=self.name, linger_ms=0))
        consumer.subscribe([INPUTS])
        try:
            producer.init_transactions(SECONDS_MAX)
            while not self.is_ended:
                found = [one for one in consumer.consume(50, 0.2) if one.error() is None]
                if found:
                    self._transform(consumer, producer, found)
        finally:
            producer.purge()
            producer.flush(SECONDS_MAX)
            consumer.close()

    def _transform(self, consumer: Consumer, producer: Producer, found: list[Message]) -> None:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        producer.begin_transaction()
        for one in found:
            first.setdefault(one.partition(), one.offset())
            last[one.partition()] = one.offset()
            producer.produce(OUTPUTS, one.value(), one.key(), partition=one.partition())
        ends = [TopicPartition(INPUTS, partition, offset + 1) for partition, offset in last.items()]
        producer.send_offsets_to_transaction(ends, consumer.consumer_group_metadata(), SECONDS_MAX)
        if self.chance.random() < 0.15:
            producer.abort_transaction(SECONDS_MAX)
            self.campaign.counts["transformations aborted"] += 1
            for partition, offset in first.items():
                consumer.seek(TopicPartition(INPUTS, partition, offset))
            return
        producer.commit_transaction(SECONDS_MAX)
        self.campaign.counts["transformations committed"] += 1
