"""What all parts of a client have in common: a transport, and calls that answer with JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goqueue.client.transport import Transport

Row = dict[str, Any]


class Calls:
    """Sends requests for one part of a client."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def _call(
        self, method: str, path: str, body: Row | None = None, params: Mapping[str, str] | None = None
    ) -> Row:
        return await self._transport.call(method, path, dict[str, Any], body=body, params=params)
