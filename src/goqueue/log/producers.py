"""LogProducers: what one log knows of those who write to it with sequences, or in transactions."""

from __future__ import annotations

from goqueue.codec.batch import BatchHeader
from goqueue.log.state.log_state import LogState
from goqueue.log.state.producer_state import ProducerInfo


class LogProducers:
    """The producers of one log. What is known of them changes with appends, recovery and truncation."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    def check(self, header: BatchHeader) -> int | None:
        """Refuse a batch that is neither its producer's next one nor a repeat; of a repeat, where the first one is."""
        stored = self._state.producers.check(header) if header.producer_id >= 0 else None
        return None if stored is None else stored.first_offset

    def next_sequence(self, producer_id: int, epoch: int) -> int | None:
        """The sequence that is expected next; None of a producer of whom nothing is known."""
        return self._state.producers.next_sequence(producer_id, epoch)

    def coordinator_epoch_of(self, producer_id: int) -> int:
        """The epoch of the coordinator that last ended a transaction of this producer here; -1 if none did."""
        return self._state.producers.coordinator_epoch_of(producer_id)

    def keep(self, producer_id: int) -> None:
        """Do not forget this producer while the log is open, however long it is silent: it may repeat a batch."""
        self._state.producers.keep(producer_id)

    def is_of_ended_transaction(self, header: BatchHeader) -> bool:
        """Whether a transactional batch is a repeat of one whose transaction has ended; refuses as `check`."""
        stored = self._state.producers.check(header)
        return stored is not None and not self._state.producers.is_open_at(header.producer_id, stored.first_offset)

    def has_open_transaction(self, producer_id: int) -> bool:
        """Whether the producer has written in a transaction that has not ended here."""
        return self._state.producers.has_open(producer_id)

    def knows(self, producer_id: int) -> bool:
        """Whether the producer has written here lately, or has a transaction open."""
        return self._state.producers.knows(producer_id)

    def all(self) -> list[ProducerInfo]:
        """Every producer that the log remembers."""
        return self._state.producers.producers()
