"""How coordinators write keys and values: one byte that says what follows, then msgpack.

The byte stands for a kind of record and its version together. A kind that changes gets a new
byte and a new Struct; the old one stays readable. Structs should be `array_like`, so that the
same key is always the same bytes: compaction compares nothing else.

    KEYS = RecordCodec({0: OffsetKey, 1: GroupKey})
    KEYS.decode(KEYS.encode(OffsetKey("g", "t", 3))) == OffsetKey("g", "t", 3)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from goqueue.errors import StorageError

S = TypeVar("S", bound=msgspec.Struct)


class RecordCodec(Generic[S]):
    """Encodes Structs by their type, decodes them by their first byte."""

    def __init__(self, types: Mapping[int, type[S]]) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._tags: dict[type[S], bytes] = {type_: bytes([tag]) for tag, type_ in types.items()}
        self._decoders = {tag: msgspec.msgpack.Decoder(type_) for tag, type_ in types.items()}

    def encode(self, value: S) -> bytes:
        """The value's bytes, led by the byte of its type."""
        return self._tags[type(value)] + self._encoder.encode(value)

    def decode(self, data: bytes) -> S:
        """The value, of the type that its first byte names."""
        decoder = self._decoders.get(data[0]) if data else None
        if decoder is None:
            raise StorageError(f"a stored record begins with {data[:1]!r}: a newer GoQueue wrote it, or it is damaged")
        try:
            return decoder.decode(memoryview(data)[1:])
        except msgspec.MsgspecError as error:
            raise StorageError(f"a stored record of kind {data[0]} cannot be read: {error}") from error
