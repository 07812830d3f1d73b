"""Where a queue consumer's messages come from: one topic without joining, or a group it is a member of."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol

from goqueue.client.consuming.heart import Heart
from goqueue.client.consuming.membership import Changes, Membership
from goqueue.client.errors import ClientError, RequestRefused
from goqueue.client.queues.wire import QueueWire
from goqueue.client.reconnect import PASSING
from goqueue.client.transport import Transport, quoted
from goqueue.client.types import QueueMessage


class QueueSource(Protocol):
    """Hands out messages of one group. Its text names it in the log."""

    group: str

    async def start(self) -> None:
        """Do what must be done before the first message."""

    async def close(self) -> None:
        """Undo that."""

    async def take(self, limit: int, wait_ms: int, visibility_ms: int | None) -> list[QueueMessage]:
        """Messages that are ours from now on."""
        ...

    async def visibility_ms(self, topic: str) -> int:
        """For how long, where we do not say."""
        ...


async def policy_visibility_ms(transport: Transport, group: str, topic: str) -> int:
    """What the group's policy says for a topic."""
    reply = await transport.call("GET", f"/groups/{quoted(group)}/policy", dict[str, Any], params={"topic": topic})
    return int(reply["effective"]["visibility_ms"])


class TopicSource:
    """One topic; nothing is joined, and any number of consumers may share the group's messages."""

    def __init__(self, transport: Transport, wire: QueueWire, topic: str, group: str, client_id: str) -> None:
        self.group = group
        self._transport = transport
        self._wire = wire
        self._topic = topic
        self._client_id = client_id

    def __str__(self) -> str:
        return f"consumer {self._client_id} of queue {self._topic!r}, group {self.group!r}"

    async def start(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def take(self, limit: int, wait_ms: int, visibility_ms: int | None) -> list[QueueMessage]:
        """Messages of the topic that nobody else of the group holds."""
        return await self._wire.receive(self._topic, self.group, self._client_id, limit, wait_ms, visibility_ms)

    async def visibility_ms(self, topic: str) -> int:
        """What the group's policy says."""
        return await policy_visibility_ms(self._transport, self.group, topic)


class GroupSource:
    """A place in a group: its messages come from the partitions that are this member's to take from."""

    def __init__(
        self,
        transport: Transport,
        wire: QueueWire,
        group: str,
        topics: list[str],
        client_id: str,
        kind: dict[str, Any],
    ) -> None:
        self.group = group
        self._transport = transport
        self._wire = wire
        self._member = Membership(transport, group, client_id, topics, kind={"mode": "queue", **kind})
        self._heart = Heart(self._member, joined=_nothing, changed=self._member.acknowledge)

    def __str__(self) -> str:
        return str(self._member)

    async def start(self) -> None:
        """Join, and begin to beat."""
        await self._heart.start()

    async def close(self) -> None:
        """Leave: what we held goes back to the group."""
        await self._heart.stop()
        with suppress(ClientError):
            await self._member.leave()

    async def take(self, limit: int, wait_ms: int, visibility_ms: int | None) -> list[QueueMessage]:
        """Messages for this member; none when it had to join again first."""
        member = self._member
        try:
            return await self._wire.poll(self.group, member.member_id, member.generation, limit, wait_ms, visibility_ms)
        except PASSING:
            raise
        except RequestRefused as refused:
            await self._heart.recover(refused)
            return []

    async def visibility_ms(self, topic: str) -> int:
        """What the group's policy says."""
        return await policy_visibility_ms(self._transport, self.group, topic)


async def _nothing(_changes: Changes) -> None:
    """Leases are the messages', not the partitions': what we hold of a lost one we may still settle."""
