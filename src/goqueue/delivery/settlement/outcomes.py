"""Settling: what a receipt's action means for the message, as changes to its queue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

from goqueue.delivery.leases.backoff import backoff_ms
from goqueue.delivery.leases.outstanding import Hold, State
from goqueue.delivery.state.commands import EndPromises, Promise, Settle, SettleHeld, SettleShare, ShareSettled
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.records import (
    Change,
    Dying,
    Extended,
    Promised,
    Reopening,
    Requeued,
    Settled,
    Withdrawn,
    offsets_of,
    ranges_of,
)
from goqueue.delivery.values import Action
from goqueue.errors import CoordinatorFenced, ProducerFenced

REJECTED = "rejected"
RETRIES_EXHAUSTED = "retries_exhausted"
VISIBILITY_EXHAUSTED = "visibility_timeout"

_NONE: frozenset[int] = frozenset()
Changes = dict[Queue, list[Change]]
# Deliveries so far, action, reason, delay.
SettleKind = tuple[int, Action, str, int | None]


def settle(command: Settle, now_ms: int, leases: dict[int, list[Any]], changes: Changes) -> list[ShareSettled]:
    """One outcome for each share."""
    settled: dict[Queue, set[int]] = {}
    outcomes: list[ShareSettled] = []
    for share in command.shares:
        claimed = _claimed(share, leases, settled)
        if claimed is None:
            outcomes.append(_unknown(share))
            continue
        queue, good = claimed
        refused = _NONE if len(good) == len(share.offsets) else frozenset(share.offsets).difference(good)
        if len(set(share.offsets)) < len(share.offsets):
            good = sorted(set(good))
        taken, next_ms, dies = "", None, False
        if good:
            ranges, found = ranges_of(good), changes.setdefault(queue, [])
            taken, next_ms, dies = _act(queue, share, ranges, len(good), now_ms, command.chance, found)
        outcomes.append(ShareSettled(queue.id, refused, taken, next_ms, dies))
    return outcomes


def promise(command: Promise, leases: dict[int, list[Any]], changes: Changes) -> list[ShareSettled]:
    """One outcome for each share; changes only if every receipt is good."""
    taken: dict[Queue, set[int]] = {}
    outcomes: list[ShareSettled] = []
    for share in command.shares:
        found = _claimed(share, leases, taken)
        if found is None:
            outcomes.append(_unknown(share))
            continue
        queue, good = found
        # A request that is sent again finds its own promise.
        kept = {offset for offset in share.offsets if queue.pending.get(offset) == command.producer_id}
        refused = frozenset(share.offsets) - set(good) - kept
        outcomes.append(ShareSettled(queue.id, refused, "promised", None, dies=False))
        if good:
            is_rejected = share.action is Action.REJECT
            promised = Promised(
                command.producer_id,
                is_rejected,
                share.reason,
                ranges_of(sorted(set(good))),
                command.producer_epoch,
                command.coordinator_epoch,
            )
            changes.setdefault(queue, []).append(promised)
    if any(outcome.refused for outcome in outcomes):
        changes.clear()
    return outcomes


def check_end(queue: Queue, command: EndPromises) -> None:
    """Refuse an end that was decided before what waits in the queue was promised."""
    waiting: list[Promised | Reopening] = [
        *queue.promises.of(command.producer_id),
        *queue.reopenings.of(command.producer_id),
    ]
    for one in waiting:
        if 0 <= command.coordinator_epoch < one.coordinator_epoch:
            raise CoordinatorFenced(
                f"the end of a transaction of producer {command.producer_id} comes from coordinator epoch "
                f"{command.coordinator_epoch}, but epoch {one.coordinator_epoch} has begun since"
            )
        if command.producer_epoch < one.producer_epoch:
            raise ProducerFenced(
                f"producer {command.producer_id} has epoch {command.producer_epoch}, "
                f"but epoch {one.producer_epoch} has begun since"
            )


def end_promises(queue: Queue, command: EndPromises, now_ms: int) -> list[Change]:
    """What a transaction's end does to a queue."""
    found: list[Change] = []
    for one in queue.promises.of(command.producer_id) if command.commit else ():
        offsets = [offset for offset in offsets_of(one.ranges) if offset in queue.outstanding]
        if not offsets:
            continue
        if one.rejected and queue.policy.dead_letters:
            found.append(Dying(ranges_of(offsets), REJECTED, one.reason, now_ms))
        else:
            found.append(Settled(ranges_of(offsets)))
        queue.counts["rejected" if one.rejected else "acked"] += len(offsets)
    return [*found, Withdrawn(command.producer_id)]


