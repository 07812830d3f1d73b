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

# Epochs have 16 bits. The last one is kept for fencing the holder of the one before.
EPOCH_MAX = 2**15 - 1
_NO_EPOCH = -1
_NO_PRODUCER = -1
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
    if claimed != Producer(record.producer_id, record.producer_epoch) and not was(record, claimed):
        raise _fenced(record, claimed)


def was(record: TransactionRecord, producer: Producer) -> bool:
    """Whether this is who the producer was before it gave that up itself, and has written nothing since."""
    producer_id = record.producer_id if record.previous_producer_id < 0 else record.previous_producer_id
    return producer.epoch == record.last_epoch and producer.producer_id == producer_id


def becomes(record: TransactionRecord) -> Producer:
    """Who the producer is once what is being ended has ended."""
    if record.next_producer_id >= 0:
        return Producer(record.next_producer_id, 0)
    return Producer(record.producer_id, record.producer_epoch)


def is_exhausted(record: TransactionRecord) -> bool:
    """Whether the id needs a new producer id for its next epoch."""
    return record.producer_epoch >= EPOCH_MAX - 1


def raised(record: TransactionRecord, claimed: Producer | None, timeout_ms: int, now_ms: int) -> TransactionRecord:
    """The next epoch, for a producer that takes the id over; or the current one, if it asks again."""
    if claimed is not None and was(record, claimed):
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
        previous_producer_id=_NO_PRODUCER,
    )


def check_producer(record: TransactionRecord, producer: Producer) -> None:
    """Refuse anybody but the current epoch, or the one that follows what is being ended."""
    if producer == becomes(record):
        return
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
            previous_producer_id=_NO_PRODUCER,
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
    check_same_end(record, commit=commit)
    return None


def check_same_end(record: TransactionRecord, *, commit: bool) -> None:
    """Refuse to end what has ended otherwise, or never began."""
    if record.state not in {_DECIDED[commit], _DONE[commit]}:
        wish, state = "commit" if commit else "abort", record.state.kafka_name
        raise InvalidTransactionState(f"there is nothing to {wish}: the transaction is in state {state}")


def ended_with_epoch(
    record: TransactionRecord, *, commit: bool, new_producer_id: int | None, now_ms: int
) -> TransactionRecord:
    """The end of a transaction whose producer goes on under the next epoch (KIP-890).

    The marker carries that epoch, so no partition takes anything late of this transaction. One
    that is empty can be aborted: its producer wants an epoch under which nothing is in flight.
    """
    if record.state.is_prepared:
        raise ConcurrentTransactions("the last transaction of this id is still being ended")
    if record.state is not TransactionState.ONGOING and commit:
        check_same_end(record, commit=commit)
        raise InvalidTransactionState("there is nothing to commit: no transaction was begun")
    ended = msgspec.structs.replace(
        record,
        producer_epoch=record.producer_epoch + 1,
        last_epoch=record.producer_epoch,
        state=_DECIDED[commit],
        changed_ms=now_ms,
        next_producer_id=_NO_PRODUCER if new_producer_id is None else new_producer_id,
        previous_producer_id=_NO_PRODUCER,
    )
    return ended if record.state is TransactionState.ONGOING else completed(ended, now_ms)


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
        previous_producer_id=_NO_PRODUCER,
    )


def completed(record: TransactionRecord, now_ms: int) -> TransactionRecord:
    """A prepared transaction, when every partition knows."""
    commit = record.state is TransactionState.PREPARE_COMMIT
    done = msgspec.structs.replace(record, state=_DONE[commit], partitions=(), started_ms=-1, changed_ms=now_ms)
    if record.next_producer_id < 0:
        return done
    return msgspec.structs.replace(
        done,
        producer_id=record.next_producer_id,
        producer_epoch=0,
        next_producer_id=_NO_PRODUCER,
        previous_producer_id=record.producer_id,
    )


def aborted_epoch(record: TransactionRecord) -> int:
    """The epoch whose transaction was aborted without its producer's wish; -1: there is none."""
    is_abort = record.state in {TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT}
    return record.producer_epoch - 1 if is_abort and record.last_epoch == _NO_EPOCH else _NO_EPOCH


def fenced(producer: Producer, current: Producer, *, aborted: int, timeout_ms: int) -> TransactionFenced:
    """Why a producer may not go on under its epoch: its transaction was ended from outside, or another took the id."""
    if producer.producer_id == current.producer_id and producer.epoch == aborted:
        error = TransactionFenced(
            f"the transaction of epoch {producer.epoch} was aborted: it was open for longer than its timeout of "
            f"{timeout_ms} ms, its session ended, or an operator aborted it"
        )
        error.hint = "start the producer again with the same transactional id, and repeat the transaction"
        return error
    error = TransactionFenced(
        f"another producer has taken the transactional id over: it is at epoch {current.epoch} of producer "
        f"{current.producer_id}, and this is epoch {producer.epoch} of producer {producer.producer_id}"
    )
    error.hint = "only the newest producer of a transactional id may use it"
    return error


def _fenced(record: TransactionRecord, producer: Producer) -> TransactionFenced:
    current = Producer(record.producer_id, record.producer_epoch)
    return fenced(producer, current, aborted=aborted_epoch(record), timeout_ms=record.timeout_ms)
