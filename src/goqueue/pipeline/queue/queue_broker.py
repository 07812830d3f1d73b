"""The broker's side of a queue, over HTTP: take messages, ask for more time, settle them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from goqueue.client.blocking.loop import BackgroundLoop
from goqueue.client.connecting import open_transport
from goqueue.client.credentials import Credentials
from goqueue.client.transport import quoted
from goqueue.pipeline.queue.leases import Lease

T = TypeVar("T")
# As many receipts as the broker takes in one request.
_RECEIPTS_MAX = 1000


class QueueBroker:
    """Requests of one reader. Blocking, and safe to use from two threads."""

    def __init__(self, server: str | None, topic: str, group: str, owner: str) -> None:
        self._topic, self._group, self._owner = topic, group, owner
        self._loop = BackgroundLoop()
        self._transport = open_transport(
            server, context=None, timeout=None, credentials=Credentials(), retry=None, connections_max=4
        )

    def receive(self, count: int, visibility_ms: int) -> list[Lease]:
        """Take up to so many messages, without waiting for any."""
        body = {
            "group": self._group,
            "client_id": self._owner,
            "limit": count,
            "visibility": f"{visibility_ms}ms",
            # Bodies are read by the executors; here they are only in the way.
            "max_bytes": 50 * 1024 * 1024,
        }
        path = f"/topics/{quoted(self._topic)}/receive"
        reply = self._call(path, body)
        return [
            Lease(one["partition"], one["offset"], one["receipt_handle"], one["delivery_count"])
            for one in reply["messages"]
        ]

    def ack(self, receipts: Sequence[str]) -> dict[str, int]:
        """Messages are done, on the disk; returns the receipts that were refused, each with a status of HTTP.

        `leases.NEVER_GIVEN`: not in this topic. Others say that the lease has ended, or that nobody could be asked.
        """
        return self._settle("/messages/ack", receipts, durable=True)

    def extend(self, receipts: Sequence[str], visibility_ms: int) -> int:
        """Ask for more time; returns how many receipts were not valid any more."""
        return len(self._settle("/messages/visibility", receipts, visibility=f"{visibility_ms}ms"))

    def reject(self, receipts: Sequence[str], error: str) -> int:
        """Messages can never succeed; returns how many receipts were not valid any more."""
        return len(self._settle("/messages/reject", receipts, error=error))

    def close(self) -> None:
        """End the connections."""
        if not self._loop.closed:
            self._loop.run(self._transport.close())
            self._loop.close()

    def _settle(self, path: str, receipts: Sequence[str], **fields: Any) -> dict[str, int]:
        refused: dict[str, int] = {}
        for some in _slices(receipts):
            reply = self._call(path, {"receipts": list(some), **fields}, repeatable=True)
            refused |= {one["receipt_handle"]: one["status"] for one in reply["results"] if not one["success"]}
        return refused

    def _call(self, path: str, body: dict[str, Any], *, repeatable: bool = False) -> dict[str, Any]:
        return self._loop.run(self._transport.call("POST", path, dict[str, Any], body=body, repeatable=repeatable))


def _slices(receipts: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(receipts), _RECEIPTS_MAX):
        yield receipts[first : first + _RECEIPTS_MAX]
