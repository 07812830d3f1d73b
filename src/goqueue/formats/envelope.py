"""Where a message says which schema it was written with.

- prefix v0: a zero byte and the id in four; prefix v1: a one byte and a GUID in sixteen;
- headers `__key_schema_id` and `__value_schema_id`, which hold a prefix;
- header `schema-id`, which holds the id of the value's schema as decimal text.
Behind the prefix of a Protobuf schema, in a header too, follow the indexes of the message within the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from goqueue.errors import InvalidValue

KEY_HEADER = "__key_schema_id"
VALUE_HEADER = "__value_schema_id"
ID_HEADER = "schema-id"
_ID_BYTES, _GUID_BYTES = 5, 17
_INDEXES_MAX = 64
_FIRST = (0,)


class Envelope(NamedTuple):
    """Which schema a value names, and where the value begins."""

    schema_id: int | None
    guid: str | None
    # Where what follows the prefix begins: Protobuf's indexes, or the value itself.
    start: int
    # Whether the schema stands in a header, and what follows it there: Protobuf's indexes.
    in_header: bool = False
    rest: bytes = b""

    @property
    def is_named(self) -> bool:
        """Whether a schema is named at all."""
        return self.schema_id is not None or self.guid is not None


NO_ENVELOPE = Envelope(None, None, 0)


def open_envelope(value: bytes, headers: Sequence[tuple[str, bytes | None]] = (), *, is_key: bool = False) -> Envelope:
    """Which schema a value names; headers come before prefixes."""
    own = KEY_HEADER if is_key else VALUE_HEADER
    for name, content in headers:
        if name == own and content is not None:
            found = _prefix(content)
            if not found.is_named:
                raise InvalidValue(f"header {own} is not a schema id: it must hold a byte 0 and 4 bytes, or 1 and 16")
            return Envelope(found.schema_id, found.guid, 0, in_header=True, rest=content[found.start :])
        if name == ID_HEADER and not is_key and content is not None:
            return _by_id_header(value, content)
    return _prefix(value)


def message_of(envelope: Envelope, value: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes of the Protobuf message that a value is, and where the message begins."""
    if not envelope.in_header:
        return message_indexes(value, envelope.start)
    return (message_indexes(envelope.rest, 0)[0] if envelope.rest else _FIRST), envelope.start


def message_indexes(value: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """The indexes of a Protobuf message, and where the message begins."""
    count, at = _zigzag(value, start)
    if count == 0:
        return _FIRST, at
    if not 0 < count <= _INDEXES_MAX:
        raise InvalidValue(f"the prefix names a Protobuf message by {count} indexes")
    indexes: list[int] = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        if index < 0:
            raise InvalidValue("the prefix names a Protobuf message by a negative index")
        indexes.append(index)
    return tuple(indexes), at


def prefix_of(schema_id: int, indexes: Sequence[int] | None = None) -> bytes:
    """The prefix v0 of a value; `indexes` for Protobuf alone."""
    prefix = b"\0" + schema_id.to_bytes(4, "big")
    if indexes is None:
        return prefix
    if tuple(indexes) == _FIRST:
        return prefix + b"\0"
    return prefix + b"".join(_unsigned(index << 1) for index in (len(indexes), *indexes))


def _by_id_header(value: bytes, content: bytes) -> Envelope:
    if not content.isdigit() or len(content) > 10:
        raise InvalidValue(f"header {ID_HEADER} is not a schema id in decimal: {content[:20]!r}")
    schema_id = int(content)
    prefixed = _prefix(value)
    # Both may be there, if they agree.
    start = prefixed.start if prefixed.schema_id == schema_id else 0
    return Envelope(schema_id, None, start, in_header=start == 0)


def _prefix(content: bytes) -> Envelope:
    size = len(content)
    if size >= _ID_BYTES and content[0] == 0:
        return Envelope(int.from_bytes(content[1:5], "big"), None, _ID_BYTES)
    if size >= _GUID_BYTES and content[0] == 1:
        return Envelope(None, str(UUID(bytes=bytes(content[1:17]))), _GUID_BYTES)
    return NO_ENVELOPE


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 35:
        if at >= len(value):
            raise InvalidValue("the value ends within the indexes of its Protobuf message")
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    raise InvalidValue("an index of a Protobuf message is too large")


def _unsigned(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
