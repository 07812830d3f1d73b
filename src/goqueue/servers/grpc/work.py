"""QueueService.Work: messages one way, credit and settlements the other, over one stream.

The client grants credit, and no more messages than that are under way. What is not settled when the stream ends goes
back to the queue at once, whether the client closed the stream, cancelled it, or vanished.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from contextlib import suppress
from typing import Any

import grpc

from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.errors import GoQueueError, InvalidRequest, PartitionNotFound, TopicNotFound
from goqueue.protos import queue_pb2
from goqueue.servers.grpc.methods import read
from goqueue.servers.grpc.sending import Sending
from goqueue.servers.grpc.settling import check_count, give_back, receive_of, settled_receipt, settlement_of
from goqueue.servers.grpc.values import queued_message
from goqueue.servers.services import Services

_log = logging.getLogger("goqueue.grpc")
_numbers = itertools.count(1)
# A receive is looked at again this often while it waits: credit may have grown, partitions may have been added.
_SLICE_MS = 10_000
_BATCH_BYTES = 1024 * 1024
_CREDIT_MAX = 100_000
# These end what a message is held for.
_KEEPING = frozenset({Action.EXTEND})


async def work(services: Services, context: Any) -> None:
    """Serve one stream."""
    first = await read(context)
    if first is grpc.aio.EOF:
        return
    if first.WhichOneof("action") != "start":
        raise InvalidRequest("the first request of the stream is not a start", field="start")
    stream = _WorkStream(services, context, first.start)
    delivering = asyncio.create_task(stream.deliver())
    reading = asyncio.create_task(stream.read())
    try:
        # Whichever ends first ends the stream: the client closed it, or messages cannot be delivered.
        await asyncio.wait((delivering, reading), return_when=asyncio.FIRST_COMPLETED)
        for task in (reading, delivering):
            if task.done():
                task.result()
    finally:
        for task in (delivering, reading):
            task.cancel()
            with suppress(asyncio.CancelledError, GoQueueError, grpc.aio.UsageError):
                await task
        # It must happen whatever else happens: the call may be cancelled once more while it waits.
        await asyncio.shield(asyncio.ensure_future(stream.end()))


class _WorkStream:
    """One stream: its credit, and the receipts that it has not settled."""

    def __init__(self, services: Services, context: Any, start: Any) -> None:
        if not 0 <= start.credit <= _CREDIT_MAX:
            raise InvalidRequest(f"credit {start.credit} is not from 0 to {_CREDIT_MAX}", field="start.credit")
        self._services = services
        self._context = context
        self._sending = Sending(context, services.answers)
        self._start = start
        self._consumer = start.client_id or f"grpc-{next(_numbers)}"
        self._credit = start.credit
        self._granted = asyncio.Event()
        self._held: set[str] = set()
        # Refuses what is wrong with the start before anything waits.
        self._asked(1)

    async def read(self) -> None:
        """Take credit and settlements, until the client closes its side."""
        while (request := await read(self._context)) is not grpc.aio.EOF:
            action = request.WhichOneof("action")
            if action == "settle":
                await self._settle(request.settle)
            elif action == "credit":
                self._grant(request.credit.messages, "credit.messages")
            else:
                problem = "a stream is started once" if action else "the request says nothing"
                raise InvalidRequest(problem, field=action or "action", hint="send credit or settle")

    async def deliver(self) -> None:
        """Send messages while there is credit."""
        services, refused = self._services, False
        while True:
            if self._credit <= 0:
                self._granted.clear()
                await self._granted.wait()
            await services.answers.room()
            limit = min(self._credit, services.config.delivery.receive_max)
            try:
                found = await services.delivery.receive(self._asked(limit))
            except (TopicNotFound, PartitionNotFound):
                # Partitions of a topic that is being deleted: once more, and then it is gone.
                if refused:
                    raise
                refused = True
                continue
            refused = False
            if not found:
                continue
            self._held.update([one.receipt for one in found])
            self._credit -= len(found)
            messages = queue_pb2.WorkMessages(messages=[queued_message(one) for one in found])
            await self._sending.write(queue_pb2.WorkResponse(messages=messages))

    async def end(self) -> None:
        """Return what is not settled."""
        if self._held:
            receipts, self._held = list(self._held), set()
            try:
                await give_back(self._services, receipts)
            except GoQueueError as error:
                # They are redelivered when their time is up.
                _log.warning("%d messages of a closed stream were not returned: %s", len(receipts), error)

    def _asked(self, limit: int) -> Receive:
        return receive_of(
            self._services,
            self._start,
            consumer=self._consumer,
            limit=limit,
            wait_ms=_SLICE_MS,
            max_bytes=_BATCH_BYTES,
        )

    def _grant(self, messages: int, field: str) -> None:
        if not 0 <= messages <= _CREDIT_MAX - self._credit:
            raise InvalidRequest(f"credit of {messages} makes more than {_CREDIT_MAX}, or is negative", field=field)
        self._credit += messages
        if messages:
            self._granted.set()

    async def _settle(self, request: Any) -> None:
        check_count(self._services, len(request.acked) + len(request.settlements), "settle.acked")
        wanted = [Settlement(receipt, Action.ACK) for receipt in request.acked]
        wanted += [settlement_of(one, f"settle.settlements[{at}]") for at, one in enumerate(request.settlements)]
        answer = queue_pb2.WorkSettled(correlation_id=request.correlation_id)
        if wanted:
            settled = await self._services.delivery.settle(wanted, durable=request.durable)
            for asked, one in zip(wanted, settled, strict=True):
                if asked.action not in _KEEPING:
                    self._held.discard(asked.receipt)
                if one.error is not None:
                    answer.failures.append(settled_receipt(one, asked, "settle.receipt_handle"))
            answer.succeeded = len(wanted) - len(answer.failures)
        self._grant(request.credit, "settle.credit")
        await self._sending.write(queue_pb2.WorkResponse(settled=answer))
