"""Clients of a simulated cluster: idempotent producers that repeat a batch until it is acknowledged with acks=all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import GoQueueError, ProducerError
from goqueue.records import NewRecord, TopicPartition
from goqueue.testing.cluster.cluster import TOPIC, SimCluster
from goqueue.testing.faults import Crash

_WAIT_S_MAX = 0.05
_SILENCES = 0.15
_ASTRAY = 0.3
_SILENCE_S_MAX = 3.0


@dataclass
class Sent:
    """One batch, and what became of it."""

    place: TopicPartition
    values: tuple[bytes, ...]
    # The offset behind it, once it is acknowledged.
    end: int = -1
    acknowledged_s: float = 0.0


@dataclass
class History:
    """All that the clients sent."""

    sent: list[Sent] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    # Of each partition, the batch with the highest offsets.
    last_acknowledged: dict[TopicPartition, Sent] = field(default_factory=dict)

    def acknowledge(self, sent: Sent) -> None:
        """A batch was acknowledged."""
        last = self.last_acknowledged.get(sent.place)
        if last is None or last.end < sent.end:
            self.last_acknowledged[sent.place] = sent

    def acknowledged(self, place: TopicPartition) -> list[Sent]:
        """The batches of a partition that were acknowledged, in order."""
        return [one for one in self.sent if one.place == place and one.end >= 0]

    def note(self, error: BaseException) -> None:
        """A request was refused or not answered."""
        name = type(error).__name__
        self.refusals[name] = self.refusals.get(name, 0) + 1


class Producer:
    """Sends batches to one partition, one after the other."""

    def __init__(
        self,
        cluster: SimCluster,
        history: History,
        place: TopicPartition,
        producer_id: int,
        rng: Random,
        *,
        is_bursty: bool = False,
        slots: float = 0.2,
    ) -> None:
        """`slots` is how many of its batches have a slot."""
        self._cluster = cluster
        self._history = history
        self._place = place
        self._producer_id = producer_id
        self._rng = rng
        self._is_bursty = is_bursty
        self._slots = slots
        self._sequence = 0
        self._leader = 1
        self.is_stopped = False

    async def run(self) -> None:
        """Send until told to stop; the batch under way is then given up."""
        number = 0
        while not self.is_stopped:
            count = self._rng.randrange(1, 4)
            values = tuple(b"%d/%d/%d" % (self._producer_id, number, at) for at in range(count))
            number += 1
            await self._send(values, with_slot=self._rng.random() < self._slots)
            is_silent = self._is_bursty and self._rng.random() < _SILENCES
            await asyncio.sleep(self._rng.random() * (_SILENCE_S_MAX if is_silent else _WAIT_S_MAX))

    async def _send(self, values: tuple[bytes, ...], *, with_slot: bool) -> None:
        sent = Sent(self._place, values)
        self._history.sent.append(sent)
        now_ms = self._cluster.clock.now_ms()
        batch = encode_batch(
            [NewRecord(None, value) for value in values],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._sequence,
            now_ms=now_ms,
        )
        slot = encode_batch([NewRecord(values[0], b"slot")], now_ms=now_ms) if with_slot else None
        if slot is not None:
            # The last value says that a slot belongs to it.
            batch = encode_batch(
                [*(NewRecord(None, value) for value in values[:-1]), NewRecord(b"slot:" + values[0], values[-1])],
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=self._sequence,
                now_ms=now_ms,
            )
        if self._is_bursty and self._rng.random() < _ASTRAY:
            # It has heard of another leader, or not heard of the present one.
            self._leader = self._rng.choice(list(self._cluster.slots))
        while not self.is_stopped:
            try:
                sent.end = await self._cluster.request(
                    self._leader, lambda node: node.produce(self._place, batch, slot)
                )
            except (GoQueueError, Crash) as error:
                if isinstance(error, ProducerError):
                    # Fatal for a real client, so only a leader may say so, and here it would be wrong.
                    raise
                self._history.note(error)
                hint = getattr(error, "leader", -1)
                self._leader = hint if hint > 0 else self._rng.choice(list(self._cluster.slots))
                await asyncio.sleep(0.01 + self._rng.random() * 0.05)
            else:
                sent.acknowledged_s = self._cluster.loop.time()
                self._history.acknowledge(sent)
                self._sequence += len(values)
                return


def producers(
    cluster: SimCluster, history: History, rng: Random, *, each: int = 2, is_bursty: bool = False, slots: float = 0.2
) -> list[Producer]:
    """Some for every partition."""
    return [
        Producer(
            cluster,
            history,
            TopicPartition(TOPIC, partition),
            partition * 100 + number + 1,
            Random(rng.random()),  # noqa: S311
            is_bursty=is_bursty,
            slots=slots,
        )
        for partition in range(cluster.partitions)
        for number in range(each)
    ]
