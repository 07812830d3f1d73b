"""What may be asked of the schema worker: check a schema, compare two, check values, decode one."""

from __future__ import annotations

from typing import Union

import msgspec

from goqueue.formats.compatibility.levels import Level
from goqueue.formats.source import Source


class CheckSchema(msgspec.Struct, frozen=True, array_like=True, tag="check"):
    """Is this a schema? Answered with `Checked`."""

    source: Source
    normalize: bool = False


class CompareSchemas(msgspec.Struct, frozen=True, array_like=True, tag="compare"):
    """May a schema follow the others? Answered with the problems, one list per older schema."""

    level: Level
    new: Source
    old: tuple[Source, ...]


class CheckValues(msgspec.Struct, frozen=True, array_like=True, tag="values"):
    """Does a schema allow these values?

    `key` names the schema in the cache, and the source is left out once it is there.
    Answered with one text per value, empty for those that are allowed. `indexes` are those of Protobuf messages.
    """

    key: str
    source: Source | None
    values: tuple[bytes, ...]
    indexes: tuple[tuple[int, ...], ...] = ()


class DecodeValue(msgspec.Struct, frozen=True, array_like=True, tag="decode"):
    """What does a value say? Answered with its JSON."""

    source: Source
    value: bytes
    indexes: tuple[int, ...] = (0,)


class DecodeValues(msgspec.Struct, frozen=True, array_like=True, tag="decode_many"):
    """The same of many values. Answered with a pair for each: its JSON, or else what is wrong with it."""

    key: str
    source: Source
    values: tuple[bytes, ...]
    indexes: tuple[tuple[int, ...], ...] = ()


Job = Union[CheckSchema, CompareSchemas, CheckValues, DecodeValue, DecodeValues]  # noqa: UP007 - msgspec's decoder wants the object


class Outcome(msgspec.Struct, array_like=True):
    """An answer: a result in msgpack, or what is wrong and with which field."""

    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    refusal: str = ""
    field: str = ""
    hint: str = ""
    # The package of the extra that is missing.
    missing: str = ""
    # Only to `CheckValues` without a source: the schema is not in the cache.
    unknown: bool = False
