"""Which records of a batch are the reason that it is refused (KIP-467). A batch is stored whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from goqueue.errors import GoQueueError, InvalidValue, RecordRefusal
from goqueue.records import Record

# Named in one answer. A client takes a record that is not named for one that was not the reason.
NAMED_MAX = 10_000

# Returns nothing, or raises what is wrong with the record.
CheckRecord = Callable[[Record], object]


def check_records(records: Iterable[Record], check: CheckRecord) -> None:
    """Look at every record, and refuse all of them with the names of those that are wrong."""
    first: RecordRefusal | None = None
    bad: dict[int, str] = {}
    for position, record in enumerate(records):
        try:
            check(record)
        except RecordRefusal as problem:
            first = first or problem
            if len(bad) < NAMED_MAX:
                bad[position] = str(problem)
    if first is None:
        return
    if len(bad) > 1:
        first.args = (f"{len(bad)} records of the batch are refused; the first: {first}",)
    first.bad_records = bad
    raise first


def name_records(open_batch: Callable[[], Iterable[Record]], check: CheckRecord) -> None:
    """Find in a batch that is refused already the records that are why; nothing if it cannot be opened."""
    try:
        records = open_batch()
    except GoQueueError:
        return
    check_records(records, check)


def refused_values(bad: Mapping[int, str]) -> InvalidValue:
    """The refusal of a batch because its schema does not allow some of its records."""
    first = next(iter(bad.values()))
    refusal = InvalidValue(
        first if len(bad) == 1 else f"{len(bad)} records of the batch are refused; the first: {first}"
    )
    refusal.bad_records = dict(islice(bad.items(), NAMED_MAX))
    return refusal
