"""A member's place in its group: joined, its epoch, what it owns.

Speaks the cooperative routes, which are the same protocol that Kafka clients with
`group.protocol=consumer` speak, so both can share a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from goqueue.client.identity import tags
from goqueue.client.transport import Transport, quoted
from goqueue.records import TopicPartition


@dataclass(frozen=True, slots=True)
class Changes:
    """What one heartbeat changed: partitions to give up, and partitions newly ours."""

    revoked: frozenset[TopicPartition] = frozenset()
    assigned: frozenset[TopicPartition] = frozenset()
    # Gone or begun anew with their topics: positions reached in them mean nothing now.
    deleted: frozenset[TopicPartition] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.revoked or self.assigned or self.deleted)


class Membership:
    """Joins, beats and leaves. Whoever owns it decides when.

    `kind` says what group it is to be: its mode, and for a queue how members share it.
    """

    def __init__(
        self, transport: Transport, group: str, client_id: str, topics: list[str], *, kind: Mapping[str, Any]
    ) -> None:
        self._transport = transport
        self._group = group
        self._path = f"/groups/{quoted(group)}"
        self._client_id = client_id
        self._topics = topics
        self._kind = dict(kind)
        self.member_id = ""
        self.generation = -1
        self.heartbeat_ms = 3_000
        self.owned: frozenset[TopicPartition] = frozenset()
        # Topics that we named and that do not exist.
        self.missing_topics: tuple[str, ...] = ()
        self._topic_ids: dict[str, str] = {}

    def __str__(self) -> str:
        return f"consumer {self._client_id} of group {self._group!r}"

    async def join(self) -> Changes:
        """Enter the group, again if need be. What we owned before is no longer ours."""
        reply = await self._transport.call(
            "POST",
            f"{self._path}/join/cooperative",
            dict[str, Any],
            body={"client_id": self._client_id, "tags": tags(), "topics": self._topics, **self._kind},
            # A repeated join leaves a member behind that never beats; its session ends by itself.
            repeatable=True,
        )
        # Somebody else may have read on in the meantime, so even what comes back to us is new.
        before, self.owned = self.owned, _partitions(reply["partitions"])
        self.member_id, self.generation = reply["member_id"], reply["generation"]
        self.missing_topics = tuple(reply.get("missing_topics", ()))
        self._topic_ids = reply.get("topic_ids", {})
        self.heartbeat_ms = reply.get("heartbeat_interval_ms", self.heartbeat_ms)
        return Changes(before, self.owned)

    async def heartbeat(self) -> Changes:
        """Say that we live, and hear what the coordinator wants of us."""
        reply = await self._beat()
        revoked, assigned = _partitions(reply["partitions_to_revoke"]), _partitions(reply["partitions_assigned"])
        before, self._topic_ids = self._topic_ids, reply.get("topic_ids", {})
        made_again = {topic for topic, known in self._topic_ids.items() if before.get(topic, known) != known}
        # Nobody asks for partitions of a deleted topic back: they are simply no longer ours.
        deleted = frozenset(at for at in self.owned if at not in assigned | revoked or at.topic in made_again)
        return Changes(revoked & self.owned, assigned - (self.owned - deleted), deleted)

    async def acknowledge(self, changes: Changes) -> None:
        """Own what was assigned and give up what was revoked, and tell the coordinator so."""
        self.owned = (self.owned - changes.revoked - changes.deleted) | changes.assigned
        if changes.revoked:
            await self._transport.call(
                "POST",
                f"{self._path}/revoke",
                dict[str, Any],
                body={
                    "member_id": self.member_id,
                    "generation": self.generation,
                    "revoked_partitions": [{"topic": t, "partition": p} for t, p in sorted(changes.revoked)],
                },
                repeatable=True,
            )

    async def leave(self) -> None:
        """Hand our partitions over at once instead of letting the session run out."""
        if self.member_id:
            member_id, self.member_id = self.member_id, ""
            await self._transport.call(
                "POST",
                f"{self._path}/leave/cooperative",
                dict[str, Any],
                body={"member_id": member_id},
                repeatable=True,
            )

    async def _beat(self) -> dict[str, Any]:
        reply = await self._transport.call(
            "POST",
            f"{self._path}/heartbeat/cooperative",
            dict[str, Any],
            body={
                "member_id": self.member_id,
                "generation": self.generation,
                "owned_partitions": [{"topic": t, "partition": p} for t, p in sorted(self.owned)],
            },
            repeatable=True,
        )
        self.generation = reply["generation"]
        self.heartbeat_ms = reply.get("heartbeat_interval_ms", self.heartbeat_ms)
        return reply


def _partitions(rows: list[dict[str, Any]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(row["topic"], row["partition"]) for row in rows)
