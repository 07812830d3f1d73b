"""Acknowledgements of share consumers, as settlements of what they hold.

0 gap      there was no such record: settled
1 accept   done
2 release  not done: available again at once; after the last retry a dead letter
3 reject   will never be done: a dead letter
4 renew    still at it: locked for longer
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

from goqueue.delivery.values import Action, RangeSettlement
from goqueue.errors import GoQueueError, InvalidRequest, NotHeld
from goqueue.servers.kafka.api import Message

if TYPE_CHECKING:
    from goqueue.records import TopicPartition
    from goqueue.servers.kafka.reading.share_sessions import ShareMember
    from goqueue.servers.services import Services

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)

# A release is a nack without a back-off: Kafka makes released records available at once, and its delivery limit stops
# those that nobody can handle. Ours end in the dead-letter topic then.
_ACTIONS = MappingProxyType(
    {GAP: Action.ACK, ACCEPT: Action.ACK, RELEASE: Action.NACK, REJECT: Action.REJECT, RENEW: Action.EXTEND}
)
# What one request may settle in one partition.
OFFSETS_MAX = 100_000

_REASONS = MappingProxyType({RELEASE: "released by a share consumer", REJECT: "rejected by a share consumer"})


def settlements_of(batches: Iterable[Message], *, with_renewals: bool) -> list[RangeSettlement]:
    """One settlement for each run of offsets of one kind."""
    found: list[RangeSettlement] = []
    expected_from, offsets = 0, 0
    for batch in batches:
        count = batch.last_offset - batch.first_offset + 1
        offsets += count
        if batch.first_offset < expected_from or count < 1:
            raise InvalidRequest(
                "acknowledgement batches must be in ascending order of offsets", field="acknowledgement_batches"
            )
        if offsets > OFFSETS_MAX:
            raise InvalidRequest(f"more than {OFFSETS_MAX} offsets at once", field="acknowledgement_batches")
        expected_from = batch.last_offset + 1
        kinds = batch.acknowledge_types
        if len(kinds) not in {1, count}:
            raise InvalidRequest(
                "a batch must have one acknowledgement type, or one for each offset", field="acknowledge_types"
            )
        present = set(kinds)
        for kind in present:
            if kind not in _ACTIONS or (kind == RENEW and not with_renewals):
                raise InvalidRequest(f"{kind} is not an acknowledgement type", field="acknowledge_types")
        if len(present) == 1:
            found.append(_settlement(batch.first_offset, batch.last_offset, kinds[0]))
        else:
            found.extend(_runs(batch.first_offset, kinds))
    return found


async def acknowledge(
    services: Services, member: ShareMember, at: TopicPartition, settlements: Sequence[RangeSettlement]
) -> GoQueueError | None:
    """Settle; if the consumer does not hold one of the offsets (any more), that is the error and nothing is settled.

    Kafka does the same: INVALID_RECORD_STATE means that every acknowledgement for the partition has failed.
    """
    group, consumer = member
    try:
        outcomes = await services.delivery.settle_ranges(group, at, consumer, settlements, all_or_none=True)
    except GoQueueError as error:
        return error
    return next((one for one in outcomes if isinstance(one, NotHeld)), next(filter(None, outcomes), None))


def _runs(first: int, kinds: Sequence[int]) -> Iterable[RangeSettlement]:
    for kind, run in groupby(kinds):
        last = first + sum(1 for _ in run) - 1
        yield _settlement(first, last, kind)
        first = last + 1


def _settlement(first: int, last: int, kind: int) -> RangeSettlement:
    delay_ms = 0 if kind == RELEASE else None
    return RangeSettlement(first, last, _ACTIONS[kind], _REASONS.get(kind, ""), delay_ms)
