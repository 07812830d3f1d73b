"""Jaeger agents of old: `Agent.emitBatch` in compact Thrift over UDP. Current Jaeger takes OTLP.

Compact Thrift: integers are zigzag varints, a field is its distance from the last field and its type in one
byte, a list its size and type in one byte, a struct ends with zero.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from goqueue.tracing.spans import Span

# What an agent takes in one datagram.
DATAGRAM_BYTES_MAX = 65_000
_I32, _I64, _DOUBLE, _BINARY, _LIST, _STRUCT = 5, 6, 7, 8, 9, 12
_TRUE, _FALSE = 1, 2
# Protocol 0x82; a one-way message of version 1; sequence 0.
_MESSAGE = b"\x82\x81\x00\x09emitBatch"
_SHORT_LIST = 15
_STRING_TAG, _DOUBLE_TAG, _BOOL_TAG, _LONG_TAG = 0, 1, 2, 3
_HALF = 1 << 63


class JaegerExporter:
    """Sends spans in datagrams, as many in each as it holds."""

    name = "jaeger"

    def __init__(self, host: str, port: int, *, service: str) -> None:
        self._address = (host, port)
        self._service = service
        family = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0][0]
        self._socket = socket.socket(family, socket.SOCK_DGRAM)

    def export(self, spans: Sequence[Span]) -> None:
        """Send them. Nobody answers, so what the agent does not get is not known."""
        for datagram in datagrams(spans, self._service):
            self._socket.sendto(datagram, self._address)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def datagrams(spans: Sequence[Span], service: str) -> Iterable[bytes]:
    """Messages that fit a datagram each; a span that is larger by itself is left out."""
    process = _struct((1, _BINARY, _text(service)))
    room = DATAGRAM_BYTES_MAX - len(_MESSAGE) - len(process) - 32
    part: list[bytes] = []
    size = 0
    for span in spans:
        encoded = _span(span)
        if len(encoded) > room:
            continue
        if size + len(encoded) > room:
            yield _message(process, part)
            part, size = [], 0
        part.append(encoded)
        size += len(encoded)
    if part:
        yield _message(process, part)


def _message(process: bytes, spans: Sequence[bytes]) -> bytes:
    batch = _struct((1, _STRUCT, process), (2, _LIST, _list(_STRUCT, spans)))
    return _MESSAGE + _struct((1, _STRUCT, batch))


def _span(span: Span) -> bytes:
    trace_id = int(span.trace_id, 16)
    parent = 0 if span.parent_span_id is None else int(span.parent_span_id, 16)
    tags = {**span.attributes, "span.kind": span.role}
    if span.failed:
        tags["error"] = True
    return _struct(
        (1, _I64, _signed(trace_id)),
        (2, _I64, _signed(trace_id >> 64)),
        (3, _I64, _signed(int(span.span_id, 16))),
        (4, _I64, _signed(parent)),
        (5, _BINARY, _text(span.name)),
        (7, _I32, _zigzag(1)),
        (8, _I64, _zigzag(span.start_ms * 1000)),
        (9, _I64, _zigzag((span.end_ms - span.start_ms) * 1000)),
        (10, _LIST, _list(_STRUCT, [_tag(name, value) for name, value in tags.items()])),
    )


def _tag(name: str, value: Any) -> bytes:
    key = (1, _BINARY, _text(name))
    if isinstance(value, bool):
        return _struct(key, (2, _I32, _zigzag(_BOOL_TAG)), (5, _TRUE if value else _FALSE, b""))
    if isinstance(value, int):
        return _struct(key, (2, _I32, _zigzag(_LONG_TAG)), (6, _I64, _signed(value)))
    if isinstance(value, float):
        return _struct(key, (2, _I32, _zigzag(_DOUBLE_TAG)), (4, _DOUBLE, struct.pack("<d", value)))
    return _struct(key, (2, _I32, _zigzag(_STRING_TAG)), (3, _BINARY, _text(str(value))))


def _struct(*fields: tuple[int, int, bytes]) -> bytes:
    """Fields of rising numbers, each less than 16 behind the last."""
    parts: list[bytes] = []
    last = 0
    for number, kind, value in fields:
        parts += (bytes(((number - last) << 4 | kind,)), value)
        last = number
    return b"".join(parts) + b"\x00"


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    if len(items) < _SHORT_LIST:
        return bytes((len(items) << 4 | kind,)) + b"".join(items)
    return bytes((0xF0 | kind,)) + _varint(len(items)) + b"".join(items)


def _text(text: str) -> bytes:
    data = text.encode()
    return _varint(len(data)) + data


def _signed(number: int) -> bytes:
    """The low 64 bits, as the signed integer that Thrift has."""
    low = number & (2 * _HALF - 1)
    return _zigzag(low - 2 * _HALF if low >= _HALF else low)


def _zigzag(number: int) -> bytes:
    return _varint((number << 1) ^ (number >> 63))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
