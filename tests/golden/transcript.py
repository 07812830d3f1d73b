"""Golden transcripts: what a state machine is told, and the records and replies that follow, as text.

A transcript is read from top to bottom without running anything:

    # A remark for the reader.
    @ 5000              five seconds later; what falls due in between is shown at its own time
    > Command(...)      a command, as Python writes it
    = restart           the machine is lost and built again from its records

Everything else is written by the machine: `record` lines are what it stores, `reply` lines are its answers with the
number of the command that they belong to. `pytest tests/golden --golden-update` writes those lines again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from goqueue.broker.replicas.safety import Safety
from goqueue.coordinator.records import RecordCodec
from goqueue.coordinator.shard import Decision, Machine
from goqueue.errors import GoQueueError

START_MS = 1_000_000
_WIDTH = 118
_GIVEN = {Safety.WRITTEN: ", before it is replicated", Safety.REPLICATED: ", before it is synced", Safety.SYNCED: ""}


@dataclass(frozen=True)
class Stage:
    """What a transcript of one kind of machine needs."""

    new_machine: Callable[[], Machine]
    keys: RecordCodec[Any]
    values: RecordCodec[Any]
    # What commands may name.
    names: Mapping[str, object]


def play(text: str, stage: Stage) -> str:
    """The transcript with the lines of the machine written anew."""
    return "\n".join(_Player(stage).lines(text.splitlines())) + "\n"


class _Player:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._machine = stage.new_machine()
        self._log: list[tuple[bytes, bytes | None]] = []
        self._now_ms = START_MS
        self._tickets = 0

    def lines(self, script: list[str]) -> Iterator[str]:
        for line in script:
            if line.startswith(("#", "@", ">", "=")) or not line.strip():
                yield line.rstrip()
            if line.startswith("@"):
                yield from self._wait(int(line[1:].split()[0]))
            elif line.startswith(">"):
                yield from self._tell(line[1:].strip())
            elif line.startswith("= restart"):
                self._machine = self._stage.new_machine()
                for key, value in self._log:
                    self._machine.apply(key, value)

    def _tell(self, source: str) -> Iterator[str]:
        self._tickets += 1
        command = eval(source, {"__builtins__": {}}, dict(self._stage.names))
        try:
            decision = self._machine.decide(self._tickets, command, self._now_ms)
        except GoQueueError as refusal:
            decision = Decision(replies=[(self._tickets, refusal)])
        yield from self._carried_out(decision)

    def _wait(self, wait_ms: int) -> Iterator[str]:
        until_ms = self._now_ms + wait_ms
        while (due_ms := self._machine.wake_at_ms()) is not None and due_ms <= until_ms:
            self._now_ms = max(self._now_ms, due_ms)
            shown = list(self._carried_out(self._machine.tick(self._now_ms)))
            if shown:
                yield f"    at {_time(self._now_ms)}"
                yield from shown
            if self._machine.wake_at_ms() == due_ms:
                raise AssertionError("the machine wants to be woken again at the same time")
        self._now_ms = until_ms

    def _carried_out(self, decision: Decision) -> Iterator[str]:
        for key, value in decision.records:
            self._log.append((key, value))
            self._machine.apply(key, value)
            shown = "deleted" if value is None else show(self._stage.values.decode(value))
            yield from _wrapped(f"    record {show(self._stage.keys.decode(key))}: {shown}")
        held = _GIVEN[decision.safety]
        for ticket, reply in decision.replies:
            to = "" if ticket == self._tickets else f" to command {ticket}"
            yield from _wrapped(f"    reply{to}{held}: {show(reply)}")


def show(value: object) -> str:
    """A value as a reader wants it: names of fields, nothing that is as always, times from the beginning."""
    if isinstance(value, GoQueueError):
        return f"{type(value).__name__}, {value}"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, UUID):
        return f"id-{value.int}"
    if isinstance(value, bytes):
        return f"id-{value[-1]}" if len(value) == 16 and not any(value[:-1]) else repr(value)
    if isinstance(value, frozenset | set):
        return "{" + ", ".join(sorted(map(show, value))) + "}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{show(key)}: {show(one)}" for key, one in value.items()) + "}"
    if (named := _fields_of(value)) is not None:
        return f"{type(value).__name__}({', '.join(f'{name}={_field(name, one)}' for name, one in named)})"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(show, value)) + "]"
    return repr(value)


def _fields_of(value: object) -> list[tuple[str, object]] | None:
    """Fields that differ from their defaults; None if the value has no named fields."""
    if isinstance(value, msgspec.Struct):
        all_fields = [(one.name, _default(one.default)) for one in msgspec.structs.fields(value)]
    elif is_dataclass(value):
        all_fields = [(one.name, one.default) for one in fields(value)]
    elif isinstance(value, tuple) and hasattr(value, "_field_defaults"):
        all_fields = [(name, value._field_defaults.get(name, ...)) for name in value._fields]  # type: ignore[attr-defined]
    else:
        return None
    given = [(name, getattr(value, name), default) for name, default in all_fields]
    return [(name, one) for name, one, default in given if default is ... or one != default]


def _default(default: object) -> object:
    return ... if default is msgspec.NODEFAULT else default


def _field(name: str, value: object) -> str:
    is_time = name.endswith("_ms") and isinstance(value, int) and value >= START_MS
    return _time(value) if is_time and isinstance(value, int) else show(value)


def _time(at_ms: int) -> str:
    return f"start+{at_ms - START_MS}ms"


def _wrapped(line: str) -> Iterator[str]:
    """A long line in pieces, cut behind commas, the rest indented."""
    while len(line) > _WIDTH:
        cut = line.rfind(", ", 0, _WIDTH)
        if cut < _WIDTH // 3:
            break
        yield line[: cut + 1]
        line = " " * 11 + line[cut + 2 :]
    yield line
