"""Closed batches out: numbered per partition, several in flight, sent again until they are stored.

A batch that is sent again carries the same sequence, so the broker stores it once. With a
transactional id the batches are part of a transaction that somebody else ends.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from goqueue.client.wire.cluster import WireClient, pauses
from goqueue.client.wire.connection import WireConnection
from goqueue.client.wire.errors import DUPLICATE_SEQUENCE_NUMBER, RETRIABLE, AnswerLost, BrokerRefused, KafkaUnreachable
from goqueue.records import TopicPartition

PRODUCE, INIT_PRODUCER_ID = 0, 22
_IN_FLIGHT_MAX = 4
_TIMEOUT_MS = 30_000
_UNKNOWN_TOPIC, _OUT_OF_ORDER = 3, 45


class Identity(NamedTuple):
    """Who writes: the producer's id and epoch, and the transaction if there is one."""

    producer_id: int
    producer_epoch: int
    transactional_id: str | None = None


class Sending(NamedTuple):
    """A batch on its way."""

    place: TopicPartition
    batch: bytes
    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks a batch for


class Stored(NamedTuple):
    """Where a batch lies."""

    place: TopicPartition
    base_offset: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks a batch for


def new_identity(client: WireClient) -> Identity:
    """A producer id of our own, without a transaction."""

    def ask() -> Identity:
        answer = client.any_broker().call(
            INIT_PRODUCER_ID, 4, {"transactional_id": None, "transaction_timeout": 60_000}
        )
        if answer.error_code:
            raise BrokerRefused("a producer id", answer.error_code)
        return Identity(answer.producer_id, answer.producer_epoch)

    return client.repeat(ask)


class BatchProducer:
    """Sends batches of one identity, in order per partition."""

    def __init__(self, client: WireClient, identity: Identity) -> None:
        self._client = client
        self.identity = identity
        self._sequences: dict[TopicPartition, int] = {}
        # Connections of its own: their answers come in order, so nobody else may ask over them.
        self._open: dict[tuple[str, int], WireConnection] = {}
        self._sent: dict[WireConnection, deque[Sending]] = {}
        self.stored: list[Stored] = []

    def next_sequence(self, place: TopicPartition) -> int:
        """The sequence that the next batch for this partition must begin with."""
        return self._sequences.get(place, 0)

    def send(self, place: TopicPartition, batch: bytes, count: int) -> None:
        """Send a batch whose base sequence is `next_sequence`; waits when too many are on their way."""
        first = self.next_sequence(place)
        self._sequences[place] = (first + count) & 0x7FFFFFFF
        sending = Sending(place, batch, first, count)
        try:
            connection = self._connection(place)
            queue = self._sent.setdefault(connection, deque())
            queue.append(sending)
            connection.send(PRODUCE, 9, self._request(sending))
            while len(queue) >= _IN_FLIGHT_MAX:
                self._take_answer(connection)
        except (AnswerLost, OSError, BrokerRefused) as error:
            self._recover(error, sending)

    def flush(self) -> list[Stored]:
        """Wait until every batch is stored; returns them all."""
        while waiting := [connection for connection, queue in self._sent.items() if queue]:
            try:
                self._take_answer(waiting[0])
            except (AnswerLost, OSError, BrokerRefused) as error:
                self._recover(error, None)
        return self.stored

    def _connection(self, place: TopicPartition) -> WireConnection:
        address = self._client.leader_address(place)
        connection = self._open.get(address)
        if connection is None or not connection.is_open:
            connection = self._open[address] = self._client.new_connection(address)
        return connection

    def _take_answer(self, connection: WireConnection) -> None:
        queue = self._sent[connection]
        answer = connection.receive()
        # It is taken off the queue only when it is known to be stored: what is left is sent again.
        self._note(queue[0], answer)
        queue.popleft()

    def _note(self, sending: Sending, answer: Any) -> None:
        row = answer.responses[0].partition_responses[0]
        if row.error_code not in {0, DUPLICATE_SEQUENCE_NUMBER}:
            raise BrokerRefused(f"writing to {sending.place}", row.error_code, row.error_message)
        self.stored.append(Stored(sending.place, row.base_offset, sending.count))

    def _recover(self, error: Exception, last: Sending | None) -> None:
        """Send all that has no answer again, one at a time and in order, over new connections."""
        _raise_if_final(error)
        unanswered = [one for queue in self._sent.values() for one in queue]
        if last is not None and last not in unanswered:
            unanswered.append(last)
        for connection in self._sent:
            connection.close()
        self._sent.clear()
        unanswered.sort(key=lambda one: (one.place, _age(one.first, self.next_sequence(one.place))))
        for sending in unanswered:
            self._send_until_stored(sending)

    def _send_until_stored(self, sending: Sending) -> None:
        deadline = time.monotonic() + self._client.retry_s
        for pause_s in pauses():
            try:
                self._client.forget([sending.place.topic])
                answer = self._client.leader(sending.place).call(PRODUCE, 9, self._request(sending))
                self._note(sending, answer)
            except (AnswerLost, OSError, BrokerRefused) as error:
                _raise_if_final(error)
                if isinstance(error, BrokerRefused) and error.code == _OUT_OF_ORDER:
                    raise
                if time.monotonic() + pause_s > deadline:
                    if isinstance(error, BrokerRefused):
                        raise
                    raise KafkaUnreachable(self._client.servers, str(error)) from error
                time.sleep(pause_s)
            else:
                return

    def _request(self, sending: Sending) -> dict[str, Any]:
        records: Sequence[bytes] = (sending.batch,)
        part = {"index": sending.place.partition, "records": records}
        return {
            "transactional_id": self.identity.transactional_id,
            "acks": -1,
            "timeout": _TIMEOUT_MS,
            "topic_data": [{"name": sending.place.topic, "partition_data": [part]}],
        }


def _age(first: int, after: int) -> int:
    """Negative distance to the next sequence: the oldest batch comes first, even where numbers wrap."""
    return -((after - first) & 0x7FFFFFFF)


def _raise_if_final(error: Exception) -> None:
    # "Out of order" may pass: when one batch of several in flight is refused for a passing reason,
    # those behind it are refused for their order. Sent one at a time, they are not.
    if isinstance(error, BrokerRefused) and error.code not in RETRIABLE | {_OUT_OF_ORDER, _UNKNOWN_TOPIC}:
        raise error
