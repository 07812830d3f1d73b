"""Asking a peer: typed questions over `PeerCalls`, in the name of the caller, followed to whoever leads now.

Values are MessagePack by their types; errors among them travel by class and fields. A question that is refused
because the node asked does not lead (any more), or that cannot be sent, is asked again once the metadata has caught
up, for `RETRY_MS_MAX` at most. What was sent and not answered is not repeated, and neither is a write that its leader
took just before it lost its leadership, unless the question says that a repeat does no harm: the next leader may have
it, would store it twice, or would call a receipt expired that was settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from goqueue.caller import Caller
from goqueue.cluster.error_codec import SentError, received_error, sent_error
from goqueue.errors import (
    CoordinatorUnavailable,
    DiskFull,
    GoQueueError,
    MetadataUnavailable,
    NotFound,
    NotLeader,
    PeerUnreachable,
    RequestTimedOut,
    ShuttingDown,
)

if TYPE_CHECKING:
    from goqueue.anywhere.homes import Homes
    from goqueue.cluster.calls import PeerCalls

Question = TypeVar("Question")
Reply = TypeVar("Reply")

RETRY_MS_MAX = 5_000
CATCH_UP_SECONDS_MAX = 1.0
_PAUSE_SECONDS = 0.02
_PAUSE_SECONDS_MAX = 0.5
# What a peer may take, beyond the wait that was asked of it.
ANSWER_MS = 10_000


class _Asked(msgspec.Struct, Generic[Question], frozen=True, array_like=True):
    """A question, in whose name it is asked, and which revision of the metadata the node that asks has seen."""

    caller: Caller
    question: Question
    revision: int = 0


class PeerMethod(Generic[Question, Reply]):
    """A question that nodes ask each other: its name, and the types of question and reply."""

    def __init__(self, name: str, question: type[Question], reply: Any) -> None:
        """`reply` is a type, or a form of one such as `list[int] | None`."""
        self.name = name
        self.question = msgspec.msgpack.Decoder(_Asked[question], dec_hook=_decoded)  # type: ignore[valid-type]
        self.reply: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(reply, dec_hook=_decoded)


class Asking:
    """Asks peers, and answers them."""

    def __init__(self, calls: PeerCalls, homes: Homes, catch_up: Callable[[], Awaitable[None]]) -> None:
        self.calls = calls
        self._catch_up = catch_up
        self.homes = homes
        # By the name of the question.
        self._handlers: dict[str, Callable[[Any, Caller], Awaitable[Any]]] = {}

    def begin(self) -> None:
        """All that peers may ask for can be answered."""
        self.calls.begin()

    def answer(
        self, method: PeerMethod[Question, Reply], handler: Callable[[Question, Caller], Awaitable[Reply]]
    ) -> None:
        """Answer that question with the local service."""

        async def handle(body: bytes, _peer: int) -> bytes:
            asked = method.question.decode(body)
            if asked.revision > self.homes.revision:
                # Whoever was told that a topic exists must not hear from this node that there is none.
                await self._know_more()
            is_behind = asked.revision > self.homes.revision
            try:
                return _encode(await handler(cast("Question", asked.question), asked.caller))
            except NotFound as refusal:
                if not is_behind:
                    raise
                # The metadata store was slow or did not answer: what is asked for may be there all the same.
                raise NotLeader(f"this node has not caught up with the metadata: {refusal}") from refusal

        self._handlers[method.name] = handler
        self.calls.serve(method.name, handle)

    async def ask(
        self,
        node_id: int,
        method: PeerMethod[Question, Reply],
        question: Question,
        caller: Caller,
        *,
        timeout_ms: int = ANSWER_MS,
        on_late: Callable[[Reply], None] | None = None,
    ) -> Reply:
        """Ask one node, and wait for its reply; its refusal is raised."""
        late = None if on_late is None else lambda raw: on_late(method.reply.decode(raw))
        body = _encode(_Asked(caller, question, self.homes.revision))
        raw = await self.calls.call(node_id, method.name, body, timeout_ms=timeout_ms, on_late=late)
        return method.reply.decode(raw)

    async def ask_or_answer(
        self,
        node_id: int,
        method: PeerMethod[Question, Reply],
        question: Question,
        caller: Caller,
        *,
        timeout_ms: int = ANSWER_MS,
    ) -> Reply:
        """As `ask`, of any node: what this one is asked it answers itself, for as long as that takes."""
        if node_id == self.homes.node_id:
            return cast("Reply", await self._handlers[method.name](question, caller))
        return await self.ask(node_id, method, question, caller, timeout_ms=timeout_ms)

    async def at_home(
        self, home: Callable[[], int], ask: Callable[[int], Awaitable[Reply]], *, is_repeatable: bool = False
    ) -> Reply:
        """What `ask` gets from the node that `home` names, which is asked anew after each refusal.

        `is_repeatable`: what was done already does no harm when it is done again, and is answered in the same way.
        """
        deadline = asyncio.get_running_loop().time() + RETRY_MS_MAX / 1000
        pause = _PAUSE_SECONDS
        while True:
            try:
                return await ask(home())
            except GoQueueError as refusal:
                is_followed = is_elsewhere(refusal, is_repeatable=is_repeatable)
                if not is_followed or asyncio.get_running_loop().time() + pause > deadline:
                    raise
            await self.settle_down(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    async def settle_down(self, seconds: float = _PAUSE_SECONDS) -> None:
        """Give a change of leadership time to become known here."""
        await asyncio.sleep(seconds)
        await self._know_more()

    async def know_all(self) -> None:
        """Wait until this node has seen all metadata that was written before; raises CoordinatorUnavailable."""
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                await self._catch_up()
        except (MetadataUnavailable, TimeoutError) as problem:
            raise CoordinatorUnavailable(
                "this node cannot see who coordinates: the metadata store is away"
            ) from problem

    async def _know_more(self) -> None:
        with suppress(MetadataUnavailable, TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                await self._catch_up()

    async def everywhere(self, ask: Callable[[int], Awaitable[Reply]]) -> list[Reply]:
        """What this node and every other living one say; a node that goes meanwhile is left out."""
        nodes = [self.homes.node_id, *self.homes.others()]
        outcomes = await asyncio.gather(*(ask(node) for node in nodes), return_exceptions=True)
        found: list[Reply] = []
        for outcome in outcomes:
            if isinstance(outcome, PeerUnreachable | RequestTimedOut | ShuttingDown):
                continue
            if isinstance(outcome, BaseException):
                raise outcome
            found.append(outcome)
        return found


def is_elsewhere(refusal: GoQueueError, *, is_repeatable: bool = False) -> bool:
    """Whether the refusal only says that another node is to be asked, now or soon."""
    if isinstance(refusal, PeerUnreachable) and refusal.may_be_done:
        # It may still be under way there.
        return False
    if refusal.may_be_done and not is_repeatable:
        return False
    # A leader whose disk is full hands over to a replica that has room.
    return isinstance(refusal, NotLeader | CoordinatorUnavailable | PeerUnreachable | DiskFull)


def _encoded(value: object) -> Any:
    if isinstance(value, GoQueueError):
        return sent_error(value)
    raise NotImplementedError(f"{type(value).__name__} does not travel between nodes")


def _decoded(kind: type, value: Any) -> Any:
    if issubclass(kind, GoQueueError):
        return received_error(msgspec.convert(value, SentError))
    raise NotImplementedError(f"{kind.__name__} does not travel between nodes")


_encode = msgspec.msgpack.Encoder(enc_hook=_encoded).encode
