"""Queue groups: what is settled when a group is first used, and what may be altered later.

A group is read as a stream, by offsets, or as a queue, by receipts: the first use decides, and
from then on everything that would use it the other way is refused. Sharing is settled by the
first member; a group that is only received from, without members, leaves it open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from goqueue.errors import GroupModeMismatch, GroupNotEmpty, InvalidRequest
from goqueue.groups.records import PolicyValue, QueueRecord

POLICY_ENTRIES_MAX = 64


class Mode(StrEnum):
    """How a group is read."""

    STREAM = "stream"
    QUEUE = "queue"


class Sharing(StrEnum):
    """Whether a partition's messages go to one member, or to whoever asks."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"


class AsQueue(msgspec.Struct, frozen=True):
    """The wish to use a group as a queue; None: as it is, or the default if it is new."""

    sharing: Sharing | None = None
    key_ordered: bool | None = None


class QueueSettings(msgspec.Struct, frozen=True):
    """A queue group as it is settled. `policy` overrides what its topics say about delivery."""

    sharing: Sharing | None = None
    key_ordered: bool = False
    policy: Mapping[str, PolicyValue] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    # Rises with every alteration.
    version: int = 0
    # "earliest" or "latest", in a partition that is new to the group; empty: the default.
    start: str = ""
    # Tells the group from one of the same name that was deleted.
    incarnation: int = 0


def settings_of(record: QueueRecord) -> QueueSettings:
    """The record, for whoever asks."""
    sharing = Sharing(record.sharing) if record.sharing else None
    policy = MappingProxyType(record.policy)
    return QueueSettings(sharing, record.key_ordered, policy, record.version, record.start, record.incarnation)


def settled(group: str, record: QueueRecord | None, wish: AsQueue, new_incarnation: Callable[[], int]) -> QueueRecord:
    """What holds after a use with this wish: the same record when there is nothing new in it."""
    if record is None:
        return QueueRecord(wish.sharing or "", bool(wish.key_ordered), incarnation=new_incarnation())
    if wish.key_ordered is not None and wish.key_ordered != record.key_ordered:
        is_so = "delivers messages in order of their keys" if record.key_ordered else "does not order messages by key"
        raise GroupModeMismatch(group, Mode.QUEUE, f"queue group {group!r} {is_so}")
    if wish.sharing is None or wish.sharing == record.sharing:
        return record
    if record.sharing:
        raise GroupModeMismatch(
            group, Mode.QUEUE, f"queue group {group!r} has {record.sharing} partitions, not {wish.sharing}"
        )
    return msgspec.structs.replace(record, sharing=wish.sharing, version=record.version + 1)


def altered(
    group: str, record: QueueRecord, changes: Mapping[str, PolicyValue | None], *, is_empty: bool
) -> QueueRecord:
    """The record with these changes. None takes an override back; what members rest on waits until they are gone."""
    rest = dict(changes)
    sharing, key_ordered = record.sharing, record.key_ordered
    if "sharing" in rest:
        sharing = _sharing(rest.pop("sharing"))
    if "key_ordered" in rest:
        key_ordered = _flag(rest.pop("key_ordered"))
    if (sharing, key_ordered) != (record.sharing, record.key_ordered) and not is_empty:
        raise GroupNotEmpty(f"group {group!r} has active members: change sharing and key_ordered when it has none")
    policy, start = altered_delivery(record.policy, record.start, rest)
    if (sharing, key_ordered, policy, start) == (record.sharing, record.key_ordered, record.policy, record.start):
        return record
    return QueueRecord(sharing, key_ordered, policy, record.version + 1, start=start, incarnation=record.incarnation)


def altered_delivery(
    policy: Mapping[str, PolicyValue], start: str, changes: Mapping[str, PolicyValue | None]
) -> tuple[dict[str, PolicyValue], str]:
    """Overrides and start position with these changes. None takes an override back."""
    rest = dict(changes)
    if "start" in rest:
        start = _start(rest.pop("start"))
    after = {name: value for name, value in {**policy, **rest}.items() if value is not None}
    if len(after) > POLICY_ENTRIES_MAX:
        raise InvalidRequest(f"a group overrides at most {POLICY_ENTRIES_MAX} settings", field="policy")
    return after, start


def _sharing(value: PolicyValue | None) -> str:
    try:
        return Sharing(str(value))
    except ValueError:
        raise InvalidRequest(
            f"{value!r} is not a sharing mode", field="sharing", hint=f"use {' or '.join(Sharing)}"
        ) from None


def _flag(value: PolicyValue | None) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequest("key_ordered must be true or false", field="key_ordered")
    return value


def _start(value: PolicyValue | None) -> str:
    if value is None:
        return ""
    if value not in {"earliest", "latest"}:
        raise InvalidRequest(f"{value!r} is not a start position", field="start", hint="use earliest or latest")
    return str(value)
