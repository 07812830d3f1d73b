"""Queues of a broker: receipts by their text, policies, statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

from goqueue.client.admin.replies import GroupPolicy
from goqueue.client.admin.requests import PolicyFields, policy_body, text_params
from goqueue.client.admin.stats import PriorityStats, ReliabilityStats
from goqueue.client.calls import Calls
from goqueue.client.transport import quoted
from goqueue.client.types import Settled, SettleReply


class QueueAdmin(Calls):
    """The part of a client that administers queues."""

    async def settle(
        self,
        action: Literal["ack", "nack", "reject", "visibility"],
        receipts: Sequence[str],
        fields: Mapping[str, Any] | None = None,
    ) -> list[Settled]:
        """Settle receipts by their text; `fields` are those of the action's route, such as `error`.

        await client.settle("nack", [receipt], {"error": "the printer is on fire"})
        """
        body = {"receipts": list(receipts), **(fields or {})}
        reply = await self._transport.call("POST", f"/messages/{action}", SettleReply, body=body, repeatable=True)
        return reply.results

    async def policy(self, group: str, *, topic: str | None = None) -> GroupPolicy:
        """How a queue group's messages are delivered, of one topic or of any.

        print((await client.policy("workers", topic="orders")).effective.visibility_ms)
        """
        params = {"topic": topic} if topic else None
        return GroupPolicy(await self._call("GET", f"/groups/{quoted(group)}/policy", params=params))

    async def alter_policy(self, group: str, **changes: Unpack[PolicyFields]) -> GroupPolicy:
        """Change a queue group's policy; None takes an override away.

        await client.alter_policy("workers", visibility="1m", retries_max=5)
        """
        return GroupPolicy(await self._call("PATCH", f"/groups/{quoted(group)}/policy", policy_body(changes)))

    async def reliability_stats(self, topic: str | None = None) -> ReliabilityStats:
        """Leases, settlements, retries and dead letters since the broker was started, of one topic or of all.

        print((await client.reliability_stats("orders")).ack_manager.redelivered_total)
        """
        return ReliabilityStats(await self._call("GET", "/reliability/stats", params=text_params({"topic": topic})))

    async def priority_stats(self, topic: str | None = None) -> PriorityStats:
        """Messages of each lane, of one topic or of all, and how the lanes are served.

        print((await client.priority_stats("orders")).ready_by_priority)
        """
        return PriorityStats(await self._call("GET", "/priority/stats", params=text_params({"topic": topic})))
