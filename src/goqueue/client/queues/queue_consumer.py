"""A consumer of a queue: takes messages with receipts and settles each of them.

    async with client.queue("orders", group="billing") as queue:
        async for message in queue:
            await charge(message)
            await queue.ack(message)

A message that is not settled is redelivered when its visibility ends. While this consumer
holds one, it asks for more time in the background, so slow work is not done twice. It goes on when
the broker is restarted, for as long as it runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from goqueue.client.background import end_task
from goqueue.client.durations import Duration, ms_of, or_ms, seconds_of, text_of
from goqueue.client.errors import ClientError, ConsumerClosed, InvalidArgument, RequestRefused
from goqueue.client.options import QueueOptions
from goqueue.client.queues.held_messages import HeldMessages
from goqueue.client.queues.pools import Handler
from goqueue.client.queues.queue_source import QueueSource
from goqueue.client.queues.runner import RunFields, Runner
from goqueue.client.queues.settling import Settler, one_name
from goqueue.client.queues.wire import QueueWire
from goqueue.client.reconnect import PASSING, Reconnect
from goqueue.client.retry import MAY_PASS, NOTHING_WAS_DONE
from goqueue.client.trace_context import Following
from goqueue.client.transport import Transport
from goqueue.client.types import QueueMessage, Settled

ACK, NACK, REJECT, EXTEND = "/messages/ack", "/messages/nack", "/messages/reject", "/messages/visibility"

_log = logging.getLogger("goqueue.client")


class QueueConsumer:
    """Takes messages from a queue: as a member of a group, or from one topic without joining."""

    def __init__(self, transport: Transport, wire: QueueWire, source: QueueSource, options: QueueOptions) -> None:
        self._source = source
        self._options = options
        self._transport = transport
        self._held = HeldMessages(hold_ms_max=ms_of(options.hold_max, "hold_max"))
        self._wait_ms = ms_of(options.wait, "wait")
        self._visibility_asked_ms = None if options.visibility is None else ms_of(options.visibility, "visibility")
        limit_s = None if options.reconnect_max is None else seconds_of(options.reconnect_max, "reconnect_max")
        self._reconnect = Reconnect(str(source), limit_s)
        self._settler = Settler(wire, durable=options.durable, what=str(source), outage=self._reconnect.outage)
        self._runners: set[Runner] = set()
        self._buffer: deque[QueueMessage] = deque()
        # How long messages stay with us; known from the first one where the policy decides.
        self._visibility_ms = self._visibility_asked_ms
        self._extender: asyncio.Task[None] | None = None
        self._closed = False

    # --- life ------------------------------------------------------------------------

    async def start(self) -> None:
        """Join, where there is something to join."""
        await self._source.start()
        if self._options.auto_extend:
            self._extender = asyncio.create_task(self._extend_now_and_then())

    async def close(self) -> None:
        """Settle what is in flight, release what was not handed out, and leave. A second close does no harm.

        queue = client.queue("orders", group="workers")
        await queue.start()
        await queue.close()
        """
        if self._closed:
            return
        self._closed = True
        self.stop()
        await end_task(self._extender)
        self._settler.close()
        try:
            await self._settler.flush()
            if self._buffer:
                await self._settler.send(EXTEND, list(self._buffer), extension_seconds=0)
        except ClientError as problem:
            _log.warning("%s could not give back %d messages: %s", self._source, len(self._buffer), problem)
        self._buffer.clear()
        await self._source.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- taking ----------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[QueueMessage]:
        return self._iterate()

    async def receive(
        self, *, limit: int | None = None, wait: Duration | None = None, wait_ms: int | None = None
    ) -> list[QueueMessage]:
        """Up to `limit` messages, waiting for the first; empty when none came in time.

        for message in await queue.receive(limit=10, wait="5s"):
            await queue.ack(message)
        """
        wait = or_ms(wait, wait_ms, "wait", "wait_ms")
        wanted = self._options.receive_max if limit is None else limit
        if wanted < 1:
            raise InvalidArgument(f"limit={wanted} is too small", "ask for one message at least")
        if self._buffer:
            return [self._buffer.popleft() for _ in range(min(wanted, len(self._buffer)))]
        return await self._take(wanted, self._wait_ms if wait is None else ms_of(wait, "wait"))

    async def _iterate(self) -> AsyncIterator[QueueMessage]:
        following = Following()
        while not self._closed:
            if not self._buffer:
                self._buffer.extend(await self._take(self._options.receive_max, self._wait_ms))
            if self._buffer:
                message = self._buffer.popleft()
                following.enter(message)
                yield message
                following.leave()

    async def _take(self, limit: int, wait_ms: int) -> list[QueueMessage]:
        self._check_open()
        try:
            messages = await self._source.take(limit, wait_ms, self._visibility_asked_ms)
        except PASSING as problem:
            await self._reconnect.lost(problem)
            return []
        self._reconnect.works()
        if messages and self._options.auto_extend:
            await self._hold(messages)
        return messages

    # --- settling --------------------------------------------------------------------

    async def ack(self, *messages: QueueMessage) -> list[Settled]:
        """Acknowledge messages: the group never gets them again. Raises `SettleFailed` if a receipt had expired.

        for message in await queue.receive(limit=10):
            handle(message)
            await queue.ack(message)
        """
        return await self._settle(ACK, messages)

    async def nack(
        self,
        *messages: QueueMessage,
        delay: Duration | None = None,
        error: str | None = None,
        reason: str | None = None,
        delay_ms: int | None = None,
    ) -> list[Settled]:
        """These failed and are to be redelivered: after `delay`, or after the group's back-off.

        `error` says what went wrong; `reason` is another name for it.

        await queue.nack(message, delay="30s", error="the printer is out of paper")
        """
        delay = or_ms(delay, delay_ms, "delay", "delay_ms")
        return await self._settle(
            NACK, messages, delay=None if delay is None else text_of(delay, "delay"), error=one_name(error, reason)
        )

    async def reject(
        self, *messages: QueueMessage, error: str | None = None, reason: str | None = None
    ) -> list[Settled]:
        """Send messages that can never succeed to the dead letters, which show `error`.

        await queue.reject(message, error="unknown currency")
        """
        if error is None and reason is None:
            raise InvalidArgument("reject needs an error", "say what is wrong: error='no such customer'")
        return await self._settle(REJECT, messages, error=one_name(error, reason))

    async def extend(
        self, *messages: QueueMessage, visibility: Duration | None = None, visibility_ms: int | None = None
    ) -> list[Settled]:
        """Keep messages in flight for longer, counted from now.

        await queue.extend(message, visibility="10m")
        """
        _check_messages(messages)
        self._check_open()
        visibility = or_ms(visibility, visibility_ms, "visibility", "visibility_ms")
        if visibility is None:
            raise TypeError("visibility is missing: say how much more time the messages need, such as '30s'")
        more_ms = ms_of(visibility, "visibility")
        results = await self._settler.send(EXTEND, messages, visibility=f"{more_ms}ms")
        now_ms = _now_ms()
        for message in messages:
            self._held.extended(message.receipt, more_ms, now_ms)
        return results

    async def release(self, *messages: QueueMessage) -> list[Settled]:
        """Give messages back at once, for any consumer; this does not count as a delivery.

        await queue.release(message)
        """
        return await self._settle(EXTEND, messages, extension_seconds=0)

    def ack_soon(self, message: QueueMessage) -> asyncio.Future[Settled]:
        """Ack without waiting: acks are sent in batches, and the future has the outcome.

        queue.ack_soon(message)
        await queue.flush()
        """
        _check_messages((message,))
        self._check_open()
        return self._settler.put(ACK, message.receipt, until_s=self._lease_ends_s(message))

    async def flush(self) -> None:
        """Wait until everything settled with `ack_soon` has its answer.

        queue.ack_soon(message)
        await queue.flush()
        """
        await self._settler.flush()

    async def _settle(self, path: str, messages: tuple[QueueMessage, ...], **fields: Any) -> list[Settled]:
        _check_messages(messages)
        self._check_open()
        given = {name: one for name, one in fields.items() if one is not None}
        return await self._settler.send(path, messages, until_s=self._leases_end_s(messages), **given)

    def _check_open(self) -> None:
        if self._closed:
            raise ConsumerClosed("the consumer is closed: open another one with client.queue()")
        self._transport.check_open()

    def _lease_ends_s(self, message: QueueMessage) -> float:
        """Until when a settlement of this message makes sense, by the loop's clock; it is held no longer."""
        deadline_ms = self._held.settled(message.receipt)
        if deadline_ms is not None:
            return deadline_ms / 1000
        # Not held by us: all that is known is the broker's clock.
        return asyncio.get_running_loop().time() + max(0.0, message.visible_until_ms / 1000 - time.time())

    def _leases_end_s(self, messages: tuple[QueueMessage, ...]) -> float:
        """The same for many messages: when the first of their leases ends."""
        if self._held or not messages:
            return min((self._lease_ends_s(one) for one in messages), default=0.0)
        first_ms = min([one.visible_until_ms for one in messages])
        return asyncio.get_running_loop().time() + max(0.0, first_ms / 1000 - time.time())

    # --- handling --------------------------------------------------------------------

    async def run(self, handler: Handler, **how: Unpack[RunFields]) -> None:
        """Call `handler` for every message, `concurrency` at a time, until stopped, cancelled or closed.

            await queue.run(handle, concurrency=8, time_limit="30s")

        It returns: ack. It raises: nack, with the exception as the error. It raises `Retry`: nack, after a delay of its
        own. It raises `Reject`: dead letter. An `async def` runs on the loop, a `def` in a thread; `RunFields` has
        the other keywords. Leases are extended while a handler works.
        """
        self._check_open()
        runner = Runner(self, handler, **how)
        self._runners.add(runner)
        try:
            await runner.run()
        finally:
            self._runners.discard(runner)

    def stop(self) -> None:
        """Let every `run` of this queue finish what it has in hand, within its grace time, and return.

        working = asyncio.create_task(queue.run(handle))
        queue.stop()
        await working
        """
        for runner in self._runners:
            runner.stop()

    @property
    def closed(self) -> bool:
        """Whether the consumer has been closed."""
        return self._closed

    def __str__(self) -> str:
        return str(self._source)

    # --- time ------------------------------------------------------------------------

    async def _hold(self, messages: list[QueueMessage]) -> None:
        """Watch over these. Where the policy decides for how long they are ours, it is asked once."""
        if self._visibility_ms is None:
            try:
                self._visibility_ms = await self._source.visibility_ms(messages[0].topic)
            except ClientError as problem:
                # The messages are ours all the same: their own deadline, by the broker's clock, is known.
                left_ms = max(1_000, messages[0].visible_until_ms - int(time.time() * 1000))
                _log.warning(
                    "%s could not read the group's policy and uses the deadlines of its messages: %s",
                    self._source,
                    problem,
                )
                self._held.take(messages, left_ms, _now_ms())
                return
        self._held.take(messages, self._visibility_ms, _now_ms())

    async def _extend_now_and_then(self) -> None:
        while True:
            visibility_ms = self._visibility_ms or 1_000
            await asyncio.sleep(visibility_ms / 5_000)
            now_ms = _now_ms()
            for lost in self._held.lost(now_ms):
                _log.warning("%s lost the lease of %s, which is redelivered", self._source, _place(lost))
            due = self._held.due(now_ms, ahead_ms=visibility_ms // 2)
            if due:
                await self._extend_held(due, visibility_ms)

    async def _extend_held(self, due: Iterable[QueueMessage], visibility_ms: int) -> None:
        # Nothing is kept for later here: the next round asks again while there is time.
        waits = [(one, self._settler.put(EXTEND, one.receipt, visibility=f"{visibility_ms}ms")) for one in due]
        for message, wait in waits:
            try:
                await wait
            except PASSING:
                continue
            except RequestRefused as refused:
                # Another node is about to lead the partition, and has the lease.
                if refused.status in MAY_PASS | NOTHING_WAS_DONE:
                    continue
                if self._held.settled(message.receipt) is not None:
                    _log.warning("%s lost the lease of %s: %s", self._source, _place(message), refused)
            except ClientError as problem:
                _log.warning("%s could not extend the lease of %s: %s", self._source, _place(message), problem)
            else:
                self._held.extended(message.receipt, visibility_ms, _now_ms())


def _place(message: QueueMessage) -> str:
    return f"{message.topic}/{message.partition}@{message.offset}"


def _check_messages(messages: Iterable[object]) -> None:
    for one in messages:
        if isinstance(one, QueueMessage):
            continue
        if isinstance(one, list | tuple):
            raise TypeError(f"a {type(one).__name__} of messages is not a message: write queue.ack(*messages)")
        raise TypeError(
            f"{type(one).__name__} is not a message: give what receive() returned, as in queue.ack(message)"
        )


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
