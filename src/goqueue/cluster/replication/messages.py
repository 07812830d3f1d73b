"""What is said on a replication stream. The follower connects, and subscribes each log once per term.

    follower -> Subscribe    leader -> Answer (OK, DIVERGED, RESET, REFUSED)
                             leader -> Member (a log of the family that the follower does not know)
                             leader -> Round  (frames of the logs that grew, high watermarks, what to sync)
    follower -> Progress (written, then synced)
    follower -> Unsubscribe

A message is a header of MessagePack with its size before it; behind the header of a round follow the frames, verbatim.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from uuid import UUID

import msgspec

from goqueue.ports import Buffer
from goqueue.records import LogKind

_SIZE_BYTES = 4


class Status(IntEnum):
    """What a leader says to a subscription."""

    OK = 0
    # The logs part before the follower's end: cut, and subscribe again.
    DIVERGED = 1
    # The leader's log begins behind the follower's end: begin anew at the leader's start.
    RESET = 2
    # Not now: the two nodes do not agree on the term. Subscribe again later.
    REFUSED = 3


class Subscribe(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The follower has this log up to `end`, its last frame of epoch `last_epoch` (-1: it is empty)."""

    subscription: int
    topic_id: UUID
    partition: int
    kind: LogKind
    leader_epoch: int
    broker_epoch: int
    end: int
    last_epoch: int
    # Whether all of it can be read, as far as the follower knows.
    is_sound: bool = True
    # Whether the follower wants to begin anew, and must be out of sync before.
    wants_reset: bool = False
    # Its copy is of a log that had lost tombstones below this offset already, or it has seen them all.
    tombstones_gone_to: int = 0


class Unsubscribe(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Nothing more of this log is wanted."""

    subscription: int


class Reached(msgspec.Struct, frozen=True, array_like=True):
    """How far a follower's log is."""

    subscription: int
    written_end: int
    synced_end: int


class Progress(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """All rounds up to this one are written; of the logs that got further, how far."""

    round: int
    logs: tuple[Reached, ...]


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """What follows on a subscription.

    OK: `end` is the leader's. DIVERGED: the leader has `epoch`, the largest not above the follower's last, up to `end`.
    RESET: `end` is where the leader's log starts.
    """

    subscription: int
    status: Status
    epoch: int
    end: int
    reason: str = ""
    # Below this offset the leader's log may lack tombstones.
    tombstones_gone_to: int = 0


class Member(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """The family of the log of this subscription has a log of this kind, too."""

    subscription: int
    kind: LogKind


class LogRound(msgspec.Struct, frozen=True, array_like=True):
    """What a round has for one log: `size` bytes of frames that follow on everything below `continues`."""

    subscription: int
    continues: int
    size: int
    high_watermark: int
    # Everything below is to be synced at once: somebody waits for it.
    sync_to: int
    log_start: int
    tombstones_gone_to: int = 0


class Round(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """The logs that grew, those of one family in the order in which they must be written."""

    number: int
    logs: tuple[LogRound, ...]


FromFollower = Subscribe | Unsubscribe | Progress
FromLeader = Answer | Member | Round

_encode = msgspec.msgpack.Encoder().encode
_from_follower: msgspec.msgpack.Decoder[FromFollower] = msgspec.msgpack.Decoder(FromFollower)
_from_leader: msgspec.msgpack.Decoder[FromLeader] = msgspec.msgpack.Decoder(FromLeader)


def encode(message: FromFollower | FromLeader, frames: Sequence[Buffer] = ()) -> list[Buffer]:
    """A message in parts, the frames as they are."""
    header = _encode(message)
    return [len(header).to_bytes(_SIZE_BYTES, "big") + header, *frames]


def decode_from_follower(data: Buffer) -> FromFollower:
    """What a follower said; raises msgspec.DecodeError."""
    header, _ = _split(data)
    return _from_follower.decode(header)


def decode_from_leader(data: Buffer) -> tuple[FromLeader, memoryview]:
    """What a leader said, and the frames behind it; raises msgspec.DecodeError."""
    header, frames = _split(data)
    return _from_leader.decode(header), frames


def _split(data: Buffer) -> tuple[memoryview, memoryview]:
    view = memoryview(data)
    size = int.from_bytes(view[:_SIZE_BYTES], "big")
    return view[_SIZE_BYTES : _SIZE_BYTES + size], view[_SIZE_BYTES + size :]
