"""A copy of the registry's tables on a node that does not coordinate it, to check messages against.

It follows the coordinator: a question waits there until something has changed, so that a change is known here within
milliseconds. Whoever is about to refuse a message asks once more (`catch_up`), so that what was registered through any
node counts here at once. A copy whose last answer is too old is not used any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from goqueue.clock import Clock
from goqueue.errors import CoordinatorUnavailable, GoQueueError, UnknownPeerCall
from goqueue.schemas.following.changes import Changes, Position
from goqueue.schemas.state import RegistryState

# Asks the coordinator, wherever it is: (position, how long it may wait for a change).
AskChanges = Callable[[Position | None, int], Awaitable[Changes]]

_HOLD_MS = 1_000
_PAUSE_SECONDS = 0.25
_BREATH_SECONDS = 0.05
# How long a message may wait for the registry before its producer is told to try again.
_CATCH_UP_SECONDS_MAX = 5.0
# Deletions are kept in the log for a day. A copy that was behind for long begins anew rather than miss one.
_BEGIN_ANEW_MS = 3_600_000


class RegistryMirror:
    """The copy. `exists`: whether anything was ever registered; `is_led_here`: whether this node coordinates it."""

    def __init__(
        self,
        ask: AskChanges,
        exists: Callable[[], bool],
        is_led_here: Callable[[], bool],
        catch_up_metadata: Callable[[], Awaitable[None]],
        clock: Clock,
        *,
        age_ms_max: int,
        on_switched: Callable[[], None],
    ) -> None:
        self._ask = ask
        self._exists = exists
        self._is_led_here = is_led_here
        self._catch_up_metadata = catch_up_metadata
        self._clock = clock
        self._age_ms_max = age_ms_max
        self._on_switched = on_switched
        # The tables as far as they were read. They are shown once they have reached the end of the log.
        self._tables = RegistryState(on_switched)
        self._position: Position | None = None
        # The newest tables that were complete at some time, and when the question was sent that found them so.
        self.known: RegistryState | None = None
        self._asked_ms = 0
        # When the question was sent whose answer the tables rest on, complete or not.
        self._heard_ms = 0
        self._catching_up = asyncio.Lock()
        # Numbers of questions: the last one sent, and the last one that was answered.
        self._sent = self._answered = 0
        self._task: asyncio.Task[None] | None = None
        # The coordinator is of a version that knows no copies: as before, only topics that ask themselves are checked.
        self.is_unknown = False

    @property
    def state(self) -> RegistryState | None:
        """The tables; None until they are there, and when they are too old."""
        is_fresh = self._clock.monotonic_ms() - self._asked_ms <= self._age_ms_max
        return self.known if is_fresh else None

    def start(self) -> None:
        """Follow from now on."""
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def catch_up(self) -> None:
        """Know all that was registered before this call; raises `CoordinatorUnavailable` if that cannot be found out.

        Those who come while a question is on its way share the next one.
        """
        sent_before = self._sent
        try:
            async with asyncio.timeout(_CATCH_UP_SECONDS_MAX), self._catching_up:
                if self._answered > sent_before:
                    return
                self._sent += 1
                number = self._sent
                if not self._exists():
                    await self._catch_up_metadata()
                while self._exists() and not await self._advance(0):
                    pass
                self._answered = number
        except TimeoutError:
            raise CoordinatorUnavailable("the schema registry does not answer") from None
        except GoQueueError as error:
            raise CoordinatorUnavailable(f"the schema registry cannot be reached: {error}") from error

    async def _follow(self) -> None:
        while True:
            with suppress(GoQueueError):
                while self._exists() and not self._is_led_here():
                    before = self._position
                    await self._advance(_HOLD_MS)
                    if self._position == before:
                        # A coordinator that does not hold questions must not be asked without end.
                        await asyncio.sleep(_BREATH_SECONDS)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _advance(self, wait_ms: int) -> bool:
        """Take in what one question brings; returns whether everything is known that was there when it was asked."""
        asked_ms, asked_from = self._clock.monotonic_ms(), self._position
        if asked_from is not None and asked_ms - self._heard_ms > _BEGIN_ANEW_MS:
            self._position = asked_from = None
        try:
            changes = await self._ask(asked_from, wait_ms)
        except UnknownPeerCall:
            self._note_unknown(is_unknown=True)
            raise
        self._note_unknown(is_unknown=False)
        if self._position != asked_from:
            # Another question was answered meanwhile, and has brought the same.
            return self._position is not None and self._has_reached(self._position, changes) and self._is_shown
        if changes.is_anew:
            self._tables = RegistryState(self._on_switched)
        try:
            for key, value in changes.records:
                self._tables.apply(key, value)
        except GoQueueError:
            # Half of the changes are in the tables: begin anew.
            self._position = None
            raise
        self._position, self._heard_ms = changes.position, asked_ms
        if not self._has_reached(changes.position, changes):
            return False
        if not self._is_shown:
            self.known = self._tables
            self._on_switched()
        self._asked_ms = asked_ms
        return True

    def _note_unknown(self, *, is_unknown: bool) -> None:
        if self.is_unknown != is_unknown:
            self.is_unknown = is_unknown
            self._on_switched()

    @property
    def _is_shown(self) -> bool:
        return self.known is self._tables

    @staticmethod
    def _has_reached(position: Position, changes: Changes) -> bool:
        return position.topic_id == changes.position.topic_id and position.offset >= changes.end_offset
