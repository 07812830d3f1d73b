"""Stories of messages: what happened on this node is stored by whoever leads the topic of stories."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from goqueue.anywhere.asking import Asking, PeerMethod
from goqueue.caller import INTERNAL, Caller
from goqueue.errors import CoordinatorUnavailable, GoQueueError
from goqueue.tracing.recorder import NotReady
from goqueue.tracing.store import TRACES

if TYPE_CHECKING:
    from goqueue.tracing.feature import TracingService

_TAKE: PeerMethod[list[bytes], None] = PeerMethod("stories.take", list[bytes], None)
_HAND_ON: PeerMethod[int, None] = PeerMethod("stories.hand_on", int, None)
_HAND_ON_MS = 1_000

# Sendings under way; beyond that stories are dropped, as they are when the disk is behind.
_SENDINGS_MAX = 100


class StoriesAnywhere:
    """Sends chunks of stories to their leader, and takes those of others."""

    def __init__(self, tracing: TracingService, asking: Asking) -> None:
        self._store = tracing.store
        self._recorder = tracing.recorder
        self._asking = asking
        self._sendings: set[asyncio.Task[None]] = set()
        self.dropped = 0
        asking.answer(_TAKE, self._take)
        asking.answer(_HAND_ON, self._hand_on)
        tracing.store.elsewhere = self.send
        tracing.reader.gather = self._gather

    def send(self, chunks: Sequence[bytes]) -> None:
        """Begin to send. What cannot be sent is lost: stories hold up nobody."""
        if len(self._sendings) >= _SENDINGS_MAX:
            self.dropped += len(chunks)
            return
        task = asyncio.get_running_loop().create_task(self._send(list(chunks)))
        self._sendings.add(task)
        task.add_done_callback(self._sendings.discard)

    async def close(self) -> None:
        """Let what is under way come to its end."""
        await asyncio.gather(*self._sendings)

    async def _gather(self) -> None:
        """Before stories are read: what happened on other nodes until now is here. A node that is slow is left out."""

        async def ask(node: int) -> None:
            if node != self._asking.homes.node_id:
                with suppress(GoQueueError):
                    await self._asking.ask(node, _HAND_ON, 0, INTERNAL, timeout_ms=_HAND_ON_MS)

        await self._asking.everywhere(ask)

    async def _hand_on(self, _nothing: int, _caller: Caller) -> None:
        self._recorder.flush()
        if self._sendings:
            await asyncio.wait(self._sendings)

    async def _send(self, chunks: list[bytes]) -> None:
        homes = self._asking.homes
        with suppress(GoQueueError):
            await self._asking.at_home(
                lambda: homes.coordinator_at(TRACES, 0), lambda node: self._asking.ask(node, _TAKE, chunks, INTERNAL)
            )
            return
        self.dropped += len(chunks)

    async def _take(self, chunks: list[bytes], _caller: Caller) -> None:
        try:
            self._store.take(chunks)
        except NotReady:
            raise CoordinatorUnavailable("the store of message histories is being opened") from None
