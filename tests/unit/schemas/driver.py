"""The registry without a broker: a machine whose records are applied at once, and jobs done in this process."""

from __future__ import annotations

from typing import Any

from goqueue.errors import GoQueueError
from goqueue.formats.source import SchemaType
from goqueue.schemas.commands import Register
from goqueue.schemas.machine import RegistryMachine
from goqueue.schemas.values import Reference, Schema


class Driver:
    """Runs commands, keeps the records that they led to, and replays them."""

    def __init__(self, schemas_max: int = 1000) -> None:
        self.machine = RegistryMachine(schemas_max)
        self.records: list[tuple[bytes, bytes | None]] = []

    @property
    def state(self):
        return self.machine.state

    def run(self, command: Any) -> Any:
        decision = self.machine.decide(1, command, 5)
        for key, value in decision.records:
            self.records.append((key, value))
            self.machine.apply(key, value)
        return decision.replies[0][1]

    def refused(self, command: Any) -> str:
        try:
            self.run(command)
        except GoQueueError as error:
            return type(error).__name__
        raise AssertionError(f"{command} was not refused")

    def register(self, subject: str, text: str, *references: Reference, **more: Any) -> Any:
        return self.run(Register(subject, schema(text, *references), self.state.basis(subject), **more))

    def replayed(self) -> Driver:
        other = Driver()
        for key, value in self.records:
            other.machine.apply(key, value)
        return other


def schema(text: str, *references: Reference) -> Schema:
    return Schema(SchemaType.JSON, text, text.encode(), f"guid-{text}", references)
