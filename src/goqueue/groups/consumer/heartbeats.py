"""Heartbeats of the new protocol: what they must say, what they leave out, and from which epoch."""

from __future__ import annotations

import msgspec

from goqueue.errors import FencedMemberEpoch, InvalidRequest, StaleMemberEpoch, UnsupportedAssignor
from goqueue.groups.commands import JOIN_EPOCH, STATIC_LEAVE_EPOCH, ConsumerHeartbeat
from goqueue.groups.consumer.group import Member
from goqueue.groups.records import MemberRecord
from goqueue.groups.subscription.assignors import ASSIGNORS

# A subscription is one record.
SUBSCRIPTION_CHARS_MAX = 1024 * 1024


def check_heartbeat(command: ConsumerHeartbeat) -> None:
    """Raise unless a heartbeat says what it must, whatever the group looks like."""
    epoch = command.member_epoch
    if epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequest(f"{epoch} is not a member epoch", field="member_epoch")
    if not command.member_id:
        raise InvalidRequest("member_id is empty: a member must have an id", field="member_id")
    if epoch == STATIC_LEAVE_EPOCH and command.instance_id is None:
        raise InvalidRequest("member epoch -2 is for static members only", field="instance_id")
    if sum(map(len, command.topics or ())) > SUBSCRIPTION_CHARS_MAX:
        raise InvalidRequest(f"the subscribed topic names are longer than {SUBSCRIPTION_CHARS_MAX} characters in all")
    if command.assignor is not None and command.assignor not in ASSIGNORS:
        raise UnsupportedAssignor(f"there is no assignor {command.assignor!r}, only {', '.join(ASSIGNORS)}")
    if epoch != JOIN_EPOCH:
        return
    if command.rebalance_timeout_ms is None:
        raise InvalidRequest("a member that joins must send rebalance_timeout_ms", field="rebalance_timeout_ms")
    if command.topics is None and not command.regex:
        raise InvalidRequest("a member that joins must subscribe to topics", field="topics")
    if command.owned:
        raise InvalidRequest("a member that joins must not own partitions", field="owned")


def described(before: MemberRecord, command: ConsumerHeartbeat) -> MemberRecord:
    """The member as it describes itself now; what it leaves out is as it was."""
    return msgspec.structs.replace(
        before,
        instance_id=before.instance_id if command.instance_id is None else command.instance_id,
        rack_id=before.rack_id if command.rack_id is None else command.rack_id,
        client_id=command.client_id or before.client_id,
        client_host=command.client_host or before.client_host,
        tags=before.tags if command.tags is None else command.tags,
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if command.rebalance_timeout_ms is None else command.rebalance_timeout_ms
        ),
        topics=before.topics if command.topics is None else tuple(sorted(set(command.topics))),
        regex=before.regex if command.regex is None else command.regex,
        assignor=before.assignor if command.assignor is None else command.assignor,
    )


def check_epoch_can_go_on(member: Member, command: ConsumerHeartbeat) -> None:
    """A heartbeat must be at the epoch that the member was given, or the one before if our answer was lost."""
    epoch, current = command.member_epoch, member.current
    if epoch == current.epoch:
        return
    answer_was_lost = (
        epoch == current.previous_epoch and command.owned is not None and command.owned <= current.assigned
    )
    if epoch > current.epoch or not answer_was_lost:
        raise FencedMemberEpoch(
            f"member {member.member_id!r} is at epoch {current.epoch}, not {epoch}: "
            "it must give up all its partitions and join again"
        )


def check_epoch_is_current(member: Member, epoch: int) -> None:
    """Commits and reads must be at the epoch that the member was given last."""
    if epoch != member.current.epoch:
        raise StaleMemberEpoch(f"member {member.member_id!r} is at epoch {member.current.epoch}, not {epoch}")
