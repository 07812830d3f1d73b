"""A consumer of a queue: takes messages with receipts and settles each of them.

    async with client.queue("orders", group="billing") as queue:
        async for message in queue:
            await charge(message)
            await queue.ack(message)

A message that is not settled comes again when its visibility ends. While this consumer
holds one, it asks for more time in the background, so slow work is not done twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from goqueue.client.background import end_task
from goqueue.client.errors import ClientError, ConsumerClosed, Reject, RequestRefused
from goqueue.client.held_messages import HeldMessages
from goqueue.client.queue_source import QueueSource
from goqueue.client.settling import Settler
from goqueue.client.transport import Transport
from goqueue.client.types import QueueMessage, Settled, decode_queue_message

ACK, NACK, REJECT, EXTEND = "/messages/ack", "/messages/nack", "/messages/reject", "/messages/visibility"

Handler = Callable[[QueueMessage], Awaitable[object] | object]


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """How a queue is read. What is None is left to the group's policy."""

    client_id: str = "python"
    receive_max: int = 100
    wait_ms: int = 20_000
    visibility_ms: int | None = None
    # Ask for more time while a message is held, but not for longer than this in all.
    auto_extend: bool = True
    hold_ms_max: int = 3_600_000
    # Settlements are answered once they are on the disk.
    durable: bool = False
    # For members of a group: how its members share it, and whether a key's messages come one after the other.
    sharing: str | None = None
    key_ordered: bool | None = None


