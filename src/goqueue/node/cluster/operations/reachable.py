"""Which addresses take a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from goqueue.node.config.addresses import Address

_CONNECT_S_MAX = 2.0


async def answering(places: Iterable[Address]) -> list[Address]:
    """Those of these addresses at which something listens, asked all at once."""
    asked = list(dict.fromkeys(places))
    found = await asyncio.gather(*(_answers(one) for one in asked))
    return [one for one, is_there in zip(asked, found, strict=True) if is_there]


async def _answers(address: Address) -> bool:
    try:
        async with asyncio.timeout(_CONNECT_S_MAX):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
