"""Whose transaction it is: a producer's transactional id, or a participant of an external coordinator.

The two never meet: an id that happens to read `writer/epoch/task` is an id all the same.
"""

from __future__ import annotations

from typing import NamedTuple

from goqueue.errors import InvalidRequest

WRITER_CHARS_MAX = 200
TASK_CHARS_MAX = 100
EPOCH_NUMBER_MAX = 2**63 - 1


class Participant(NamedTuple):
    """One task that stages records for one epoch of a writer, such as a Spark query."""

    writer: str
    epoch: int
    task: str

    def __str__(self) -> str:
        return f"{self.writer}/{self.epoch}/{self.task}"


Name = str | Participant


def shard_key(name: Name) -> str:
    """What decides the shard: all participants of a writer lie in one, so that one write decides them all."""
    return name.writer if isinstance(name, Participant) else name


def parse_writer(writer: str, epoch: int = 0) -> str:
    """Accept a writer and its epoch, or say what is wrong with them."""
    _check_text(writer, "writer", WRITER_CHARS_MAX)
    if not 0 <= epoch <= EPOCH_NUMBER_MAX:
        raise InvalidRequest(f"epoch {epoch} is not allowed", field="epoch", hint="use 0 to 2^63-1")
    return writer


def parse_participant(writer: str, epoch: int, task: str) -> Participant:
    """Accept the name of a participant, or say what is wrong with it."""
    parse_writer(writer, epoch)
    _check_text(task, "task", TASK_CHARS_MAX)
    return Participant(writer, epoch, task)


def _check_text(text: str, field: str, chars_max: int) -> None:
    if not 1 <= len(text) <= chars_max or not text.isprintable() or "/" in text:
        raise InvalidRequest(
            f"{field} {text[:80]!r} is not allowed",
            field=field,
            hint=f"use 1 to {chars_max} printable characters, without /",
        )