class QueueConsumer:
    """Takes messages from a queue: as a member of a group, or from one topic without joining."""

    def __init__(self, transport: Transport, source: QueueSource, options: QueueOptions) -> None:
        self._source = source
        self._options = options
        self._settler = Settler(transport, durable=options.durable)
        self._held = HeldMessages(hold_ms_max=options.hold_ms_max)
        self._buffer: deque[QueueMessage] = deque()
        # How long messages stay with us; known from the first one where the policy decides.
        self._visibility_ms = options.visibility_ms
        self._extender: asyncio.Task[None] | None = None
        self._closed = False

    # --- life ------------------------------------------------------------------------

    async def start(self) -> None:
        """Join, where there is something to join."""
        await self._source.start()
        if self._options.auto_extend:
            self._extender = asyncio.create_task(self._extend_now_and_then())

    async def close(self) -> None:
        """Settle what is under way, give back what was not handed out, and leave. A second close does no harm."""
        if self._closed:
            return
        self._closed = True
        await end_task(self._extender)
        with suppress(ClientError):
            await self._settler.flush()
            if self._buffer:
                await self._settler.send(EXTEND, list(self._buffer), extension_seconds=0)
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

    async def receive(self, *, limit: int | None = None, wait_ms: int | None = None) -> list[QueueMessage]:
        """Up to `limit` messages, waiting for the first; empty when none came in time."""
        wanted = self._options.receive_max if limit is None else limit
        if wanted < 1:
            raise ValueError(f"limit is {wanted}: ask for one message at least")
        if self._buffer:
            return [self._buffer.popleft() for _ in range(min(wanted, len(self._buffer)))]
        return await self._take(wanted, self._options.wait_ms if wait_ms is None else wait_ms)

    async def _iterate(self) -> AsyncIterator[QueueMessage]:
        while not self._closed:
            if not self._buffer:
                self._buffer.extend(await self._take(self._options.receive_max, self._options.wait_ms))
            if self._buffer:
                yield self._buffer.popleft()

    async def _take(self, limit: int, wait_ms: int) -> list[QueueMessage]:
        if self._closed:
            raise ConsumerClosed("the consumer is closed")
        reply = await self._source.take(limit, wait_ms, self._options.visibility_ms)
        group = self._source.group
        messages = [decode_queue_message(wire, group) for wire in reply]
        if messages and self._options.auto_extend:
            await self._hold(messages)
        return messages

    # --- settling --------------------------------------------------------------------

    async def ack(self, *messages: QueueMessage) -> list[Settled]:
        """These are done. Raises `SettleFailed`, after all were tried, if a receipt was no longer good."""
        return await self._settle(ACK, messages)

    async def nack(
        self, *messages: QueueMessage, delay_ms: int | None = None, reason: str | None = None
    ) -> list[Settled]:
        """These failed and are to come again: after `delay_ms`, or after the group's back-off."""
        return await self._settle(NACK, messages, delay=_duration(delay_ms), reason=reason)

    async def reject(self, *messages: QueueMessage, reason: str) -> list[Settled]:
        """These can never succeed: they go to the dead letters."""
        return await self._settle(REJECT, messages, reason=reason)

    async def extend(self, *messages: QueueMessage, visibility_ms: int) -> list[Settled]:
        """These need so much more time, from now on."""
        _check_messages(messages)
        results = await self._settler.send(EXTEND, messages, visibility=_duration(visibility_ms))
        now_ms = _now_ms()
        for message in messages:
            self._held.extended(message.receipt, visibility_ms, now_ms)
        return results

    async def release(self, *messages: QueueMessage) -> list[Settled]:
        """Give these back at once, for anyone to take; no failure is counted."""
        return await self._settle(EXTEND, messages, extension_seconds=0)

    def ack_soon(self, message: QueueMessage) -> asyncio.Future[Settled]:
        """Ack without waiting: it travels with others, and the future tells what became of it."""
        _check_messages((message,))
        self._held.settled(message.receipt)
        return self._settler.put(ACK, message.receipt)

    async def flush(self) -> None:
        """Wait until everything settled with `ack_soon` has its answer."""
        await self._settler.flush()

    async def _settle(self, path: str, messages: tuple[QueueMessage, ...], **fields: Any) -> list[Settled]:
        _check_messages(messages)
        given = {name: one for name, one in fields.items() if one is not None}
        for message in messages:
            self._held.settled(message.receipt)
        if len(messages) == 1:
            return [await self._settler.put(path, messages[0].receipt, **given)]
        return await self._settler.send(path, messages, **given)

    # --- handling --------------------------------------------------------------------

    async def run(self, handler: Handler, *, concurrency: int = 10) -> None:
        """Call `handler` for every message, `concurrency` at a time, until cancelled or closed.

        It returns: ack. It raises: nack, with the error as the reason. It raises `Reject`: dead letter.
        """
        busy = 0
        someone_done = asyncio.Event()

        async def work(message: QueueMessage) -> None:
            nonlocal busy
            try:
                # A receipt that has run out meanwhile: the message comes again, which is all there is to do.
                with suppress(RequestRefused):
                    await self._handle(handler, message)
            finally:
                busy -= 1
                someone_done.set()

        async with asyncio.TaskGroup() as tasks:
            while not self._closed:
                if busy >= concurrency:
                    someone_done.clear()
                    await someone_done.wait()
                    continue
                for message in await self.receive(limit=min(concurrency - busy, self._options.receive_max)):
                    busy += 1
                    tasks.create_task(work(message))

    async def _handle(self, handler: Handler, message: QueueMessage) -> None:
        try:
            outcome = handler(message)
            if isinstance(outcome, Awaitable):
                await outcome
        except Reject as problem:
            await self.reject(message, reason=str(problem) or "rejected")
        except asyncio.CancelledError:
            with suppress(ClientError):
                await self.release(message)
            raise
        except Exception as problem:  # noqa: BLE001 - whatever the handler raises is a failed delivery
            await self.nack(message, reason=f"{type(problem).__name__}: {problem}"[:1024])
        else:
            await self.ack(message)

    # --- time ------------------------------------------------------------------------

    async def _hold(self, messages: list[QueueMessage]) -> None:
        """Watch over these. Where the policy decides for how long they are ours, it is asked once."""
        if self._visibility_ms is None:
            self._visibility_ms = await self._source.visibility_ms(messages[0].topic)
        self._held.take(messages, self._visibility_ms, _now_ms())

    async def _extend_now_and_then(self) -> None:
        while True:
            visibility_ms = self._visibility_ms or 1_000
            await asyncio.sleep(visibility_ms / 5_000)
            due = self._held.due(_now_ms(), ahead_ms=visibility_ms // 2)
            if due:
                # What cannot be extended is lost to us, and comes again to somebody.
                with suppress(ClientError):
                    await self._extend_held(due, visibility_ms)

    async def _extend_held(self, due: Iterable[QueueMessage], visibility_ms: int) -> None:
        waits = [(one, self._settler.put(EXTEND, one.receipt, visibility=_duration(visibility_ms))) for one in due]
        for message, wait in waits:
            try:
                await wait
            except RequestRefused:
                self._held.settled(message.receipt)
            else:
                self._held.extended(message.receipt, visibility_ms, _now_ms())


def _check_messages(messages: Iterable[object]) -> None:
    for one in messages:
        if isinstance(one, QueueMessage):
            continue
        if isinstance(one, list | tuple):
            raise TypeError(f"a {type(one).__name__} of messages is no message: write queue.ack(*messages)")
        raise TypeError(f"{type(one).__name__} is no message: give what receive() returned, as in queue.ack(message)")


def _duration(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{milliseconds}ms"


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
