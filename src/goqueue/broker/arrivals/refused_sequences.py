"""Refused sequences: the first batches of producers that this node has sent away for a reason that passes.

A partition that knows nothing of a producer lets it begin at any sequence. A producer has several batches under way: if
the first is refused because this node has not heard of the topic, does not lead yet, or has too few replicas in sync,
and the second arrives after that has passed, the second would be written. The first, sent again, is then out of order
for good, which librdkafka takes as a fatal error. So the second is refused as well, until the first has come again: for
a reason that passes too, because an error of its sequence would make a producer send everything again in a new epoch.

That holds for a producer that the partition knows as well, as long as the refused batch is the one that comes next. An
error of the sequence of what came behind it makes librdkafka begin a new epoch on all its partitions, and send again
there what is stored and was not acknowledged: a batch whose leader was replaced while it waited is then stored twice.

Nor need the first batch have come here at all. Kafka's Java client sends to a new leader while batches are under way to
the former one. Those come later, out of order, and once the later ones are acknowledged it sends them again and again,
with the same sequences, until it gives up. So in the beginning of a term a producer begins with its first sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.errors import GoQueueError, NotLeader, wire_of

if TYPE_CHECKING:
    from goqueue.broker.replicas.partition import Partition
    from goqueue.codec.batch import BatchHeader

# A producer sends a refused batch again much sooner than this, or never.
KEPT_MS = 60_000
KEPT_MAX = 10_000
# Sequences count from 0 to 2^31-1 and then from 0 again: what is less than half the circle ahead is behind.
_SEQUENCE_MASK = 0x7FFF_FFFF
_AHEAD_MAX = 1 << 30

_Key = tuple[str, int, int, int]


class RefusedSequences:
    """By topic, partition, producer id and epoch: the lowest sequence that was refused, and when."""

    def __init__(self) -> None:
        self._refused: dict[_Key, tuple[int, int]] = {}
        # Partitions that another node led a short while ago, and since when this one does, oldest first.
        self._began: dict[tuple[str, int], int] = {}

    def __len__(self) -> int:
        return len(self._refused)

    def __bool__(self) -> bool:
        """Whether there is anything to check."""
        return bool(self._refused or self._began)

    def take_over(self, topic: str, partition: int, now_ms: int) -> None:
        """This node leads a partition that another one led: batches may be under way to that."""
        self._began.pop((topic, partition), None)
        self._began[topic, partition] = now_ms

    def note(self, topic: str, partition: int, header: BatchHeader, error: GoQueueError, now_ms: int) -> None:
        """A batch was refused. The producer will send it again if the reason passes."""
        if header.producer_id < 0 or header.base_sequence < 0 or not wire_of(error).retriable:
            return
        key = topic, partition, header.producer_id, header.producer_epoch
        before = self._refused.get(key)
        if before is not None and 0 < header.base_sequence - before[0] & _SEQUENCE_MASK < _AHEAD_MAX:
            # It is refused because of the first one. Its time counts: a producer that has given the first one up would
            # otherwise wait for ever.
            return
        self._refused.pop(key, None)
        self._refused[key] = header.base_sequence, now_ms
        # The order of the dict is that of the last refusal.
        while self._refused and (len(self._refused) > KEPT_MAX or self._oldest_ms() + KEPT_MS < now_ms):
            del self._refused[next(iter(self._refused))]

    def check(self, place: Partition, header: BatchHeader, now_ms: int) -> None:
        """Raise `NotLeader` for a batch behind a refused one that the partition still waits for.

        The refused one itself ends the matter.
        """
        key = place.topic_name, place.id, header.producer_id, header.producer_epoch
        found = self._refused.get(key)
        if self._began and header.base_sequence > 0:
            self._check_first(place, header, now_ms)
        if found is None:
            return
        lowest, at_ms = found
        expected = place.log.producers.next_sequence(*key[2:])
        is_behind = 0 < header.base_sequence - lowest & _SEQUENCE_MASK < _AHEAD_MAX
        if is_behind and at_ms + KEPT_MS >= now_ms and (expected is None or expected == lowest):
            raise NotLeader(
                f"producer {key[2]} sent sequence {header.base_sequence}, and sequence {lowest} before it was refused: "
                "send both again, in their order"
            )
        del self._refused[key]

    def _check_first(self, place: Partition, header: BatchHeader, now_ms: int) -> None:
        began = self._began
        while began and next(iter(began.values())) + KEPT_MS < now_ms:
            del began[next(iter(began))]
        if (place.topic_name, place.id) in began and not place.log.producers.knows(header.producer_id):
            raise NotLeader(
                f"producer {header.producer_id} sent sequence {header.base_sequence}, and nothing before it has come "
                "since this node leads: send all of it again, in its order"
            )

    def _oldest_ms(self) -> int:
        return next(iter(self._refused.values()))[1]
