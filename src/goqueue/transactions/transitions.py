"""How one transactional id changes: pure functions from one `TransactionRecord` to the next.

A producer is fenced by its epoch. An epoch that is raised against the producer's will leaves
no `last_epoch`, so that the old one is refused for good; one that the producer raised itself
is remembered, because the answer may have been lost and it will ask again (KIP-360).
"""

from __future__ import annotations

import msgspec

from goqueue.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    TransactionFenced,
)
from goqueue.records import TopicPartition
from goqueue.transactions.commands import Producer
from goqueue.transactions.records import TransactionRecord, TransactionState

# Epochs have 16 bits (W40). The last one is kept for fencing the holder of the one before.
EPOCH_MAX = 2**15 - 1
_NO_EPOCH = -1
_DECIDED = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}
_DONE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


def new_id(producer_id: int, timeout_ms: int, now_ms: int, *, number: int = 0) -> TransactionRecord:
    """A transactional id that nobody has used, or whose epochs were used up."""
    return TransactionRecord(
        producer_id=producer_id,
        producer_epoch=0,
        last_epoch=_NO_EPOCH,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        number=number,
        partitions=(),
        started_ms=-1,
        changed_ms=now_ms,
    )


def staging(producer_id: int, timeout_ms: int, now_ms: int) -> TransactionRecord:
    """A participant that may stage records from now on.

    A name can be opened again after its end, so the transaction is numbered by its producer: no
    late note about one that had the name before can be taken for it.
    """
    return TransactionRecord(
        producer_id=producer_id,
        producer_epoch=0,
        last_epoch=_NO_EPOCH,
        timeout_ms=timeout_ms,
        state=TransactionState.ONGOING,
        number=producer_id,
        partitions=(),
        started_ms=now_ms,
        changed_ms=now_ms,
    )


def check_claim(record: TransactionRecord, claimed: Producer) -> None:
    """Refuse a producer that says who it is and is not, or no longer, the one."""
    if claimed.producer_id != record.producer_id or claimed.epoch not in {record.producer_epoch, record.last_epoch}:
        raise _fenced(record, claimed)


def is_exhausted(record: TransactionRecord) -> bool:
    """Whether the id needs a new producer id for its next epoch."""
    return record.producer_epoch >= EPOCH_MAX - 1


def raised(record: TransactionRecord, claimed: Producer | None, timeout_ms: int, now_ms: int) -> TransactionRecord:
    """The next epoch, for a producer that takes the id over; or the current one, if it asks again."""
    if claimed is not None and claimed.epoch == record.last_epoch:
        return record
    return msgspec.structs.replace(
        record,
        producer_epoch=record.producer_epoch + 1,
        last_epoch=_NO_EPOCH if claimed is None else claimed.epoch,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=(),
        started_ms=-1,
        changed_ms=now_ms,
    )


def check_producer(record: TransactionRecord, producer: Producer) -> None:
    """Refuse anybody but the current epoch."""
    if producer.producer_id != record.producer_id:
        raise InvalidProducerIdMapping(f"the transactional id does not belong to producer {producer.producer_id}")
    if producer.epoch != record.producer_epoch:
        raise _fenced(record, producer)


def check_number(record: TransactionRecord, number: int | None) -> None:
    """Refuse what was meant for another transaction of the same producer than the last."""
    if number is not None and number != record.number:
        raise InvalidTransactionState("that transaction has ended")


def with_partitions(
    record: TransactionRecord, partitions: frozenset[TopicPartition], now_ms: int
) -> TransactionRecord | None:
    """The transaction with these partitions in it, begun if need be; None if they are in it already."""
    if record.state.is_prepared:
        raise ConcurrentTransactions("the last transaction of this id is still being ended")
    if record.state is not TransactionState.ONGOING:
        return msgspec.structs.replace(
            record,
            last_epoch=_NO_EPOCH,
            state=TransactionState.ONGOING,
            number=record.number + 1,
            partitions=tuple(sorted(partitions)),
            started_ms=now_ms,
            changed_ms=now_ms,
        )
    known = record.places
    if partitions <= known:
        return None
    return msgspec.structs.replace(record, partitions=tuple(sorted(partitions | known)), changed_ms=now_ms)


def decided(record: TransactionRecord, *, commit: bool, now_ms: int) -> TransactionRecord | None:
    """The transaction with its end decided; None if that was decided before (the client asks again)."""
    state = record.state
    if state is TransactionState.ONGOING:
        return msgspec.structs.replace(record, state=_DECIDED[commit], changed_ms=now_ms)
    if state in {_DECIDED[commit], _DONE[commit]}:
        return None
    wish = "commit" if commit else "abort"
    raise InvalidTransactionState(f"there is nothing to {wish}: the transaction is in state {state.kafka_name}")


def fenced_abort(record: TransactionRecord, now_ms: int, *, claimed: Producer | None = None) -> TransactionRecord:
    """An ongoing transaction, aborted although its producer has not said so: its epoch is over.

    The marker carries the new epoch, so every partition of the transaction refuses the old one.
    """
    return msgspec.structs.replace(
        record,
        producer_epoch=record.producer_epoch + 1,
        last_epoch=_NO_EPOCH if claimed is None else claimed.epoch,
        state=TransactionState.PREPARE_ABORT,
        changed_ms=now_ms,
    )


def completed(record: TransactionRecord, now_ms: int) -> TransactionRecord:
    """A prepared transaction, when every partition knows."""
    commit = record.state is TransactionState.PREPARE_COMMIT
    return msgspec.structs.replace(record, state=_DONE[commit], partitions=(), started_ms=-1, changed_ms=now_ms)


def _fenced(record: TransactionRecord, producer: Producer) -> TransactionFenced:
    return TransactionFenced(
        f"producer {producer.producer_id} has epoch {producer.epoch}; "
        f"the transactional id is at epoch {record.producer_epoch} of producer {record.producer_id}"
    )