def settle_held(queue: Queue, command: SettleHeld, now_ms: int, changes: Changes) -> list[bool]:
    """Whether the consumer held anything in each range; with `all_or_none` whether it held all that is outstanding.

    A message whose visibility has ended is held by nobody, whether or not it was given to another consumer since.
    """
    if command.all_or_none:
        held_whole = [_holds_all(queue, command.consumer, first, last) for first, last, *_ in command.ranges]
        if not all(held_whole):
            return held_whole
    outcomes = []
    found: list[Change] = []
    # Which offsets are taken already is asked only if the ranges can meet.
    done: set[int] | None = None
    if any(left[1] >= right[0] for left, right in pairwise(command.ranges)):
        done = set()
    # Accepted and released records often alternate: what is settled in the same way is one change.
    shares: dict[SettleKind, tuple[list[int], int]] = {}
    for first, last, action, reason, delay_ms in command.ranges:
        by_count = _held_by_count(queue, command.consumer, first, last, done)
        for count, (ranges, size) in by_count.items():
            kind = (count, action, reason, delay_ms)
            before, held = shares.setdefault(kind, ([], 0))
            before += ranges
            shares[kind] = before, held + size
        outcomes.append(bool(by_count))
    for (count, action, reason, delay_ms), (ranges, size) in shares.items():
        # Without dead letters, what nobody can handle comes back slowly, whatever was asked for.
        wait_ms = delay_ms if count <= queue.policy.retries_max else None
        share = SettleShare(0, count, action, [], wait_ms, reason)
        _act(queue, share, ranges, size, now_ms, command.chance, found)
    if found:
        changes[queue] = found
    return outcomes


def release_consumer(queue: Queue, consumer: str, now_ms: int, changes: Changes) -> int:
    """Give back all that a consumer holds; returns how many messages that are."""
    by_count: dict[int, list[int]] = {}
    for offset, hold in queue.outstanding.items():
        if hold.state is State.LEASED and hold.consumer == consumer and offset not in queue.pending:
            by_count.setdefault(hold.count, []).append(offset)
    found: list[Change] = [
        Requeued(ranges_of(sorted(offsets)), now_ms, count - 1) for count, offsets in by_count.items()
    ]
    if found:
        changes[queue] = found
    return sum(len(offsets) for offsets in by_count.values())


def exhaust(queue: Queue, now_ms: int) -> list[Change]:
    """What becomes of messages whose last delivery ran out."""
    found: list[Change] = []
    holds, queue.exhausted = queue.exhausted, []
    for hold in holds:
        offsets = sorted(_offsets(queue, hold))
        if not offsets:
            continue
        if queue.policy.dead_letters:
            found.append(Dying(ranges_of(offsets), VISIBILITY_EXHAUSTED, "", now_ms))
        else:
            found.append(Requeued(ranges_of(offsets), now_ms + queue.policy.backoff_ms_max, hold.count))
    return found


def _claimed(
    share: SettleShare, leases: dict[int, list[Any]], claimed: dict[Queue, set[int]]
) -> tuple[Queue, list[int]] | None:
    """The queue of a share and the offsets that it may still speak for, claimed now; None if its lease is over."""
    lease = leases.get(share.lease_id)
    if lease is None:
        return None
    queue: Queue = lease[0]
    before = claimed.setdefault(queue, set())
    good = _good(queue, share, before)
    before.update(good)
    return queue, good


def _unknown(share: SettleShare) -> ShareSettled:
    return ShareSettled(None, frozenset(share.offsets), "", None, dies=False)


def _good(queue: Queue, share: SettleShare, done: set[int]) -> list[int]:
    """The offsets whose receipts still stand, rising."""
    offsets, lease_id, count = share.offsets, share.lease_id, share.count
    good: list[int] = []
    at = 0
    # Neighbours nearly always share a hold, so a hold is looked at once for all of them.
    for hold, run in groupby(map(queue.outstanding.get, offsets)):
        begin, at = at, at + len(list(run))
        if hold is not None and hold.lease_id == lease_id and hold.count == count and hold.state is State.LEASED:
            good += offsets[begin:at]
    if done:
        good = [offset for offset in good if offset not in done]
    if queue.pending:
        good = [offset for offset in good if offset not in queue.pending]
    good.sort()
    return good


