"""Answers too large to be made and written at once: JSON in pieces, each made when the client has read the one before.

What is not sent yet counts in the node's budget for answers, and a client that does not read is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import msgspec
from aiohttp import web

from goqueue.broker.reading.answer_budget import AnswerBudget
from goqueue.delivery.values import Delivery
from goqueue.records import Record
from goqueue.servers.operations import MessagesReply

__all__ = ["LargeAnswer", "MessagesReply", "Sending", "large_or_bytes", "send_large", "size_of"]

_log = logging.getLogger("goqueue.http")
# Smaller answers are written at once.
LARGE_BYTES = 256 * 1024
_PIECE_BYTES = 128 * 1024
_EMPTY = b'"messages":[]'
_encode = msgspec.json.Encoder().encode


def size_of(records: Sequence[Record | Delivery]) -> int:
    """What records hold, without their headers."""
    return sum(len(one.key or b"") + len(one.value or b"") for one in records)


def _encoded_pieces(answer: MessagesReply) -> Iterator[bytes]:
    """The JSON of a reply, a few messages at a time."""
    before, after = _encode(answer.reply).split(_EMPTY, 1)
    piece = bytearray(before + b'"messages":[')
    is_first = True
    for message in answer.messages:
        if not is_first:
            piece += b","
        is_first = False
        piece += _encode(message)
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece = bytearray()
    yield bytes(piece + b"]" + after)


def _cut(body: bytes) -> Iterator[bytes]:
    """JSON that is there already, in pieces."""
    view = memoryview(body)
    for start in range(0, len(body), _PIECE_BYTES):
        yield bytes(view[start : start + _PIECE_BYTES])


class Sending:
    """One answer on its way, as the budget knows it."""

    def __init__(self, request: web.Request, answers: AnswerBudget, size_bytes: int) -> None:
        self._request = request
        self._answers = answers
        self._left_bytes = size_bytes

    def __enter__(self) -> Self:
        self._answers.set_unread(self, self.unread_bytes())
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.forget(self)

    async def write(self, response: web.StreamResponse, piece: bytes) -> None:
        """Write a piece and wait until nearly all of it is read."""
        self._left_bytes = max(0, self._left_bytes - len(piece))
        await response.write(piece)
        # A client that reads as fast as we write never makes us wait: others get their turn here.
        await asyncio.sleep(0)
        self._answers.set_unread(self, self.unread_bytes())

    def unread_bytes(self) -> int:
        """What is not made yet, and what is made and not taken. At least 1: an answer is under way."""
        transport = self._request.transport
        return max(1, self._left_bytes + (0 if transport is None else transport.get_write_buffer_size()))

    def go_on(self) -> None:
        """Nothing waits here."""

    def evict(self, reason: str) -> None:
        """Close: the client does not read."""
        _log.warning("closing connection from %s: %s", self._request.remote, reason)
        if self._request.transport is not None:
            self._request.transport.abort()


class LargeAnswer(NamedTuple):
    """The pieces of an answer, and what they hold together, roughly."""

    pieces: Iterator[bytes]
    size_bytes: int


def large_or_bytes(body: Any) -> bytes | LargeAnswer:
    """A reply as JSON, or in pieces where it is large."""
    if isinstance(body, MessagesReply):
        if body.size_bytes > LARGE_BYTES:
            return LargeAnswer(_encoded_pieces(body), body.size_bytes)
        return b"".join(_encoded_pieces(body))
    encoded = _encode(body)
    return encoded if len(encoded) <= LARGE_BYTES else LargeAnswer(_cut(encoded), len(encoded))


async def send_large(
    request: web.Request, response: web.StreamResponse, answer: LargeAnswer, answers: AnswerBudget
) -> None:
    """Send an answer piece by piece. ConnectionError when the client goes away or is closed."""
    with Sending(request, answers, answer.size_bytes) as sending:
        await response.prepare(request)
        for piece in answer.pieces:
            await sending.write(response, piece)
        await response.write_eof()
