"""What counts as done: how safe each operation is when its caller is told that it happened.

The one table; `docs/internals/families.md` shows it, and a test compares the two. On a node without other replicas
REPLICATED is the same as WRITTEN. With `durability.acks_all = written` SYNCED asks for no more than REPLICATED.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType


class Safety(IntEnum):
    """Where the record of an operation is."""

    # In the leader's log: lost with the leader.
    WRITTEN = 0
    # In the log of every in-sync replica, `min.insync.replicas` of them at least: lost only if all of them lose power.
    REPLICATED = 1
    # On the disk of every in-sync replica.
    SYNCED = 2


class Operation(Enum):
    """What delivery and delay write to the logs of a family."""

    LEASE = "lease; change of a queue's policy"
    SETTLE = "ack, nack, reject, extend"
    SETTLE_DURABLY = "the same with `durable`"
    RELEASE = "release of a consumer's messages"
    BEGIN_AT = "begin of a queue at the end of the log"
    RESET = "reset or deletion of a queue"
    PROMISE = "settlement in a transaction"
    END = "end of a transaction"
    END_AGAIN = "end of a transaction of which nothing is left"
    BEGIN_MOVE = "begin of a dead-letter move"
    END_MOVE = "end of a dead-letter move"
    CUT = "cut of a queue to where the log ended"
    HOLD = "delay of a message; its cancellation or another time"
    FIRE = "delivery of a delayed message"


NEEDED: Mapping[Operation, Safety] = MappingProxyType(
    {
        # Lost, the messages are delivered again, which at-least-once delivery allows.
        Operation.LEASE: Safety.WRITTEN,
        Operation.SETTLE: Safety.REPLICATED,
        Operation.SETTLE_DURABLY: Safety.SYNCED,
        Operation.RELEASE: Safety.WRITTEN,
        # Lost, messages that came meanwhile would be passed over, or all that the topic has would be delivered.
        Operation.BEGIN_AT: Safety.SYNCED,
        Operation.RESET: Safety.SYNCED,
        # The transaction may be committed as soon as this is answered, and its coordinator forgets it after the end.
        Operation.PROMISE: Safety.SYNCED,
        Operation.END: Safety.SYNCED,
        # It may have been ended before, by a leader that is gone: the other replicas need not have synced that.
        Operation.END_AGAIN: Safety.SYNCED,
        # Synced before the append that they announce: after a crash the same append must be repeated, or recognised.
        Operation.BEGIN_MOVE: Safety.SYNCED,
        Operation.FIRE: Safety.SYNCED,
        # Nobody but the delay log has the message.
        Operation.HOLD: Safety.SYNCED,
        # Lost, the same append is repeated and recognised.
        Operation.END_MOVE: Safety.WRITTEN,
        # Worked out again from the same logs.
        Operation.CUT: Safety.WRITTEN,
    }
)
