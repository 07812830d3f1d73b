"""Where two logs part: what a leader says to a follower's end, and up to where the follower then keeps its log.

By leader epochs, never by high watermark: a follower's high watermark may be behind what was acknowledged.
"""

from __future__ import annotations

from typing import NamedTuple

from goqueue.cluster.replication.messages import Status
from goqueue.log.partition_log import PartitionLog


class Verdict(NamedTuple):
    """What a leader says; see `Answer`."""

    status: Status
    epoch: int
    end: int


def judge(log: PartitionLog, end: int, last_epoch: int, tombstones_gone_to: int = 0) -> Verdict:
    """Whether a log that ends at `end`, its last frame of `last_epoch`, is a beginning of the leader's.

    One that ends before tombstones which are gone here, and was copied while they were there, would keep what they
    deleted for ever: it begins anew.
    """
    if end < log.start_offset:
        return Verdict(Status.RESET, -1, log.start_offset)
    if last_epoch >= 0 and lacks_tombstones(log, end, tombstones_gone_to):
        return Verdict(Status.RESET, -1, log.start_offset)
    if last_epoch < 0 and end <= log.end_offset:
        # It has no frames, so there is nothing in which it could differ.
        return Verdict(Status.OK, -1, log.end_offset)
    if last_epoch < 0:
        return Verdict(Status.RESET, -1, log.start_offset)
    epoch, epoch_end = log.end_offset_for_epoch(last_epoch)
    if epoch == last_epoch and end <= epoch_end:
        return Verdict(Status.OK, epoch, log.end_offset)
    return Verdict(Status.DIVERGED, epoch, epoch_end)


def lacks_tombstones(log: PartitionLog, end: int, tombstones_gone_to: int) -> bool:
    """Whether a copy up to `end`, of a log without tombstones below `tombstones_gone_to`, can never get some."""
    return max(end, tombstones_gone_to) < log.tombstones_gone_to


def kept_end(log: PartitionLog, epoch: int, epoch_end: int) -> int:
    """Up to where a follower keeps its log when its leader has `epoch`, and nothing newer that it has, up to there."""
    if epoch < 0:
        return log.start_offset
    own_epoch, own_end = log.end_offset_for_epoch(epoch)
    if own_epoch < 0:
        # All that the follower has is of this epoch or an older one.
        own_end = log.end_offset
    return min(epoch_end, own_end)
