"""How much is done: three sizes of the same run."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench.peers.common import DISTINCT

# A message costs a client about as much as so many of its bytes.
BYTES_OF_A_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done."""

    name: str
    rounds: int
    # Of messages there and back by size, of queues and of long logs: most bars hang on them, and noise hits rates most.
    throughput_rounds: int
    # More of them for brokers that all have the same client: what is nearly alike needs many rounds to be told apart.
    close_rounds: int
    # Messages by their size in bytes, for the fastest clients.
    messages: dict[int, int]
    # Of 1 KB where each waits for the disk, of 100 B where each is acknowledged by its reader.
    single_messages: int
    # What a slower client's part of a round should take, about: it gets fewer messages.
    part_seconds: float
    rates: tuple[int, ...]
    latency_seconds: float
    partitions: tuple[int, ...]
    log_gib: tuple[float, ...] = ()

    def messages_for(self, pace: int, size: int, most: int) -> int:
        """How many messages of `size` a client of this pace gets: rates are compared, so they may differ."""
        worth = pace * self.part_seconds * (BYTES_OF_A_MESSAGE + 100) / (BYTES_OF_A_MESSAGE + size)
        return max(DISTINCT, min(most, int(worth)) // DISTINCT * DISTINCT)


SMOKE = Scale("smoke", 1, 1, 0, {100: 2_000}, 1_000, 1, (200,), 0.5, (1, 10))
QUICK = Scale(
    "quick", 3, 4, 7, {100: 1_500_000, 1000: 1_000_000, 10_000: 100_000}, 200_000, 2, (1000, 5000), 3, (1, 10, 100)
)
FULL = Scale(
    "full",
    5,
    7,
    6,
    {100: 3_000_000, 1000: 1_500_000, 10_000: 150_000},
    600_000,
    6,
    (1000, 5000),
    20,
    (1, 10, 100),
    (1, 10),
)
SCALES = {scale.name: scale for scale in (SMOKE, QUICK, FULL)}
