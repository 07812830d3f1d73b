"""The topics that a sink writes to: how many partitions, how large a batch, which one a row goes to."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.client.wire import WireClient
from goqueue.errors import TopicNotFound
from goqueue.partitioner import MURMUR3
from goqueue.pipeline.errors import RowRefused
from goqueue.pipeline.sink.encoder import RECORD_OVERHEAD_BYTES
from goqueue.pipeline.sink.key_hashes import partitions_of

_BATCH_OVERHEAD_BYTES = 100
_MESSAGE_BYTES_MAX = 1_048_588


@dataclass(slots=True)
class Target:
    """One topic. `turn` goes round the partitions for rows that name neither key nor partition."""

    topic: str
    partitions: int
    record_bytes_max: int
    holds_delayed: bool
    turn: int
    partitioner: str = MURMUR3

    @property
    def batch_bytes_max(self) -> int:
        """How large the records of one batch may be together."""
        return self.record_bytes_max + RECORD_OVERHEAD_BYTES

    def choose(self, keys: pa.Array, given: pa.Array | None) -> np.ndarray:
        """The partition of each row: the one it names, else by its key as the topic says, else in turn."""
        chosen = np.full(len(keys), self.turn % self.partitions, np.int64)
        self.turn += 1
        if keys.null_count < len(keys):
            # A key that no record can hold is refused later; it is not worth a hash.
            sound = pc.if_else(pc.greater(pc.binary_length(keys), self.record_bytes_max), None, keys)
            chosen = np.where(np.asarray(keys.is_valid()), self._by_key(sound), chosen)
        if given is not None:
            named = np.asarray(given.is_valid())
            chosen[named] = np.asarray(given.fill_null(0), np.int64)[named]
        return chosen

    def _by_key(self, keys: pa.Array) -> np.ndarray:
        return partitions_of(keys, self.partitions, self.partitioner)


def first_turn(writer: str, epoch: int, task: int) -> int:
    """Where a task begins to go round the partitions: each task, each epoch and each writer somewhere else.

    Micro-batches and writes of one small task each would fill the first partition alone.
    """
    return zlib.crc32(writer.encode()) + epoch + task


class Targets:
    """Looks each topic up once."""

    def __init__(self, client: WireClient, turn: int) -> None:
        self._client = client
        self._turn = turn
        self._known: dict[str, Target | None] = {}

    def get(self, topic: str) -> Target:
        """The topic, or RowRefused if it is not there."""
        if topic not in self._known:
            self._known[topic] = self._look_up(topic)
        target = self._known[topic]
        if target is None:
            # Clients that name a topic may bring it about; a table that is written by mistake should not.
            raise RowRefused(f"there is no topic {topic!r}: create it first")
        return target

    def _look_up(self, topic: str) -> Target | None:
        try:
            info = self._client.topic(topic)
        except TopicNotFound:
            return None
        settings = self._client.topic_settings(topic)
        largest = int(settings.get("max.message.bytes") or _MESSAGE_BYTES_MAX)
        return Target(
            topic,
            len(info.leaders),
            largest - _BATCH_OVERHEAD_BYTES - RECORD_OVERHEAD_BYTES,
            settings.get("goqueue.delay.headers") == "true",
            self._turn,
            settings.get("goqueue.partitioner") or MURMUR3,
        )
