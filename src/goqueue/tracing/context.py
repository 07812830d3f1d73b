"""Trace ids: the one that a record brings along, or one that follows from where the record lies.

W3C Trace Context: `00-{32 hex trace id}-{16 hex span id}-{2 hex flags}`. An id that follows from the place can
be turned back into it, so that a trace of a message that nobody opened is found without an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import mmh3

from goqueue.records import TRACEPARENT, Header
from goqueue.tracing.events import Kind

TRACE_ID_DIGITS = 32
SPAN_ID_DIGITS = 16
SAMPLED = 0x01
_HEX = frozenset("0123456789abcdef")
_PARTS = 4
_FLAG_DIGITS = 2

# A permutation of the numbers of 128 bits: samplers expect ids whose low bits look random.
_BITS = 128
_MASK = (1 << _BITS) - 1
_FACTORS = (0x9E3779B97F4A7C15F39CC0605CEDC835, 0xC2B2AE3D27D4EB4F165667B19E3779F9)
_INVERSES = tuple(pow(factor, -1, 1 << _BITS) for factor in _FACTORS)
_HALF = _BITS // 2
_OFFSET_BITS = 56
_PARTITION_BITS = 24


class TraceContext(NamedTuple):
    """Whose trace a record is part of."""

    trace_id: str
    span_id: str
    flags: int = SAMPLED

    @property
    def is_sampled(self) -> bool:
        """Whether its sender records the trace."""
        return bool(self.flags & SAMPLED)

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def parse_traceparent(text: str) -> TraceContext | None:
    """What a traceparent says; None if it is not one. A later version may have further parts, which are not read."""
    parts = text.strip().split("-")
    if len(parts) < _PARTS or (parts[0] == "00" and len(parts) != _PARTS):
        return None
    version, trace_id, span_id, flags = parts[:_PARTS]
    if not (_is_hex(version, _FLAG_DIGITS) and version != "ff" and _is_hex(flags, _FLAG_DIGITS)):
        return None
    if not (_is_hex(trace_id, TRACE_ID_DIGITS) and _is_hex(span_id, SPAN_ID_DIGITS)):
        return None
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(trace_id, span_id, int(flags, 16))


def context_of(headers: Sequence[Header]) -> TraceContext | None:
    """The trace context in a record's headers. The last traceparent counts, as of all headers that occur twice."""
    for name, value in reversed(headers):
        if name == TRACEPARENT and value is not None:
            return parse_traceparent(value.decode("ascii", "replace"))
    return None


def is_trace_id(text: str) -> bool:
    """Whether it has the form of a trace id."""
    return _is_hex(text, TRACE_ID_DIGITS) and int(text, 16) != 0


class Places:
    """Trace ids that follow from places, in one cluster."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._topics: dict[UUID, int] = {}

    def trace_id(self, topic_id: UUID, partition: int, offset: int) -> str:
        """The trace id of a record that brings none along."""
        plain = (self._topic_bits(topic_id) << _PARTITION_BITS) | (partition & ((1 << _PARTITION_BITS) - 1))
        mixed = (plain << _OFFSET_BITS) | (offset & ((1 << _OFFSET_BITS) - 1))
        for factor in _FACTORS:
            mixed = (mixed * factor) & _MASK
            mixed ^= mixed >> _HALF
        return f"{mixed or 1:032x}"

    def place_of(self, trace_id: str, topics: Sequence[UUID]) -> tuple[UUID, int, int] | None:
        """(topic, partition, offset) that have this id; None if none of these topics has."""
        mixed = int(trace_id, 16)
        for inverse in reversed(_INVERSES):
            mixed ^= mixed >> _HALF
            mixed = (mixed * inverse) & _MASK
        offset = mixed & ((1 << _OFFSET_BITS) - 1)
        partition = (mixed >> _OFFSET_BITS) & ((1 << _PARTITION_BITS) - 1)
        wanted = mixed >> (_OFFSET_BITS + _PARTITION_BITS)
        found = next((one for one in topics if self._topic_bits(one) == wanted), None)
        return None if found is None else (found, partition, offset)

    def _topic_bits(self, topic_id: UUID) -> int:
        bits = self._topics.get(topic_id)
        if bits is None:
            text = f"{self._cluster_id}:{topic_id}"
            bits = mmh3.hash128(text.encode(), signed=False) >> (_OFFSET_BITS + _PARTITION_BITS)
            self._topics[topic_id] = bits
        return bits


def span_id_of(trace_id: str, kind: Kind, at_ms: int, number: int) -> str:
    """The span of an event: the same whenever it is exported, so that a repeat is recognised."""
    found = mmh3.hash64(f"{trace_id}:{kind}:{at_ms}:{number}".encode(), signed=False)[0]
    return f"{found or 1:016x}"


def root_span_id(trace_id: str, producer_span_id: str | None) -> str:
    """The span of a message as such. Several messages of one trace differ by the producer's spans."""
    found = mmh3.hash64(f"{trace_id}:{producer_span_id or ''}:root".encode(), signed=False)[0]
    return f"{found or 1:016x}"


def _is_hex(text: str, digits: int) -> bool:
    return len(text) == digits and _HEX.issuperset(text)
