"""What the writers and consumers of a campaign were told: the side of the account that the broker cannot change.

Every message has a unique id. It is noted before it is sent and is UNKNOWN until an answer comes. A
connection that is cut leaves it UNKNOWN: such a message may be stored or not, and at most once.
"""

from __future__ import annotations

import random
import threading
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Fate(Enum):
    """What the sender knows of a message."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Entry:
    """One message: its fate, and how many kills there had been when it was sent and when it was answered."""

    sent_after_kills: int
    fate: Fate = Fate.UNKNOWN
    answered_after_kills: int = -1
    answered_ms: float = 0


class Body(NamedTuple):
    """A message as the checkers read it."""

    id: str
    key: str
    # Counts the messages of one key, from 0.
    number: int

    def encode(self, chance: random.Random) -> bytes:
        """Text of random length with a checksum, so that a damaged value is noticed."""
        text = f"{self.id} {self.key} {self.number} {chance.randbytes(chance.choice((4, 40, 400))).hex()}"
        return f"{text} {zlib.crc32(text.encode()):08x}".encode()

    @classmethod
    def decode(cls, value: bytes) -> Body:
        text, _, checksum = value.decode().rpartition(" ")
        assert f"{zlib.crc32(text.encode()):08x}" == checksum, f"a value was damaged: {value[:80]!r}"
        name, key, number, _ = text.split(" ")
        return cls(name, key, int(number))


class Ledger:
    """The messages of one kind; several threads may write in it."""

    def __init__(self, kind: str, kills: Counter[str]) -> None:
        self.kind = kind
        self.entries: dict[str, Entry] = {}
        self._kills = kills
        self._numbers: Counter[str] = Counter()
        self._lock = threading.Lock()

    def begin(self, *, keys: int = 7) -> Body:
        """Note the next message, before it is sent."""
        with self._lock:
            count = len(self.entries)
            key = f"{self.kind}-key-{count % keys}"
            body = Body(f"{self.kind}/{count}", key, self._numbers[key])
            self._numbers[key] += 1
            self.entries[body.id] = Entry(self._kills["kills"])
            return body

    def note(self, name: str, fate: Fate) -> None:
        """An answer has come."""
        entry = self.entries[name]
        entry.fate, entry.answered_after_kills = fate, self._kills["kills"]
        entry.answered_ms = entry.answered_ms or time.time() * 1000

    def with_fate(self, fate: Fate) -> list[str]:
        """Ids of the messages that ended so."""
        with self._lock:
            return [name for name, one in self.entries.items() if one.fate is fate]

    def count(self, fate: Fate) -> int:
        """How many ended so."""
        return len(self.with_fate(fate))

    def describe(self, name: str) -> str:
        """An id with the kills around it, for a report of what went wrong."""
        entry = self.entries.get(name)
        if entry is None:
            return f"{name} (never sent)"
        answered = f", answered after kill {entry.answered_after_kills}" if entry.answered_after_kills >= 0 else ""
        return f"{name} ({entry.fate.value}, sent after kill {entry.sent_after_kills}{answered})"


class Answer(Enum):
    """What a consumer of a queue says of a message."""

    ACK = "ack"
    NACK = "nack"
    REJECT = "reject"
    # Says nothing, so that the lease runs out.
    SILENCE = "silence"


def answer_for(group: str, name: str, delivery_count: int) -> Answer:
    """The same answer for the same delivery, whoever takes it: most are acked, some fail once, some for good."""
    chance = zlib.crc32(f"{group} {name}".encode()) % 40
    if chance == 0:
        return Answer.REJECT
    if chance == 1:
        return Answer.NACK
    if chance < 6 and delivery_count == 1:
        return Answer.NACK
    if chance < 8 and delivery_count == 1:
        return Answer.SILENCE
    return Answer.ACK


@dataclass
class GroupLedger:
    """What one queue group was given and what it answered."""

    group: str
    delivered: Counter[str] = field(default_factory=Counter)
    # Confirmed answers, with the time of the confirmation.
    acked: dict[str, float] = field(default_factory=dict)
    rejected: dict[str, float] = field(default_factory=dict)
    # Acks and rejections whose answer never came; either outcome is right.
    unknown: set[str] = field(default_factory=set)
    # Deliveries of what was acked before they were asked for.
    repeated: list[str] = field(default_factory=list)

    def note_delivery(self, name: str, asked_at: float) -> None:
        """A message came in answer to a request of that time."""
        self.delivered[name] += 1
        for settled in (self.acked, self.rejected):
            if settled.get(name, asked_at) < asked_at:
                self.repeated.append(name)

    def note_answer(self, name: str, answer: Answer, *, confirmed: bool) -> None:
        """An answer was sent; whether the broker said that it counted."""
        if answer not in {Answer.ACK, Answer.REJECT}:
            return
        if not confirmed:
            self.unknown.add(name)
            return
        settled = self.acked if answer is Answer.ACK else self.rejected
        settled[name] = time.monotonic()
