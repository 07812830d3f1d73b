"""Closed batches out: numbered per partition, several in flight, sent again until they are stored.

A batch that is sent again carries the same sequence, so the broker stores it once. With a
transactional id the batches are part of a transaction that somebody else ends.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from goqueue.client.wire.cluster import WireClient, pauses
from goqueue.client.wire.connection import WireConnection
from goqueue.client.wire.errors import DUPLICATE_SEQUENCE_NUMBER, RETRIABLE, AnswerLost, BrokerRefused, KafkaUnreachable
from goqueue.ports import Buffer
from goqueue.records import TopicPartition

PRODUCE, INIT_PRODUCER_ID = 0, 22
# A broker knows the last five batches of a producer in each partition, and can tell where a repeated one lies.
_IN_FLIGHT_PER_PLACE_MAX = 5
# So much that one sync serves many batches and that the broker writes while the next ones are made.
_IN_FLIGHT_BYTES_MAX = 16 * 1024 * 1024
_IN_FLIGHT_MAX = 64
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
    # Parts of one batch, back to back.
    batch: Sequence[Buffer]
    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks a batch for


class _Unanswered:
    """What went out over one connection and has no answer yet, oldest first."""

    def __init__(self) -> None:
        self.queue: deque[Sending] = deque()
        self._bytes = 0
        self._of_place: Counter[TopicPartition] = Counter()

    def is_full_for(self, sending: Sending) -> bool:
        """Whether an answer must come before this one may go."""
        return bool(self.queue) and (
            len(self.queue) >= _IN_FLIGHT_MAX
            or self._bytes + _size(sending) > _IN_FLIGHT_BYTES_MAX
            or self._of_place[sending.place] >= _IN_FLIGHT_PER_PLACE_MAX
        )

    def append(self, sending: Sending) -> None:
        """It goes out now."""
        self.queue.append(sending)
        self._bytes += _size(sending)
        self._of_place[sending.place] += 1

    def popleft(self) -> None:
        """The oldest is stored."""
        sending = self.queue.popleft()
        self._bytes -= _size(sending)
        self._of_place[sending.place] -= 1


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
        self._sent: dict[WireConnection, _Unanswered] = {}
        self.stored: list[Stored] = []

    def next_sequence(self, place: TopicPartition) -> int:
        """The sequence that the next batch for this partition must begin with."""
        return self._sequences.get(place, 0)

    def send(self, place: TopicPartition, batch: Sequence[Buffer], count: int) -> None:
        """Send a batch whose base sequence is `next_sequence`; waits when too many are on their way.

        Its parts lie back to back in it, and must not change until they are stored.
        """
        first = self.next_sequence(place)
        self._sequences[place] = (first + count) & 0x7FFFFFFF
        sending = Sending(place, batch, first, count)
        try:
            connection = self._connection(place)
            unanswered = self._sent.setdefault(connection, _Unanswered())
            while unanswered.is_full_for(sending):
                self._take_answer(connection)
            unanswered.append(sending)
            connection.send(PRODUCE, 9, self._request(sending))
        except (AnswerLost, OSError, BrokerRefused) as error:
            self._recover(error, sending)

    def flush(self) -> list[Stored]:
        """Wait until every batch is stored; returns them all."""
        while waiting := [connection for connection, unanswered in self._sent.items() if unanswered.queue]:
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
        unanswered = self._sent[connection]
        answer = connection.receive()
        # It is taken off the queue only when it is known to be stored: what is left is sent again.
        self._note(unanswered.queue[0], answer)
        unanswered.popleft()

    def _note(self, sending: Sending, answer: Any) -> None:
        row = answer.responses[0].partition_responses[0]
        if row.error_code not in {0, DUPLICATE_SEQUENCE_NUMBER}:
            raise BrokerRefused(f"writing to {sending.place}", row.error_code, row.error_message)
        self.stored.append(Stored(sending.place, row.base_offset, sending.count))

    def _recover(self, error: Exception, last: Sending | None) -> None:
        """Send all that has no answer again, one at a time and in order, over new connections."""
        _raise_if_final(error)
        unanswered = [one for each in self._sent.values() for one in each.queue]
        if last is not None and not any(one is last for one in unanswered):
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
        part = {"index": sending.place.partition, "records": sending.batch}
        return {
            "transactional_id": self.identity.transactional_id,
            "acks": -1,
            "timeout": _TIMEOUT_MS,
            "topic_data": [{"name": sending.place.topic, "partition_data": [part]}],
        }


def _size(sending: Sending) -> int:
    return sum(len(part) for part in sending.batch)


def _age(first: int, after: int) -> int:
    """Negative distance to the next sequence: the oldest batch comes first, even where numbers wrap."""
    return -((after - first) & 0x7FFFFFFF)


def _raise_if_final(error: Exception) -> None:
    # "Out of order" may pass: when one batch of several in flight is refused for a passing reason,
    # those behind it are refused for their order. Sent one at a time, they are not.
    if isinstance(error, BrokerRefused) and error.code not in RETRIABLE | {_OUT_OF_ORDER, _UNKNOWN_TOPIC}:
        raise error
