"""Register: the smallest state machine worth coordinating, for tests of what runs machines.

A map from text to number. It can be read, written, compared and set, waited for (a ticket
that is answered by somebody else's command) and left to expire (which is what `tick` is for).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from goqueue.coordinator.records import RecordCodec
from goqueue.coordinator.shard import Decision, Record, Reply, Transaction
from goqueue.errors import Conflict


@dataclass(frozen=True, slots=True)
class Put:
    """Write a number; replies with the one that was there. It goes by itself at `expires_at_ms`."""

    key: str
    number: int
    expires_at_ms: int | None = None
    transaction: Transaction | None = None


@dataclass(frozen=True, slots=True)
class CompareAndSet:
    """Write a number if the old one is as expected, else Conflict."""

    key: str
    expected: int | None
    number: int


@dataclass(frozen=True, slots=True)
class Read:
    """Reply with the number."""

    key: str


@dataclass(frozen=True, slots=True)
class ReadAll:
    """Reply with a copy of the map."""


@dataclass(frozen=True, slots=True)
class Await:
    """Reply with the next number that is written."""

    key: str


Command = Put | CompareAndSet | Read | ReadAll | Await


class Key(msgspec.Struct, array_like=True, frozen=True):
    """The name of a number."""

    name: str


class Value(msgspec.Struct, array_like=True, frozen=True):
    """A number, and how long it is good."""

    number: int
    expires_at_ms: int | None


KEYS = RecordCodec({0: Key})
VALUES = RecordCodec({0: Value})


@dataclass(slots=True)
class Register:
    """A `Machine`. `values` is durable; `waiting` is not and dies with the shard."""

    values: dict[str, Value] = field(default_factory=dict)
    waiting: dict[str, list[int]] = field(default_factory=dict)

    def decide(self, ticket: int, command: Command, now_ms: int) -> Decision:
        """Answer a command now, or when somebody writes."""
        del now_ms
        match command:
            case Put(key, number, expires_at_ms, transaction):
                return self._written(ticket, key, Value(number, expires_at_ms), transaction)
            case CompareAndSet(key, expected, number):
                if self.number(key) != expected:
                    raise Conflict(f"{key} is {self.number(key)}, not {expected}")
                return self._written(ticket, key, Value(number, None), None)
            case Read(key):
                return Decision(replies=[(ticket, self.number(key))])
            case ReadAll():
                return Decision(replies=[(ticket, self.numbers())])
            case Await(key):
                self.waiting.setdefault(key, []).append(ticket)
                return Decision()
            case _:
                assert_never(command)

    def tick(self, now_ms: int) -> Decision:
        """Remove what has expired."""
        due = [key for key, value in self.values.items() if value.expires_at_ms and value.expires_at_ms <= now_ms]
        return Decision(records=[(KEYS.encode(Key(key)), None) for key in due])

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take in one stored number, or its end."""
        name = KEYS.decode(key).name
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = VALUES.decode(value)

    def wake_at_ms(self) -> int | None:
        """When the next number expires."""
        return min((value.expires_at_ms for value in self.values.values() if value.expires_at_ms), default=None)

    def snapshot(self) -> bytes:
        """All numbers."""
        return msgspec.msgpack.encode(self.values)

    def restore(self, data: bytes) -> None:
        """All numbers again."""
        self.values = msgspec.msgpack.decode(data, type=dict[str, Value])

    def number(self, key: str) -> int | None:
        """What is stored under a key."""
        value = self.values.get(key)
        return None if value is None else value.number

    def numbers(self) -> dict[str, int]:
        """All that is stored."""
        return {key: value.number for key, value in self.values.items()}

    def _written(self, ticket: int, key: str, value: Value, transaction: Transaction | None) -> Decision:
        record: Record = (KEYS.encode(Key(key)), VALUES.encode(value))
        replies: list[Reply] = [(ticket, self.number(key))]
        replies += [(waiting, value.number) for waiting in self.waiting.pop(key, [])]
        return Decision([record], replies, transaction)
