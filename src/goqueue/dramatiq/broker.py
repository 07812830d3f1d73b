"""The broker: queues are topics, read by one queue group.

A delay is the broker's: there are no `.DQ` queues, and no worker holds a message whose time has not come. `nack`, which
Dramatiq says after the last retry, means dead letter.
"""

from __future__ import annotations

import http.client
import time
from collections import deque
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import dramatiq
from dramatiq.errors import ConnectionClosed, QueueJoinTimeout, QueueNotFound

from goqueue.client.credentials import Credentials
from goqueue.client.identity import default_client_id
from goqueue.dramatiq.lanes import lane_of
from goqueue.prefork.http import BrokerError, Http, quoted
from goqueue.prefork.leases import Leases

_PURGE_MAX = 1000
_JOIN_POLL_S = 0.1
_FULL_S = 0.02


class GoQueueBroker(dramatiq.Broker):
    """Dramatiq on GoQueue.

        dramatiq.set_broker(GoQueueBroker("http://127.0.0.1:8080"))

    `visibility_timeout` is how many seconds after the death of a worker its messages are redelivered. A broker with
    security takes `api_key`, or `user` and `password`; with an address `https://`, `ca` is the file with the authority
    of its certificate. What is left out is taken from GOQUEUE_API_KEY, GOQUEUE_CA and the others.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        group: str = "dramatiq",
        visibility_timeout: float = 60,
        partitions: int | None = None,
        api_key: str | None = None,
        user: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        middleware: list[Any] | None = None,
    ) -> None:
        super().__init__(middleware=middleware)
        parts = urlsplit(url)
        self.group = group
        self.visibility_s = visibility_timeout
        self.http = Http(
            parts.hostname or "127.0.0.1",
            parts.port or 8080,
            Credentials(api_key, user, password, ca, certificate),
            is_tls=parts.scheme == "https",
        )
        self.queues: dict[str, None] = {}
        self._partitions = partitions

    def declare_queue(self, queue_name: str) -> None:
        """Make a queue known; its topic is created when the first message or consumer needs it."""
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues[queue_name] = None
            self.emit_after("declare_queue", queue_name)

    def enqueue(self, message: Any, *, delay: int | None = None) -> Any:
        """Store a message; with a delay (in milliseconds) it is held back by the broker."""
        if message.queue_name not in self.queues:
            raise QueueNotFound(message.queue_name)
        self.emit_before("enqueue", message, delay)
        body = {"value": message.encode().decode(), "priority": self._lane(message)}
        if delay is not None:
            body["delay"] = f"{max(0, int(delay))}ms"
        try:
            self._publish(message.queue_name, body)
        except (OSError, http.client.HTTPException) as problem:
            raise ConnectionClosed(problem) from problem
        self.emit_after("enqueue", message, delay)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> GoQueueConsumer:
        """Read a queue; `timeout` is how many milliseconds to wait for a message."""
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        self.make_topic(queue_name)
        return GoQueueConsumer(self, queue_name, prefetch, timeout)

    def flush(self, queue_name: str) -> None:
        """Drop the messages of a queue that nobody works on."""
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        while receipts := [one["receipt_handle"] for one in self.receive(queue_name, _PURGE_MAX, 0)]:
            self.http.call("POST", "/messages/ack", {"receipts": receipts})

    def flush_all(self) -> None:
        """Drop the messages of all declared queues."""
        for queue_name in self.queues:
            self.flush(queue_name)

    def join(self, queue_name: str, *, timeout: int | None = None) -> None:
        """Wait until nothing of a queue is left, delayed messages included. For tests."""
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)
        deadline_s = None if timeout is None else time.monotonic() + timeout / 1000
        while self.unfinished(queue_name):
            if deadline_s is not None and time.monotonic() >= deadline_s:
                raise QueueJoinTimeout(queue_name)
            time.sleep(_JOIN_POLL_S)

    def close(self) -> None:
        """Close connections."""
        self.http.close()

    def unfinished(self, queue_name: str) -> int:
        """How many messages wait, are worked on or are held back."""
        delayed = self._get_or(f"/topics/{quoted(queue_name)}/delayed", {"messages": []})["messages"]
        found = self._get_or(f"/groups/{quoted(self.group)}/offsets", {"topics": {}})["topics"].get(queue_name)
        if found is None:
            return len(delayed) + int(
                self._get_or(f"/topics/{quoted(queue_name)}", {"total_messages": 0})["total_messages"]
            )
        return len(delayed) + sum(int(one["lag"]) for one in found.values())

    def receive(self, queue_name: str, limit: int, wait_ms: int) -> list[dict[str, Any]]:
        """Messages that are ours until their visibility ends."""
        body = {
            "group": self.group,
            "client_id": default_client_id(),
            "limit": limit,
            "wait": f"{wait_ms}ms",
            "visibility": f"{int(self.visibility_s * 1000)}ms",
        }
        path = f"/topics/{quoted(queue_name)}/receive"
        try:
            messages: list[dict[str, Any]] = self.http.call("POST", path, body, wait_s=wait_ms / 1000)["messages"]
        except BrokerError as refused:
            if refused.status != 404:
                raise
            return []
        return messages

    def make_topic(self, queue_name: str) -> None:
        """Create a queue's topic unless it exists."""
        body: dict[str, Any] = {"name": queue_name}
        if self._partitions is not None:
            body["num_partitions"] = self._partitions
        try:
            self.http.call("POST", "/topics", body)
        except BrokerError as refused:
            if refused.code != "topic_exists":
                raise

    def _publish(self, queue_name: str, body: dict[str, Any]) -> None:
        path = f"/topics/{quoted(queue_name)}/messages"
        try:
            self.http.call("POST", path, body)
        except BrokerError as refused:
            if refused.status != 404:
                raise
            self.make_topic(queue_name)
            self.http.call("POST", path, body)

    def _lane(self, message: Any) -> str:
        actor = self.actors.get(message.actor_name)
        return lane_of(getattr(actor, "priority", 0), message.options.get("broker_priority"))

    def _get_or(self, path: str, otherwise: Any) -> Any:
        try:
            return self.http.call("GET", path)
        except BrokerError as refused:
            if refused.status != 404:
                raise
            return otherwise


