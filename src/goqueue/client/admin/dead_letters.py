"""Dead letters of a broker: list, redrive, purge."""

from __future__ import annotations

import asyncio
from typing import Unpack

from goqueue.client.admin.dead_letter_replies import DeadLetters, Purged, Redrive, RedriveState
from goqueue.client.admin.requests import LetterFields, RedriveFields, text_params
from goqueue.client.calls import Calls
from goqueue.client.transport import quoted

_REDRIVE_POLL_S = 0.2


class DeadLetterAdmin(Calls):
    """The part of a client that administers dead letters."""

    async def dead_letters(self, topic: str, **params: Unpack[LetterFields]) -> DeadLetters:
        """Dead letters of a topic, filtered; with `cursor`, the page after.

        for letter in (await client.dead_letters("orders", group="billing")).letters:
            print(letter.reason, letter.error)
        """
        return DeadLetters(await self._call("GET", f"/topics/{quoted(topic)}/dlq", params=text_params(params)))

    async def redrive(self, topic: str, **request: Unpack[RedriveFields]) -> Redrive:
        """Send dead letters back, each to the group in which it died; `wait()` on what this returns waits for the end.

        `all_groups=True` sends them to every group of their topic, `to="topic"` to every group of another one.

        done = await (await client.redrive("orders", reason="visibility_timeout")).wait()
        """
        path = f"/topics/{quoted(topic)}/dlq/redrive"

        async def wait() -> RedriveState:
            while not (state := RedriveState(await self._call("GET", path))).is_over:  # noqa: ASYNC110 - it is elsewhere
                await asyncio.sleep(_REDRIVE_POLL_S)
            return state

        return Redrive(await self._call("POST", path, dict(request)), wait)

    async def cancel_redrive(self, topic: str) -> RedriveState:
        """Cancel a redrive; messages that it has already sent back stay sent.

        await client.cancel_redrive("orders")
        """
        return RedriveState(await self._call("DELETE", f"/topics/{quoted(topic)}/dlq/redrive"))

    async def purge_dead_letters(self, topic: str) -> Purged:
        """Delete all dead letters of a topic.

        print((await client.purge_dead_letters("orders")).purged)
        """
        return Purged(await self._call("DELETE", f"/topics/{quoted(topic)}/dlq"))
