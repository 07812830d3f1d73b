"""A batch on its way in: what is known of it, and what the steps that it passes have decided.

`PublishService` makes one `Arrival` for each batch and hands it to the steps of its partition, in the order in
which the node lists them. A step looks at it and does nothing, refuses it (raises the error that its producer
gets), removes records from it (`thin`), or adds something that the reply waits for (`wait_for`). The last steps
write the batch and tell whoever wants to know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from goqueue.broker.arrivals.batch_lanes import NORMAL, BatchLane, lane_of
from goqueue.codec.batch import BatchHeader, check_batch, parse_batch_header, verify_batch
from goqueue.codec.batch_decode import RECORDS_BYTES_MAX, decode_records
from goqueue.codec.batch_encode import encode_sparse_batch
from goqueue.ports import Buffer
from goqueue.records import Acks, Appended, NewRecord, Record, TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.replicas.partitions import Partition
    from goqueue.caller import Caller


class HeldAt(NamedTuple):
    """Where a delayed record is held: its slot, and when it is due."""

    partition: int
    offset: int
    due_ms: int


class Facts(msgspec.Struct, frozen=True):
    """What the maker of a batch knows of its records, so that no step has to open the batch to find out."""

    lane: BatchLane | None = None
    # When each record is due, by position; None for a record that is for now. Said here, headers are not looked at.
    dues: Sequence[int | None] | None = None
    # Records whose deduplication ids are known already were left out when the batch was made.
    has_no_repeats: bool = False
    # Some records have a trace context of their own, which is worth opening the batch for.
    has_traces: bool = False
    # Records that were checked against their schemas and are not allowed: why, by position. None: nobody has looked.
    bad_records: Mapping[int, str] | None = None
    # The broker itself made the batch, with fewer records than offsets: places of records that are gone are empty.
    has_gaps: bool = False
    # Which transaction of its producer a transactional batch is meant for; None: whichever is open.
    transaction: int | None = None


NO_FACTS = Facts()


class Arrival(msgspec.Struct, eq=False):
    """One batch between its producer and its log."""

    partition: Partition
    header: BatchHeader
    batch: Buffer
    acks: Acks
    caller: Caller
    now_ms: int
    facts: Facts = NO_FACTS
    # None means that nobody has looked: the batch is written as a normal one.
    lane: BatchLane | None = None
    # Records were removed. Header, sequence and offset range are those of the batch that came.
    is_thinned: bool = False
    # The checksum was compared, and the header says nothing that a client may not say.
    is_checked: bool = False
    # Delayed records that were taken out, by position, as far as the sender is to be told.
    held: Mapping[int, HeldAt] | None = None
    # Set by the step that writes.
    appended: Appended | None = None
    opened: Sequence[Record] | None = None
    waits: list[Awaitable[None]] | None = None
    when_stored: list[Callable[[Arrival], None]] | None = None

    def check(self) -> None:
        """Compare the checksum, unless a step before has."""
        if not self.is_checked:
            (verify_batch if self.is_thinned else check_batch)(self.batch)
            self.is_checked = True

    def records(self) -> Sequence[Record]:
        """The records, as far as they are left. The batch is opened once, and unpacks to a bounded size or is refused.

        Offsets count from `header.base_offset`; they become those of the log when the batch is written.
        """
        if self.opened is None:
            self.check()
            self.opened = decode_records(self.batch, size_max=RECORDS_BYTES_MAX)
        return self.opened

    def replace(self, batch: Buffer) -> None:
        """Go on with another batch of the same records, made here and not opened yet."""
        self.batch = batch
        self.header = parse_batch_header(batch)
        self.opened = None

    def thin(self, left: Sequence[Record]) -> None:
        """Go on with some of the records, perhaps none. Its producer cannot tell that others were removed."""
        self.batch = encode_sparse_batch(self.header, left)
        self.header = parse_batch_header(self.batch)
        self.opened = left
        self.is_thinned = True
        if self.lane is not None:
            self.lane = lane_of(left) if left else NORMAL

    def wait_for(self, one: Awaitable[None] | None) -> None:
        """The reply is given when this is done, too, if its producer wants a reply that waits."""
        if one is not None:
            self.waits = [*(self.waits or ()), one]

    def after(self, call: Callable[[Arrival], None]) -> None:
        """Call this once the batch is in its log; not if it was there before."""
        self.when_stored = [*(self.when_stored or ()), call]


class NeedsCheck(Exception):
    """A batch whose records must be checked first, which takes time: `PublishService.take` does both."""


class ChecksValues(Protocol):
    """Looks into keys and values, outside of this process, before a batch is taken in."""

    def is_needed(self, partition: Partition, /) -> bool:
        """Whether records of this partition are checked at all."""
        ...

    def is_refusing(self, partition: Partition, /) -> bool:
        """Whether a bad record is refused; else it is taken out on its way in."""
        ...

    async def check(self, partition: Partition, records: Sequence[Record | NewRecord], /) -> Mapping[int, str]:
        """Why records are not allowed, by position."""
        ...


class VerifyTransaction(Protocol):
    """Asks the coordinator of a transaction that another node coordinates, before a batch of it is appended."""

    def __call__(self, producer_id: int, producer_epoch: int, place: TopicPartition, /) -> Awaitable[None]:
        """Done when it is known here whether the transaction is open; raises if it is not."""
        ...


class Step(Protocol):
    """One entry of the list that a batch passes."""

    def applies(self, partition: Partition, facts: Facts, /) -> bool:
        """Whether batches of this partition need the step; asked once for all of them and again when it is altered.

        A batch whose times are said (`facts.dues`) is asked about by itself.
        """
        ...

    def __call__(self, arrival: Arrival, /) -> None:
        """Look at the batch; raise to refuse it."""
        ...


# The steps that batches of one partition pass, ready to be called.
Steps = tuple[Callable[[Arrival], None], ...]


class AfterAppend(Protocol):
    """Called when a batch is in its log (not when it was there before). It must not raise."""

    def __call__(self, arrival: Arrival, first: int, last: int, /) -> None:
        """Offsets `first` to `last` are written."""
        ...