class GoQueueConsumer(dramatiq.Consumer):
    """Reads one queue in one thread of a worker."""

    def __init__(self, broker: GoQueueBroker, queue_name: str, prefetch: int, timeout_ms: int) -> None:
        self._broker = broker
        self._queue_name = queue_name
        self._prefetch = prefetch
        self._timeout_ms = timeout_ms
        self._leases = Leases(broker.http, broker.visibility_s)
        self._buffer: deque[dict[str, Any]] = deque()
        self._out: set[str] = set()

    def __next__(self) -> _Message | None:
        """The next message; None if none came in time."""
        if not self._buffer:
            room = self._prefetch - len(self._out)
            if room <= 0:
                time.sleep(_FULL_S)
                return None
            try:
                messages = self._broker.receive(self._queue_name, room, self._timeout_ms)
            except (OSError, http.client.HTTPException) as problem:
                raise ConnectionClosed(problem) from problem
            self._leases.hold(one["receipt_handle"] for one in messages)
            self._buffer.extend(messages)
        if not self._buffer:
            return None
        taken = self._buffer.popleft()
        self._out.add(taken["receipt_handle"])
        return _Message(dramatiq.Message.decode(taken["value"].encode()), taken["receipt_handle"])

    def ack(self, message: _Message) -> None:
        """It is done."""
        self._settled(message)
        self._leases.ack(message.receipt)

    def nack(self, message: _Message) -> None:
        """It failed for the last time: a dead letter."""
        self._settled(message)
        self._leases.reject(message.receipt)

    def requeue(self, messages: Iterable[_Message]) -> None:
        """Give these back at once; that does not count as a delivery."""
        receipts = [one.receipt for one in messages]
        self._out.difference_update(receipts)
        if receipts:
            self._leases.release(receipts)

    def close(self) -> None:
        """Give back what nobody has begun."""
        receipts = [one["receipt_handle"] for one in self._buffer]
        self._buffer.clear()
        if receipts:
            self._leases.release(receipts)
        self._leases.close()

    def _settled(self, message: _Message) -> None:
        self._out.discard(message.receipt)


class _Message(dramatiq.MessageProxy):
    """A message with its receipt."""

    def __init__(self, message: Any, receipt: str) -> None:
        super().__init__(message)
        self.receipt = receipt
