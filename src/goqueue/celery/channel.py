"""A Kombu channel: queues are topics, read by one queue group; exchanges are bindings in a topic.

Acks and rejects are the broker's own. A message that is given back is released, which does not count as a delivery.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty
from typing import TYPE_CHECKING, Any

from kombu.transport import base, virtual
from kombu.utils.json import loads

from goqueue.celery.bindings import Binding
from goqueue.celery.names import topic_of
from goqueue.celery.outgoing import publish_body
from goqueue.client.identity import default_client_id
from goqueue.prefork.http import BrokerError, quoted

if TYPE_CHECKING:
    from goqueue.celery.transport import Transport

_PREFETCH_MAX = 100
_PURGE_MAX = 1000
# While no message may be taken: how long until the worker looks again.
_FULL_S = 0.02


class QoS(virtual.QoS):
    """Settles with the broker. A delivery tag is the receipt of its message."""

    def ack(self, delivery_tag: str) -> None:
        """It is done."""
        if delivery_tag in self._delivered:
            self.channel.connection.leases.ack(delivery_tag)
        self._settled(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:  # noqa: FBT001, FBT002 - Kombu's
        """Back to the queue, or to the dead letters."""
        leases = self.channel.connection.leases
        if requeue:
            leases.requeue(delivery_tag)
        else:
            leases.reject(delivery_tag)
        self._settled(delivery_tag)

    def _settled(self, delivery_tag: str) -> None:
        was_full = not self.can_consume()
        self._quick_ack(delivery_tag)
        if was_full:
            # Without this a worker would run no more tasks per polling interval than it may prefetch.
            self.channel.connection.poll_soon()

    def restore_unacked(self) -> list[Any]:
        """Give back all that is unacknowledged."""
        self._flush()
        receipts = list(self._delivered)
        self._delivered.clear()
        if receipts:
            self.channel.connection.leases.release(receipts)
        return []


class Channel(virtual.Channel):
    """What Kombu asks of a channel, in requests to the broker."""

    QoS = QoS
    supports_fanout = True
    connection: Transport

    def __init__(self, connection: Transport, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._no_ack: set[str] = set()
        self._auto_delete: set[str] = set()
        self._expires_ms: dict[str, int] = {}
        self._renew_at_s: dict[str, float] = {}

    # --- queues --------------------------------------------------------------------------

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        arguments = kwargs.get("arguments") or {}
        if kwargs.get("auto_delete"):
            self._auto_delete.add(queue)
        if arguments.get("x-expires"):
            self._expires_ms[queue] = int(arguments["x-expires"])
        self.connection.make_topic(topic_of(queue))

    def prepare_queue_arguments(self, arguments: dict[str, Any] | None, **kwargs: Any) -> Any:
        """How a queue expires reaches `_new_queue` as an argument of RabbitMQ's."""
        return base.to_rabbitmq_queue_arguments(arguments or {}, **kwargs)

    def _has_queue(self, queue: str, **_: Any) -> bool:
        return self._call_or_none("GET", f"/topics/{quoted(topic_of(queue))}") is not None

    def _size(self, queue: str) -> int:
        topic = topic_of(queue)
        offsets = self._call_or_none("GET", f"/groups/{quoted(self.connection.group)}/offsets") or {"topics": {}}
        if topic in offsets["topics"]:
            return sum(int(one["lag"]) for one in offsets["topics"][topic].values())
        found = self._call_or_none("GET", f"/topics/{quoted(topic)}")
        return 0 if found is None else int(found["total_messages"])

    def _purge(self, queue: str) -> int:
        count = 0
        while messages := self._receive(queue, _PURGE_MAX, 0):
            receipts = [one["receipt_handle"] for one in messages]
            self.connection.http.call("POST", "/messages/ack", {"receipts": receipts})
            count += len(receipts)
        return count

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **_: Any) -> None:  # noqa: ARG002, FBT001, FBT002 - Kombu's
        """Delete a queue, its bindings and its dead letters."""
        if if_empty and self._size(queue):
            return
        for exchange, binding in self.connection.bindings.of_queue(queue):
            self.connection.bindings.remove(exchange, binding)
        self.state.queue_bindings_delete(queue)
        self.connection.delete_topic(topic_of(queue))
        self._auto_delete.discard(queue)
        self._expires_ms.pop(queue, None)

    # --- exchanges -----------------------------------------------------------------------

    def get_table(self, exchange: str) -> list[Binding]:
        """The bindings of an exchange, whichever process made them."""
        return self.connection.bindings.table(exchange)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        binding = (routing_key or "", pattern or "", queue)
        self.connection.bindings.add(exchange, binding, self._expires_ms.get(queue))

    def queue_unbind(
        self, queue: str, exchange: str | None = None, routing_key: str = "", arguments: Any = None, **_: Any
    ) -> None:
        """Remove one binding."""
        self.state.binding_delete(queue, exchange, routing_key)
        key, pattern, _queue = self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments)
        self.connection.bindings.remove(exchange or "", (key or "", pattern or "", queue))

    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **kwargs: Any) -> None:  # noqa: ARG002
        for queue in {queue for _, _, queue in self.get_table(exchange)}:
            # A reader that is gone must not get its queue back by a message to all.
            self._put(queue, message, create=False)

    def _renew_bindings(self) -> None:
        now_s = time.monotonic()
        for queue in self._active_queues:
            expires_ms = self._expires_ms.get(queue)
            if expires_ms is None or self._renew_at_s.get(queue, 0.0) > now_s:
                continue
            self._renew_at_s[queue] = now_s + expires_ms / 2000
            for exchange, binding in self.connection.bindings.of_queue(queue):
                self.connection.bindings.add(exchange, binding, expires_ms)

    # --- messages ------------------------------------------------------------------------

    def _put(self, queue: str, message: dict[str, Any], *, create: bool = True, **_: Any) -> None:
        topic = topic_of(queue)
        body = publish_body(message)
        try:
            self.connection.http.call("POST", f"/topics/{quoted(topic)}/messages", body)
        except BrokerError as refused:
            if refused.status != 404:
                raise
            if create:
                self.connection.make_topic(topic)
                self.connection.http.call("POST", f"/topics/{quoted(topic)}/messages", body)

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        messages = self._receive(queue, 1, timeout or 0)
        if not messages:
            raise Empty
        return self._payload(queue, messages[0])

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - Kombu's
        """One message, if there is one."""
        message = super().basic_get(queue, no_ack=no_ack, **kwargs)
        if message is not None and no_ack:
            self.connection.leases.ack(message.delivery_tag)
        return message

    def basic_consume(self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **kwargs: Any) -> None:  # noqa: FBT001 - Kombu's
        """Begin to read a queue."""
        if no_ack:
            self._no_ack.add(queue)
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)

    def basic_cancel(self, consumer_tag: str) -> None:
        """Read a queue no longer; one that is to go with its reader goes."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue in self._auto_delete and queue not in self._active_queues:
            self.queue_delete(queue)

    def drain_events(self, timeout: float | None = None, callback: Callable[..., None] | None = None) -> None:
        """Deliver what has come to the queues of this channel; raises `Empty` if that is nothing."""
        self._renew_bindings()
        deliver = callback or self.connection._deliver  # noqa: SLF001 - as the base class does
        wait_s = self.connection.wait_s(timeout)
        count = 0
        for queue in list(self._active_queues):
            limit = self.qos.can_consume_max_estimate()
            if limit == 0 and queue not in self._no_ack:
                time.sleep(min(_FULL_S, wait_s))
                continue
            messages = self._receive(queue, min(limit or _PREFETCH_MAX, _PREFETCH_MAX), 0 if count else wait_s)
            if messages and queue not in self._no_ack:
                # A revocation that was sent before a task must be known before the task runs.
                self.connection.deliver_broadcasts()
            for message in messages:
                self._deliver(queue, message, deliver)
            count += len(messages)
        if count == 0:
            raise Empty

    def deliver_broadcasts(self) -> None:
        """Deliver what has come to the queues that are read without acknowledgement, such as a worker's mailbox."""
        for queue in [one for one in self._active_queues if one in self._no_ack]:
            for message in self._receive(queue, _PREFETCH_MAX, 0):
                self._deliver(queue, message, self.connection._deliver)  # noqa: SLF001 - as the base class does

    def _deliver(self, queue: str, message: dict[str, Any], deliver: Callable[..., None]) -> None:
        payload = self._payload(queue, message)
        if queue in self._no_ack:
            self.connection.leases.ack(message["receipt_handle"])
        deliver(payload, queue)

    def _receive(self, queue: str, limit: int, wait_s: float) -> list[dict[str, Any]]:
        body = {
            "group": self.connection.group,
            "client_id": default_client_id(),
            "limit": limit,
            "wait": f"{int(wait_s * 1000)}ms",
            "visibility": f"{int(self.connection.leases.visibility_s * 1000)}ms",
        }
        path = f"/topics/{quoted(topic_of(queue))}/receive"
        try:
            messages: list[dict[str, Any]] = self.connection.http.call("POST", path, body, wait_s=wait_s)["messages"]
        except BrokerError as refused:
            if refused.status != 404:
                raise
            return []
        self.connection.leases.hold(one["receipt_handle"] for one in messages)
        return messages

    def _payload(self, queue: str, message: dict[str, Any]) -> dict[str, Any]:
        payload: dict[str, Any] = loads(message["value"])
        properties = payload.setdefault("properties", {})
        properties["delivery_tag"] = message["receipt_handle"]
        info = properties.setdefault("delivery_info", {})
        info["queue"] = queue
        info["redelivered"] = message["delivery_count"] > 1
        return payload

    def _call_or_none(self, method: str, path: str) -> Any:
        try:
            return self.connection.http.call(method, path)
        except BrokerError as refused:
            if refused.status != 404:
                raise
            return None
