"""The messages of a connection for calls: a request, its response, and the word that nobody waits any more."""

from __future__ import annotations

import msgspec

from goqueue.cluster.error_codec import SentError


class Request(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Answer this within `timeout_ms`, counted from the arrival: clocks of two nodes are not compared."""

    number: int
    method: str
    timeout_ms: int
    body: bytes


class Response(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """What a handler returned, or the error that it raised."""

    number: int
    body: bytes
    error: SentError | None = None


class Abandon(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The caller has gone: stop working for it."""

    number: int


Message = Request | Response | Abandon

encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def decode(raw: bytes) -> Message:
    """The message in these bytes; raises msgspec.MsgspecError for anything else."""
    return _decoder.decode(raw)
