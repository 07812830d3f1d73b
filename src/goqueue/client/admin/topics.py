"""Topics of a broker: create, describe, change, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from goqueue.client.admin.replies import Topic, TopicSummary
from goqueue.client.calls import Calls, Row
from goqueue.client.errors import TopicExists, TopicNotFound
from goqueue.client.transport import quoted

_CREATED_POLL_S, _CREATED_POLLS_MAX = 0.05, 100


class TopicAdmin(Calls):
    """The part of a client that administers topics."""

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> Topic:
        """Create a topic. Where it exists, that is `TopicExists`, or what it is now with `exist_ok`.

        topic = await client.create_topic("orders", partitions=3, exist_ok=True)
        """
        body: Row = {"name": name, "config": dict(config or {})}
        if partitions is not None:
            body["num_partitions"] = partitions
        if replication_factor is not None:
            body["replication_factor"] = replication_factor
        try:
            return _created(await self._call("POST", "/topics", body))
        except TopicExists:
            if not exist_ok:
                raise
        return await self._topic_soon(name)

    async def topics(self, *, internal: bool = False) -> list[TopicSummary]:
        """Name, partitions and kind of every topic; with `internal`, the broker's own too.

        for topic in await client.topics():
            print(topic.name, topic.partitions)
        """
        reply = await self._call("GET", "/topics", params={"internal": str(internal).lower()})
        return [TopicSummary(one) for one in reply["details"]]

    async def topic(self, name: str) -> Topic:
        """One topic: its settings, sizes and offsets.

        print((await client.topic("orders")).partitions)
        """
        return Topic(await self._call("GET", f"/topics/{quoted(name)}"))

    async def alter_topic(
        self, name: str, *, partitions: int | None = None, config: Mapping[str, str | None] | None = None
    ) -> Topic:
        """Change settings (None removes an override) or add partitions.

        await client.alter_topic("orders", partitions=6, config={"retention.ms": "86400000"})
        """
        body: Row = {"config": dict(config or {})}
        if partitions is not None:
            body["num_partitions"] = partitions
        return Topic(await self._call("PATCH", f"/topics/{quoted(name)}", body))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and all its messages.

        await client.delete_topic("orders")
        """
        await self._call("DELETE", f"/topics/{quoted(name)}")

    async def _topic_soon(self, name: str) -> Topic:
        """A topic that another client may be creating at this moment: its name is taken before it can be read."""
        for _ in range(_CREATED_POLLS_MAX):
            try:
                return await self.topic(name)
            except TopicNotFound:
                await asyncio.sleep(_CREATED_POLL_S)
        return await self.topic(name)


def _created(reply: Row) -> Topic:
    """A topic that has just been created, with what is true of an empty one."""
    empty = {str(partition): {"earliest": 0, "latest": 0} for partition in range(reply["partitions"])}
    sizes = {"total_messages": 0, "total_size_bytes": 0, "partition_offsets": empty}
    return Topic({**sizes, "internal": False, "overrides": reply["config"], **reply})
