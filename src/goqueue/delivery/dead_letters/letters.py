"""Dead letters as values: their history read out of the headers, which of them are meant, and their way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from goqueue.broker.arrivals.deduplication.ids import DEDUPLICATION_HEADER
from goqueue.delivery.dead_letters.dead_letter_moves import HEADER_PREFIX
from goqueue.delivery.state.queue import UNREADABLE
from goqueue.delivery.values import ADDRESS_HEADER
from goqueue.records import Header, NewRecord

REDRIVEN_HEADER = "goqueue-redriven-at"
# Headers that have done their work, and what they are called in the history: the topic would act on them again.
SPENT_HEADERS = {
    DEDUPLICATION_HEADER: HEADER_PREFIX + "dedup-id",
    "goqueue-delay-ms": HEADER_PREFIX + "delay-ms",
    "goqueue-deliver-at": HEADER_PREFIX + "deliver-at",
}


class Letter(NamedTuple):
    """One dead letter: where it lies, what it was, and the history of its last death."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    # By their names without the prefix: topic, partition, offset, group, delivery-count, reason, error, ...
    history: Mapping[str, str]

    def number(self, name: str) -> int | None:
        """A figure of its history; None where it has none."""
        text = self.history.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


class LetterFilter(msgspec.Struct, frozen=True):
    """Which dead letters are meant; what is None does not matter."""

    reason: str | None = None
    group: str | None = None
    key: bytes | None = None
    header: str | None = None
    header_value: bytes | None = None
    # When they died, from the first to before the second.
    since_ms: int | None = None
    until_ms: int | None = None

    def takes(self, letter: Letter) -> bool:
        """Whether this one is meant."""
        history = letter.history
        if self.reason is not None and history.get("reason", "").lower() != self.reason.lower():
            return False
        if self.group is not None and history.get("group") != self.group:
            return False
        if self.key is not None and letter.key != self.key:
            return False
        died_ms = letter.number("died") or letter.timestamp_ms
        if self.since_ms is not None and died_ms < self.since_ms:
            return False
        if self.until_ms is not None and died_ms >= self.until_ms:
            return False
        return self.header is None or any(
            name == self.header and (self.header_value is None or value == self.header_value)
            for name, value in letter.headers
        )

    def redrives(self, letter: Letter) -> bool:
        """Whether this one is sent back: a letter that holds a raw batch only if that reason is asked for by name."""
        return self.takes(letter) and (self.reason is not None or letter.history.get("reason") != UNREADABLE)


class Edits(msgspec.Struct, frozen=True):
    """Headers to set on the way back; None takes one away."""

    headers: Mapping[str, bytes | None] = msgspec.field(default_factory=dict)


def letter_of(
    partition: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> Letter:
    """A record of a dead-letter topic. Who died twice has two histories, and the last counts."""
    history = {
        name.removeprefix(HEADER_PREFIX): (text or b"").decode(errors="replace")
        for name, text in headers
        if name.startswith(HEADER_PREFIX)
    }
    return Letter(partition, offset, timestamp_ms, key, value, tuple(headers), history)


def way_back(letter: Letter, edits: Edits, now_ms: int, *, group: str | None = None) -> NewRecord:
    """The record to send again: the bytes as they were, the history with it, and the edits.

    With a group it is for that group alone. A deduplication id would keep it out of its own topic and a delay would
    hold it back once more, so they become part of the history.
    """
    headers: list[Header] = []
    for name, value in letter.headers:
        if name in edits.headers or name in {REDRIVEN_HEADER, ADDRESS_HEADER}:
            continue
        headers.append((SPENT_HEADERS.get(name, name), value))
    headers += [(name, value) for name, value in edits.headers.items() if value is not None]
    headers.append((REDRIVEN_HEADER, str(now_ms).encode()))
    if group is not None:
        headers.append((ADDRESS_HEADER, group.encode()))
    return NewRecord(letter.key, letter.value, tuple(headers))
