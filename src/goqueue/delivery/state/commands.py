"""What the delivery machine is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.state.records import QueueId
from goqueue.delivery.values import Action, RangeSettlement


class OpenQueue(msgspec.Struct, frozen=True):
    """Answered once the queue is in memory. A queue that is new begins at `start`, durably if `stays`.

    A queue of another incarnation belonged to a group of the same name that was deleted. It is forgotten, and the
    answer is True: ask again.
    """

    queue: QueueId
    start: int
    stays: bool = False
    epoch: int = -1
    incarnation: int = 0


class FreshShare(NamedTuple):
    """New messages of one lane; `keys` has a hash for each offset where keys are kept in order."""

    lane: int
    ranges: list[int]
    keys: list[int]


class SetAside(NamedTuple):
    """A stretch that nobody can read, found at `offset`, which is new or one that was delivered before."""

    lane: int
    offset: int
    first: int
    last: int
    error: str
    fresh: bool


class Lease(msgspec.Struct, frozen=True):
    """Give these messages to a consumer. Answered by a list of `Granted`, or None if the plan is out of date.

    `base` is where the cursors stood when the messages were chosen. `gone` need no delivery any
    more: their records have left the log. `cursors` is where the lanes go on, in this leader epoch.
    """

    queue: QueueId
    consumer: str
    policy: DeliveryPolicy
    visibility_ms: int
    lease_id: int
    base: list[int]
    cursors: list[int]
    fresh: Sequence[FreshShare] = ()
    retries: Sequence[int] = ()
    gone: Sequence[int] = ()
    set_aside: Sequence[SetAside] = ()
    epoch: int = -1


class Granted(NamedTuple):
    """Messages that a consumer now holds; each of them has the same receipt but for its offset."""

    lease_id: int
    lane: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks for here
    deadline_ms: int
    first_ms: int
    ranges: list[int]


class SettleShare(NamedTuple):
    """Receipts of one lease that are settled in the same way. `offsets` in any order."""

    lease_id: int
    count: int  # type: ignore[assignment]
    action: Action
    offsets: list[int]
    delay_ms: int | None = None
    reason: str = ""
    visibility_ms: int | None = None


class Settle(msgspec.Struct, frozen=True):
    """Settle receipts. Answered by one `ShareSettled` for each share. `chance` decides the jitter."""

    shares: Sequence[SettleShare]
    durable: bool = False
    chance: float = 0.0


class Promise(msgspec.Struct, frozen=True):
    """Settle receipts when a producer's transaction is committed. Answered as `Settle` is; actions are ack and reject.

    All receipts of the shard or none: one that is no longer good is `refused`, and then nothing is promised.
    """

    producer_id: int
    shares: Sequence[SettleShare]
    producer_epoch: int
    # The epoch of the coordinator that says that the transaction is open.
    coordinator_epoch: int


class EndPromises(msgspec.Struct, frozen=True):
    """The producer's transaction has ended: keep its promises, or forget them. Answered by the queues concerned.

    Refused if it comes from a coordinator, or concerns a producer, that has been replaced since the promises were made.
    """

    producer_id: int
    commit: bool
    producer_epoch: int
    # -1: on an operator's word.
    coordinator_epoch: int


class Reopen(msgspec.Struct, frozen=True):
    """Make settled messages available again when a producer's transaction is committed. Answered by None.

    What is outstanding or not delivered yet by then is left as it is: the group gets it anyway.
    """

    producer_id: int
    queue: QueueId
    shares: Sequence[FreshShare]
    producer_epoch: int
    coordinator_epoch: int


class ShareSettled(NamedTuple):
    """What became of a share. `queue` is None if the lease is not known (any more)."""

    queue: QueueId | None
    # Offsets whose receipt is no longer good.
    refused: frozenset[int]
    action_taken: str
    next_visible_ms: int | None
    dies: bool


class SettleHeld(msgspec.Struct, frozen=True):
    """Settle what a consumer holds in ranges of offsets. Answered by a bool for each: whether it held any.

    With `all_or_none` nothing is settled unless the consumer holds all that is outstanding in every range, and
    something in each; the bool then says whether that is so for the range.
    """

    queue: QueueId
    consumer: str
    ranges: Sequence[RangeSettlement]
    chance: float = 0.0
    all_or_none: bool = False


class SetAsideHeld(msgspec.Struct, frozen=True):
    """Nobody can read these stretches, of which a consumer holds `offset` each. Answered by None."""

    queue: QueueId
    consumer: str
    stretches: Sequence[SetAside]


class ReleaseConsumer(msgspec.Struct, frozen=True):
    """Give back what a consumer holds, no failure counted. Answered by how many."""

    queue: QueueId
    consumer: str


class MoveId(NamedTuple):
    """Which batch of dying messages: another one never has the same."""

    producer_id: int
    sequence: int


class BeginMove(msgspec.Struct, frozen=True):
    """Choose the dying messages to append next. Answered by a `Move`, None, or `ProducerIdNeeded`."""

    queue: QueueId
    producer_id: int = -1
    # The dead-letter partition does not take the sequence of the queue's producer: `producer_id` is to replace it.
    renews: bool = False
    # Of those that were chosen before and not appended yet, only so many: together they are too large. 0: all of them.
    limit: int = 0
    # The batch that is to be changed. Another one is left as it is, and the answer is None.
    of: MoveId | None = None


class Dead(NamedTuple):
    """A dying message, and what its dead letter says about it."""

    offset: int
    lane: int
    count: int  # type: ignore[assignment]
    consumer: str
    first_ms: int
    last_ms: int
    reason: str
    error: str


class Move(msgspec.Struct, frozen=True):
    """A batch for the dead-letter topic."""

    producer_id: int
    sequence: int
    dead: tuple[Dead, ...]

    @property
    def id(self) -> MoveId:
        """Which batch it is."""
        return MoveId(self.producer_id, self.sequence)


class ProducerIdNeeded(msgspec.Struct, frozen=True):
    """The answer to `BeginMove` when the queue has no producer yet."""


class EndMove(msgspec.Struct, frozen=True):
    """The batch is safe in the dead-letter topic, and its producer goes on behind it. Answered by None.

    If another batch is on its way by now, nothing is done: whoever led meanwhile has ended this one.
    """

    queue: QueueId
    move: MoveId
    # As many messages as it was made for.
    count: int


class ResetQueue(msgspec.Struct, frozen=True):
    """Begin again at this offset; refused while messages are in flight. Answered by None."""

    queue: QueueId
    offset: int
    epoch: int = -1


class Govern(msgspec.Struct, frozen=True):
    """Let this policy hold from now on, for what is out as well. Answered by None."""

    queue: QueueId
    policy: DeliveryPolicy


class CutQueue(msgspec.Struct, frozen=True):
    """Forget what lies from `end` on, where the log of the epoch that the queue knows ended before `epoch` began.

    Answered by whether that is the epoch that it knows.
    """

    queue: QueueId
    known_epoch: int
    end: int
    epoch: int


class ForgetQueue(msgspec.Struct, frozen=True):
    """The group or the topic is gone; or, `idle_only`, neither: then messages in flight refuse it. Answered by None."""

    queue: QueueId
    idle_only: bool = False
