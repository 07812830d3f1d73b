"""Consumers of streams and of queues without `await`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from goqueue.client.blocking.loop import BackgroundLoop, Closable
from goqueue.client.consuming.consumer import Consumer as AsyncConsumer
from goqueue.client.durations import Duration
from goqueue.client.queues.pools import Handler
from goqueue.client.queues.queue_consumer import QueueConsumer as AsyncQueueConsumer
from goqueue.client.queues.runner import RunFields
from goqueue.client.types import Message, QueueMessage, Settled
from goqueue.records import TopicPartition


class Consumer(Closable):
    """Reads topics as a member of a group; iterate over it, or call `poll`."""

    def __init__(self, loop: BackgroundLoop, consumer: AsyncConsumer) -> None:
        self._loop = loop
        self._consumer = consumer

    @property
    def asynchronous(self) -> AsyncConsumer:
        """The consumer that does the work, in the loop of the background thread."""
        return self._consumer

    def poll(
        self, *, limit: int | None = None, timeout: Duration | None = None, timeout_ms: int | None = None
    ) -> list[Message]:
        """Up to `limit` messages; empty when none came in time.

        for message in consumer.poll(limit=10, timeout="500ms"):
            print(message.text)
        """
        return self._loop.run(self._consumer.poll(limit=limit, timeout=timeout, timeout_ms=timeout_ms))

    def __iter__(self) -> Iterator[Message]:
        while not self._consumer.closed:
            yield from self.poll(limit=1)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop fetching these partitions until `resume`; what is buffered is still returned.

        consumer.pause(TopicPartition("orders", 0))
        """
        self._consumer.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch these partitions again.

        consumer.resume(TopicPartition("orders", 0))
        """
        self._consumer.resume(*partitions)

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Store how far the group is: all that was returned so far, or the offsets given (of the next message to read).

        for message in consumer.poll():
            handle(message)
        consumer.commit()
        """
        self._loop.run(self._consumer.commit(offsets))

    def seek(self, at: TopicPartition, offset: int) -> None:
        """Read this partition from `offset` next.

        consumer.seek(TopicPartition("orders", 0), 42)
        """
        self._consumer.seek(at, offset)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are ours now."""
        return self._consumer.assignment

    def lag(self) -> dict[TopicPartition, int]:
        """Messages between the group's committed offsets and the end, for the partitions of this consumer.

        print(sum(consumer.lag().values()))
        """
        return self._loop.run(self._consumer.lag())

    def close(self) -> None:
        """Commit if that is automatic, and leave the group.

        consumer = client.consumer("billing", ["orders"])
        consumer.close()
        """
        if not self._consumer.closed:
            self._loop.run(self._consumer.close())


class QueueConsumer(Closable):
    """Takes messages from a queue and settles each; iterate over it, or call `receive`."""

    def __init__(self, loop: BackgroundLoop, queue: AsyncQueueConsumer) -> None:
        self._loop = loop
        self._queue = queue

    def receive(
        self, *, limit: int | None = None, wait: Duration | None = None, wait_ms: int | None = None
    ) -> list[QueueMessage]:
        """Up to `limit` messages, waiting for the first; empty when none came in time.

        for message in queue.receive(limit=10, wait="5s"):
            queue.ack(message)
        """
        return self._loop.run(self._queue.receive(limit=limit, wait=wait, wait_ms=wait_ms))

    def __iter__(self) -> Iterator[QueueMessage]:
        while not self._queue.closed:
            yield from self.receive(limit=1)

    def ack(self, *messages: QueueMessage) -> list[Settled]:
        """Acknowledge messages: the group never gets them again. Raises `SettleFailed` if a receipt had expired.

        for message in queue.receive(limit=10):
            handle(message)
            queue.ack(message)
        """
        return self._loop.run(self._queue.ack(*messages))

    def nack(
        self,
        *messages: QueueMessage,
        delay: Duration | None = None,
        error: str | None = None,
        reason: str | None = None,
        delay_ms: int | None = None,
    ) -> list[Settled]:
        """Have messages redelivered, after `delay` or after the back-off of the group; a dead letter shows `error`.

        queue.nack(message, error="the printer is on fire", delay="10s")
        """
        return self._loop.run(self._queue.nack(*messages, delay=delay, error=error, reason=reason, delay_ms=delay_ms))

    def reject(self, *messages: QueueMessage, error: str | None = None, reason: str | None = None) -> list[Settled]:
        """Send messages that can never succeed to the dead letters, which show `error`.

        queue.reject(message, error="unknown currency")
        """
        return self._loop.run(self._queue.reject(*messages, error=error, reason=reason))

    def extend(
        self, *messages: QueueMessage, visibility: Duration | None = None, visibility_ms: int | None = None
    ) -> list[Settled]:
        """Keep messages in flight for longer, counted from now.

        queue.extend(message, visibility="5m")
        """
        return self._loop.run(self._queue.extend(*messages, visibility=visibility, visibility_ms=visibility_ms))

    def release(self, *messages: QueueMessage) -> list[Settled]:
        """Give messages back at once, for any consumer; this does not count as a delivery.

        queue.release(message)
        """
        return self._loop.run(self._queue.release(*messages))

    def run(self, handler: Handler, **how: Unpack[RunFields]) -> None:
        """Call `handler` for every message, `concurrency` at a time, until stopped or closed. Blocks.

            queue.run(resize, concurrency=8, pool="processes", time_limit="30s")

        It returns: ack. It raises: nack, with the exception as the error. It raises `Retry`: nack, after a delay of its
        own. It raises `Reject`: dead letter. A `def` runs in threads (or processes), an `async def` on the client's
        loop. In the main thread SIGTERM and Ctrl-C mean stop: what is in hand is finished within `grace`, the rest
        is given back at once; the second one does not wait.
        """
        signals = how.pop("signals", True)
        runs = self._loop.submit(self._queue.run(handler, **how))
        if not signals or threading.current_thread() is not threading.main_thread():
            runs.result()
            return
        heard = 0

        def on_signal(_number: int, _frame: Any) -> None:
            nonlocal heard
            heard += 1
            if heard == 1:
                self.stop()
            else:
                runs.cancel()

        before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            runs.result()
        finally:
            for number, handler_before in before.items():
                signal.signal(number, handler_before)

    def stop(self) -> None:
        """Let every `run` of this queue finish what it has in hand, within its grace time, and return.

        Safe to call from any thread and from a signal handler.

        queue.run(handle, hooks=Hooks(failure=lambda message, problem: queue.stop()))
        """
        self._loop.call_soon(self._queue.stop)

    def close(self) -> None:
        """Settle what is in flight, release what was not handed out, and leave.

        queue = client.queue("orders", group="workers")
        queue.close()
        """
        if not self._queue.closed:
            self._loop.run(self._queue.close())