def _holds_all(queue: Queue, consumer: str, first: int, last: int) -> bool:
    """Whether all that is outstanding from `first` to `last` is leased to the consumer, and something is.

    What is settled already stands in nobody's way: acquired ranges may span what an aborted transaction wrote.
    """
    holds = [hold for hold, _ in _runs(queue, first, last) if hold is not None]
    if not holds or any(hold.consumer != consumer or hold.state is not State.LEASED for hold in holds):
        return False
    return not queue.pending or not any(offset in queue.pending for offset in range(first, last + 1))


def _held_by_count(
    queue: Queue, consumer: str, first: int, last: int, done: set[int] | None
) -> dict[int, tuple[list[int], int]]:
    """What a consumer holds from `first` to `last`, by deliveries so far: flat ranges, and how many offsets."""
    by_count: dict[int, tuple[list[int], int]] = {}
    following = first
    for hold, size in _runs(queue, first, last):
        begin, following = following, following + size
        if hold is None or hold.consumer != consumer or hold.state is not State.LEASED:
            continue
        offsets: Sequence[int] = range(begin, following)
        if done is not None or queue.pending:
            taken = done or _NONE
            offsets = [offset for offset in offsets if offset not in taken and offset not in queue.pending]
            if not offsets:
                continue
        if done is not None:
            done.update(offsets)
        ranges, held = by_count.get(hold.count, ([], 0))
        if ranges and ranges[-1] == offsets[0] - 1:
            ranges.pop()
            ranges += ranges_of(offsets)[1:]
        else:
            ranges += ranges_of(offsets)
        by_count[hold.count] = ranges, held + len(offsets)
    return by_count


def _runs(queue: Queue, first: int, last: int) -> list[tuple[Hold | None, int]]:
    """The holds of neighbouring offsets, and how many each has."""
    hold, size = queue.outstanding.get(first), last - first + 1
    if hold is not None and hold.live == size and hold.ranges == [first, last]:
        # What was acquired at once is answered at once, most of the time: the hold has these offsets and no others.
        return [(hold, size)]
    found = groupby(map(queue.outstanding.get, range(first, last + 1)))
    return [(one, len(list(run))) for one, run in found]


def _act(
    queue: Queue, share: SettleShare, ranges: list[int], size: int, now_ms: int, chance: float, found: list[Change]
) -> tuple[str, int | None, bool]:
    """Add the change of `size` messages; returns what was done, when they are visible again, and whether they die."""
    action, policy, count = share.action, queue.policy, share.count
    if action is Action.ACK:
        found.append(Settled(ranges))
        queue.counts["acked"] += size
        return "acked", None, False
    if action is Action.EXTEND:
        visibility_ms = policy.visibility_ms if share.visibility_ms is None else share.visibility_ms
        found.append(Extended(ranges, now_ms + visibility_ms))
        queue.counts["extended"] += size
        return "extended", now_ms + visibility_ms, False
    if action is Action.RELEASE:
        found.append(Requeued(ranges, now_ms, count - 1))
        queue.counts["released"] += size
        return "released", now_ms, False
    if action is Action.REJECT:
        queue.counts["rejected"] += size
        if not policy.dead_letters:
            found.append(Settled(ranges))
            return "rejected", None, False
        found.append(Dying(ranges, REJECTED, share.reason, now_ms))
        return "rejected", None, True
    queue.counts["nacked"] += size
    exhausted = count > policy.retries_max
    if exhausted and policy.dead_letters:
        found.append(Dying(ranges, RETRIES_EXHAUSTED, share.reason, now_ms))
        return "dlq", None, True
    wait_ms = policy.backoff_ms_max if exhausted else backoff_ms(policy, count, chance)
    visible_ms = now_ms + (wait_ms if share.delay_ms is None else share.delay_ms)
    found.append(Requeued(ranges, visible_ms, count, share.reason))
    return "requeued", visible_ms, False


def _offsets(queue: Queue, hold: Hold) -> list[int]:
    ranges = hold.ranges
    return [
        offset
        for at in range(0, len(ranges), 2)
        for offset in range(ranges[at], ranges[at + 1] + 1)
        if queue.outstanding.get(offset) is hold and offset not in queue.pending
    ]
