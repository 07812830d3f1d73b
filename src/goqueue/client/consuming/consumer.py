"""A consumer: a member of a group that reads its partitions and remembers how far it came.

    async with client.consumer("billing", ["orders"]) as consumer:
        async for message in consumer:
            print(message.text)

It goes on when the broker is restarted, for as long as it runs. The consumer
owns its positions. A message counts as processed when the next one is asked
for, and only processed messages are committed, so a crash repeats and never skips.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from goqueue.client.background import end_task
from goqueue.client.consuming.heart import Heart
from goqueue.client.consuming.membership import Changes, Membership
from goqueue.client.consuming.positions import Positions
from goqueue.client.durations import Duration, ms_of, or_ms, seconds_of
from goqueue.client.errors import ClientError, ConsumerClosed, RequestRefused
from goqueue.client.options import ConsumerOptions, RebalanceCallback
from goqueue.client.reconnect import PASSING, Reconnect
from goqueue.client.trace_context import Following
from goqueue.client.transport import Transport, quoted
from goqueue.client.types import Message, PollReply, decode_message
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.client.schemas.typed import TypedReader

_log = logging.getLogger("goqueue.client")


class Consumer:
    """Reads topics as a member of a group. Iterate over it, or call `poll`."""

    def __init__(
        self, transport: Transport, group: str, topics: Iterable[str], options: ConsumerOptions | None = None
    ) -> None:
        if isinstance(topics, str):
            raise TypeError(f"topics is the string {topics!r}: give a list of names, such as [{topics!r}]")
        self._transport = transport
        self._group = group
        self._options = options or ConsumerOptions()
        self._member = Membership(transport, group, self._options.client_id, list(topics), kind={"mode": "stream"})
        self._positions = Positions()
        self._paused: set[TopicPartition] = set()
        self._poll_wait_ms = ms_of(self._options.poll_wait, "poll_wait")
        self._heart = Heart(
            self._member,
            joined=self._joined,
            changed=self._apply,
            poll_interval_s=seconds_of(self._options.poll_interval_max, "poll_interval_max"),
        )
        limit = self._options.reconnect_max
        limit_s = None if limit is None else seconds_of(limit, "reconnect_max")
        self._reconnect = Reconnect(str(self._member), limit_s)
        self._committer: asyncio.Task[None] | None = None
        # Told by the client, if values are read as instances of a class.
        self.typed: TypedReader | None = None
        self._closed = False

    # --- life ------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group and begin to send heartbeats."""
        await self._heart.start()
        if self._options.auto_commit:
            self._committer = asyncio.create_task(self._commit_now_and_then())

    async def close(self) -> None:
        """Commit what was processed, if that is automatic, and leave. A second close does no harm.

        consumer = client.consumer("billing", ["orders"])
        await consumer.start()
        await consumer.close()
        """
        if self._closed:
            return
        self._closed = True
        await self._heart.stop()
        await end_task(self._committer)
        # Closing is coming back: what was handed out last has been dealt with.
        self._positions.settle()
        if self._options.auto_commit:
            with suppress(RequestRefused):
                await self.commit()
        with suppress(RequestRefused):
            await self._member.leave()

    @property
    def closed(self) -> bool:
        """Whether the consumer has left its group."""
        return self._closed

    def __str__(self) -> str:
        return str(self._member)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- reading ---------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._iterate()

    async def poll(
        self,
        *,
        limit: int | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109 - the broker waits, and we for it
        timeout_ms: int | None = None,
    ) -> list[Message]:
        """Up to `limit` messages; empty when none came in time. What was returned before counts as processed.

        for message in await consumer.poll(limit=10, timeout="500ms"):
            print(message.text)
        """
        timeout = or_ms(timeout, timeout_ms, "timeout", "timeout_ms")
        self._positions.settle()
        if not self._positions:
            await self._fill(self._poll_wait_ms if timeout is None else ms_of(timeout, "timeout"))
        return self._positions.hand_out(limit or self._options.poll_records_max)

    async def _iterate(self) -> AsyncIterator[Message]:
        following = Following()
        while not self._closed:
            if not self._positions:
                self._positions.settle()
                await self._fill(self._poll_wait_ms)
            for message in self._positions.hand_out(1):
                following.enter(message)
                yield message
                following.leave()

    async def _fill(self, timeout_ms: int) -> None:
        if self._closed:
            raise ConsumerClosed("the consumer is closed: open another one with client.consumer()")
        self._transport.check_open()
        with self._heart.polling():
            try:
                await self._heart.come_back()
                await self._fetch(timeout_ms)
                self._reconnect.works()
            except PASSING as problem:
                await self._reconnect.lost(problem)

    async def _fetch(self, timeout_ms: int) -> None:
        wanted = self._member.owned - self._paused
        if not wanted:
            # Nothing is ours yet: the next heartbeat will tell.
            await asyncio.sleep(min(timeout_ms, self._member.heartbeat_ms) / 1000)
            return
        body = {
            "member_id": self._member.member_id,
            "generation": self._member.generation,
            "positions": self._positions.to_fetch(wanted),
            "paused": [{"topic": t, "partition": p} for t, p in sorted(self._paused & self._member.owned)],
            "limit": self._options.poll_records_max,
            "timeout_ms": timeout_ms,
            "auto_offset_reset": self._options.auto_offset_reset,
        }
        try:
            reply = await self._transport.call(
                "POST", f"/groups/{quoted(self._group)}/poll", PollReply, body=body, repeatable=True, wait_ms=timeout_ms
            )
        except PASSING:
            raise
        except RequestRefused as refused:
            await self._heart.recover(refused)
            return
        decoded: list[Message] = [decode_message(wire) for wire in reply.messages]
        if self.typed is not None:
            decoded = [await self.typed.read(one) for one in decoded]
        owned = self._member.owned
        self._positions.take_in(
            [one for one in decoded if (one.topic, one.partition) in owned],
            {
                TopicPartition(topic, int(partition)): offset
                for topic, offsets in reply.next_offsets.items()
                for partition, offset in offsets.items()
                if (topic, int(partition)) in owned
            },
        )

    # --- positions -------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Store how far the group is: all that was returned so far, or the offsets given (of the next message to read).

        for message in await consumer.poll():
            handle(message)
        await consumer.commit()

        As in Kafka, calling it says that what you were given is processed. The automatic commit leaves out what you
        have in hand: messages of the last `poll`, or the message that an iteration is at.
        """
        self._transport.check_open()
        if offsets is None:
            self._positions.settle()
            offsets = self._positions.to_commit()
        await self._commit(offsets)

    async def _commit_processed(self) -> None:
        self._transport.check_open()
        await self._commit(self._positions.to_commit())

    async def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if not offsets:
            return
        body: dict[str, Any] = {"member_id": self._member.member_id, "generation": self._member.generation}
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, {})[str(partition)] = offset
        body["offsets"] = by_topic
        await self._transport.call(
            "POST", f"/groups/{quoted(self._group)}/offsets", dict[str, Any], body=body, repeatable=True
        )
        self._positions.committed(offsets)

    # --- for transactions ------------------------------------------------------------

    @property
    def group(self) -> str:
        """The group that we are a member of."""
        return self._group

    def membership(self) -> dict[str, Any]:
        """Who we are to the group's coordinator."""
        return {"member_id": self._member.member_id, "generation": self._member.generation}

    def check_manual(self) -> None:
        """Refuse to be part of a transaction while we commit by ourselves."""
        if self._options.auto_commit:
            raise ClientError("a consumer in a transaction must not commit by itself: open it with auto_commit=False")

    def handed_out(self) -> dict[TopicPartition, int]:
        """Where the group would go on if all that we handed out were processed."""
        self.check_manual()
        self._positions.settle()
        return self._positions.to_commit()

    def committed_elsewhere(self, offsets: Mapping[TopicPartition, int]) -> None:
        """A transaction has stored these."""
        self._positions.committed(offsets)

    def rewind(self) -> None:
        """Read again all messages that were returned since the last commit.

        consumer.rewind()
        """
        self._positions.rewind()

    def seek(self, at: TopicPartition, offset: int) -> None:
        """Read this partition from `offset` next.

        consumer.seek(TopicPartition("orders", 0), 42)
        """
        self._positions.seek(at, offset)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop fetching these partitions until `resume`; what is buffered is still returned.

        consumer.pause(TopicPartition("orders", 0))
        """
        self._paused.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch these partitions again.

        consumer.resume(TopicPartition("orders", 0))
        """
        self._paused.difference_update(partitions)

    @property
    def missing_topics(self) -> tuple[str, ...]:
        """Topics that we subscribed to and that did not exist when we joined; they are read once they exist."""
        return self._member.missing_topics

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are ours now."""
        return self._member.owned

    async def lag(self) -> dict[TopicPartition, int]:
        """Messages between the group's committed offsets and the end, for the partitions of this consumer.

        print(sum((await consumer.lag()).values()))
        """
        reply = await self._transport.call("GET", f"/groups/{quoted(self._group)}/offsets", dict[str, Any])
        return {
            TopicPartition(topic, int(partition)): row["lag"]
            for topic, rows in reply["topics"].items()
            for partition, row in rows.items()
            if TopicPartition(topic, int(partition)) in self._member.owned
        }

    # --- membership ------------------------------------------------------------------

    async def _joined(self, changes: Changes) -> None:
        self._positions.forget(changes.revoked)
        await _call(self._options.on_revoked, changes.revoked)
        await _call(self._options.on_assigned, changes.assigned)

    async def _apply(self, changes: Changes) -> None:
        if changes.deleted:
            # Nothing can be committed there, and in a topic made again under the name we begin anew.
            self._positions.forget(changes.deleted)
            await _call(self._options.on_revoked, changes.deleted)
        if changes.revoked:
            # The next owner begins at our commit, so commit before letting go.
            if self._options.auto_commit:
                with suppress(RequestRefused):
                    await self._commit_processed()
            await _call(self._options.on_revoked, changes.revoked)
        await self._member.acknowledge(changes)
        self._positions.forget(changes.revoked)
        if changes.assigned:
            await _call(self._options.on_assigned, changes.assigned)

    async def _commit_now_and_then(self) -> None:
        interval_s = seconds_of(self._options.auto_commit_interval, "auto_commit_interval")
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self._commit_processed()
            except PASSING:
                # What was processed is committed when the broker is back.
                continue
            except ClientError as problem:
                _log.warning("%s could not commit: %s", self._member, problem)


async def _call(callback: RebalanceCallback | None, partitions: frozenset[TopicPartition]) -> None:
    if callback is not None and partitions:
        outcome = callback(partitions)
        if outcome is not None:
            await outcome
