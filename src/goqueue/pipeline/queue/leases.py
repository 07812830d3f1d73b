"""Messages that a batch has taken, and the offset that names them in Spark's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

# No topic can be called so.
_NUMBER, _LEASES = "@queue", "@leases"

# How a receipt is refused that no lease of the topic was ever given: the topic is gone, or another by now.
NEVER_GIVEN = 404


class Lease(NamedTuple):
    """One message that is ours for a while."""

    partition: int
    offset: int
    receipt: str
    delivery_count: int = 1

    @property
    def place(self) -> tuple[int, int]:
        """What it is, whoever has it."""
        return self.partition, self.offset


class QueueOffset(NamedTuple):
    """The number of a batch, and the messages in it."""

    number: int = 0
    leases: tuple[Lease, ...] = ()

    @classmethod
    def decode(cls, encoded: Mapping[str, Any]) -> Self:
        """From the form in the checkpoint."""
        return cls(encoded.get(_NUMBER, 0), tuple(Lease(*one) for one in encoded.get(_LEASES, ())))

    def encode(self) -> dict[str, Any]:
        """The form in the checkpoint."""
        return {_NUMBER: self.number, _LEASES: [list(one) for one in self.leases]}


def runs(leases: Sequence[Lease], gap_max: int) -> list[list[Lease]]:
    """Leases of the same partition that lie near each other: each run is read at one go."""
    found: list[list[Lease]] = []
    for one in sorted(leases):
        last = found[-1][-1] if found else None
        if last is not None and last.partition == one.partition and one.offset - last.offset <= gap_max:
            found[-1].append(one)
        else:
            found.append([one])
    return found
