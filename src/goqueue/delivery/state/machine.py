"""The delivery machine: the queues of all groups on one partition.

LEASED -> settled | WAITING | DYING, by receipts; LEASED -> available again by time, which writes
nothing. A message that used up its deliveries, or was rejected, is DYING until the dead-letter
topic has it. Every command leaves at most one delta per queue; replies are given once it is
written, unless the command asks for more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from goqueue.broker.replicas.safety import NEEDED, Operation, Safety
from goqueue.coordinator.shard import Decision, Record
from goqueue.delivery.dead_letters.reopenings import reopened
from goqueue.delivery.lanes.lane_scheduler import LANES
from goqueue.delivery.leases.grants import Grants
from goqueue.delivery.leases.outstanding import State, Timers
from goqueue.delivery.settlement import outcomes
from goqueue.delivery.state.commands import (
    BeginMove,
    CutQueue,
    Dead,
    EndMove,
    EndPromises,
    ForgetQueue,
    Govern,
    Granted,
    Lease,
    Move,
    MoveId,
    OpenQueue,
    ProducerIdNeeded,
    Promise,
    ReleaseConsumer,
    Reopen,
    ResetQueue,
    SetAside,
    SetAsideHeld,
    Settle,
    SettleHeld,
)
from goqueue.delivery.state.listeners import QueueObserver, QueueTable
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.queue_records import records_of, snapshot_record, tombstones
from goqueue.delivery.state.records import (
    KEYS,
    VALUES,
    Change,
    Cursors,
    Cut,
    Governed,
    Moved,
    Moving,
    Quarantined,
    QueueId,
    QueueState,
    Reopening,
    Reset,
    Settled,
    SnapshotKey,
    ranges_of,
)
from goqueue.errors import GroupInFlight, StorageError

MOVE_MESSAGES_MAX = 100
# Ends of transactions that are remembered until they are surely durable.
_ENDED_MAX = 10_000

_snapshot_decoder = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])
Changes = dict[Queue, list[Change]]


class DeliveryMachine:
    """A `coordinator.shard.Machine` for queues."""

    def __init__(self, table: QueueTable, observer: QueueObserver | None = None) -> None:
        self._table = table
        self._observer = observer
        self._queues: dict[QueueId, Queue] = {}
        self._timers = Timers()
        # Lease id -> [queue, offsets that still belong to it].
        self._leases: dict[int, list[Any]] = {}
        # When the machine was first asked anything: what its log says happened before is not counted again.
        self._since_ms = -1
        # Producers whose promises have ended since the machine was loaded, the last of them last.
        self._ended: dict[int, None] = {}
        # Queues with messages whose last delivery ran out, for `tick`.
        self._exhausted: dict[Queue, None] = {}

    # --- the machine ---------------------------------------------------------------------

    def decide(self, ticket: int, command: Any, now_ms: int) -> Decision:
        """Answer a command, always at once."""
        self.advance(now_ms)
        changes: Changes = {}
        reply, operation = self._HANDLERS[type(command)](self, command, now_ms, changes)
        if self._observer is not None:
            for queue, found in changes.items():
                self._observer.changed(queue, found, command, now_ms)
        if isinstance(command, ForgetQueue) or (reply is True and isinstance(command, OpenQueue)):
            return Decision(self._forgotten(command.queue), ((ticket, reply),), rests_on_loaded=True)
        safety = Safety.WRITTEN if operation is None else NEEDED[operation]
        # A command that is told again writes nothing: what it asks for may have been done by a leader that is gone.
        rests_on_loaded = safety is Safety.SYNCED
        if operation is Operation.END_AGAIN:
            # On nothing else: what was written since does not matter.
            safety = Safety.WRITTEN
        return Decision(records_of(changes), ((ticket, reply),), safety=safety, rests_on_loaded=rests_on_loaded)

    def tick(self, now_ms: int) -> Decision:
        """Let visibility end, and let those die whose last delivery it was."""
        self.advance(now_ms)
        exhausted, self._exhausted = self._exhausted, {}
        changes = {queue: outcomes.exhaust(queue, now_ms) for queue in exhausted}
        if self._observer is not None:
            for queue, found in changes.items():
                self._observer.changed(queue, found, None, now_ms)
        return Decision(records_of({queue: found for queue, found in changes.items() if found}), safety=Safety.WRITTEN)

    def advance(self, now_ms: int) -> None:
        """What has changed by time alone. Writes nothing."""
        if self._since_ms < 0:
            self._since_ms = now_ms
        while (due := self._timers.pop_due(now_ms)) is not None:
            queue, hold = due
            if self._observer is not None and hold.state is State.LEASED:
                self._observer.expired(queue, hold)
            if queue.expire(hold, self._since_ms):
                self._table.on_ready(queue)
            elif queue.exhausted:
                self._exhausted[queue] = None

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take in one record."""
        name = KEYS.decode(key)
        queue_id = QueueId(name.group, name.topic_id, name.partition)
        if value is None:
            if isinstance(name, SnapshotKey):
                self._drop(queue_id)
            return
        queue = self._queues.get(queue_id) or self._put(queue_id)
        record = VALUES.decode(value)
        if isinstance(record, QueueState):
            # Right after it was written, the queue is what the snapshot says.
            if queue.is_incomplete or queue.sequence != record.sequence:
                queue.restore(record)
            queue.deltas = 0
        else:
            queue.apply(record)
        if queue.exhausted:
            # It was passed over while a transaction held it.
            self._exhausted[queue] = None
        if queue.dying and not queue.is_incomplete:
            self._table.on_dying(queue)

    def wake_at_ms(self) -> int | None:
        """When the next visibility or back-off ends."""
        return 0 if self._exhausted else self._timers.next_ms()

    def snapshot(self) -> bytes:
        """Every queue."""
        return msgspec.msgpack.encode([snapshot_record(queue) for queue in self._queues.values()])

    def restore(self, data: bytes) -> None:
        """Become what `snapshot` described."""
        for key, value in _snapshot_decoder.decode(data):
            self.apply(key, value)

    def queue(self, queue_id: QueueId) -> Queue | None:
        """The queue, if it is known."""
        return self._queues.get(queue_id)

    # --- commands ------------------------------------------------------------------------

    def _open(self, command: OpenQueue, now_ms: int, changes: Changes) -> tuple[bool | None, Operation | None]:  # noqa: ARG002
        queue = self._queues.get(command.queue)
        if queue is None:
            queue = self._put(command.queue)
        if command.incarnation and queue.incarnation not in {0, command.incarnation}:
            return True, Operation.RESET
        # Written with whatever is the next to happen to the queue.
        queue.incarnation = command.incarnation or queue.incarnation
        if queue.sequence == 0 and not queue.is_incomplete:
            if command.stays:
                changes[queue] = [Cursors([command.start] * LANES, command.epoch)]
                return None, Operation.BEGIN_AT
            queue.cursors = [max(command.start, cursor) for cursor in queue.cursors]
        self._sound(command.queue)
        return None, None

    def _lease(self, command: Lease, now_ms: int, changes: Changes) -> tuple[list[Granted] | None, Operation | None]:
        queue = self._queues.get(command.queue)
        if queue is None or queue.is_incomplete or queue.cursors != command.base:
            return None, Operation.LEASE
        found: list[Change] = []
        if queue.policy != command.policy:
            found.append(Governed(command.policy))
        if command.gone:
            found.append(Settled(ranges_of(sorted(command.gone))))
        found += [
            _quarantined(one, now_ms, dies=command.policy.dead_letters, with_leased=False)
            for one in command.set_aside
            if one.fresh or queue.is_ready(one.offset)
        ]
        grants = Grants(command, now_ms)
        for offset in command.retries:
            if queue.is_ready(offset):
                grants.add_retry(queue, offset)
        grants.add_fresh(queue, command.fresh)
        grants.count(queue)
        found += grants.changes
        if command.cursors != command.base:
            found.append(Cursors(command.cursors, command.epoch))
        if found:
            changes[queue] = found
        return grants.granted, Operation.LEASE

    def _settle(self, command: Settle, now_ms: int, changes: Changes) -> tuple[object, Operation]:
        operation = Operation.SETTLE_DURABLY if command.durable else Operation.SETTLE
        return outcomes.settle(command, now_ms, self._leases, changes), operation

    def _promise(self, command: Promise, now_ms: int, changes: Changes) -> tuple[object, Operation | None]:  # noqa: ARG002
        # Held: the transaction may be committed as soon as this is answered.
        return outcomes.promise(command, self._leases, changes), Operation.PROMISE

    def _reopen(self, command: Reopen, now_ms: int, changes: Changes) -> tuple[None, Operation | None]:  # noqa: ARG002
        queue = self._sound(command.queue)
        epochs = command.producer_epoch, command.coordinator_epoch
        changes[queue] = [Reopening(command.producer_id, *share, *epochs) for share in command.shares]
        return None, Operation.PROMISE

    def _end_promises(self, command: EndPromises, now_ms: int, changes: Changes) -> tuple[object, Operation | None]:
        producer_id = command.producer_id
        concerned = [
            queue for queue in self._queues.values() if producer_id in queue.promises or producer_id in queue.reopenings
        ]
        for queue in concerned:
            outcomes.check_end(queue, command)
        for queue in concerned:
            found = reopened(queue, producer_id, now_ms) if command.commit else []
            changes[queue] = [*found, *outcomes.end_promises(queue, command, now_ms)]
        # Held also if it is told again: what was written at the first time may not be durable yet.
        is_repeat = producer_id in self._ended
        if concerned:
            self._ended[producer_id] = None
            if len(self._ended) > _ENDED_MAX:
                del self._ended[next(iter(self._ended))]
        operation = Operation.END if concerned or is_repeat else Operation.END_AGAIN
        return tuple(queue.id for queue in changes), operation

    def _settle_held(self, command: SettleHeld, now_ms: int, changes: Changes) -> tuple[object, Operation | None]:
        queue = self._sound(command.queue)
        return outcomes.settle_held(queue, command, now_ms, changes), Operation.SETTLE

    def _set_aside_held(self, command: SetAsideHeld, now_ms: int, changes: Changes) -> tuple[None, Operation | None]:
        queue = self._sound(command.queue)
        found: list[Change] = []
        for one in command.stretches:
            hold = queue.outstanding.get(one.offset)
            if hold is not None and hold.state is State.LEASED and hold.consumer == command.consumer:
                stretch = one._replace(lane=hold.lane)
                found.append(_quarantined(stretch, now_ms, dies=queue.policy.dead_letters, with_leased=True))
        if found:
            changes[queue] = found
        return None, Operation.SETTLE

    def _release(self, command: ReleaseConsumer, now_ms: int, changes: Changes) -> tuple[int, Operation | None]:
        queue = self._queues.get(command.queue)
        if queue is None or queue.is_incomplete:
            return 0, Operation.RELEASE
        return outcomes.release_consumer(queue, command.consumer, now_ms, changes), Operation.RELEASE

    def _begin_move(self, command: BeginMove, now_ms: int, changes: Changes) -> tuple[object, Operation | None]:  # noqa: ARG002
        queue = self._sound(command.queue)
        if (not queue.dying and not queue.moving) or command.of not in {None, _move_id(queue)}:
            return None, None
        offsets = queue.moving or sorted(queue.dying)[:MOVE_MESSAGES_MAX]
        producer_id, sequence = queue.producer_id, queue.next_sequence
        if producer_id < 0 and command.producer_id < 0:
            return ProducerIdNeeded(), None
        if producer_id < 0 or command.renews:
            producer_id, sequence = command.producer_id, 0
        is_fewer = 0 < command.limit < len(offsets)
        if is_fewer:
            offsets = offsets[: command.limit]
        if is_fewer or command.renews or not queue.moving:
            changes[queue] = [Moving(producer_id, sequence, offsets)]
        # Held: the batch may be appended only once this cannot be forgotten, or another would get its sequence.
        return Move(producer_id, sequence, tuple(_dead(queue, offset) for offset in offsets)), Operation.BEGIN_MOVE

    def _end_move(self, command: EndMove, now_ms: int, changes: Changes) -> tuple[None, Operation | None]:  # noqa: ARG002
        queue = self._sound(command.queue)
        # Whoever appended the batch may have lost the lead meanwhile, and have it again.
        if queue.moving and command.move == _move_id(queue) and command.count == len(queue.moving):
            changes[queue] = [Moved(command.move.sequence + command.count)]
        return None, Operation.END_MOVE

    def _reset(self, command: ResetQueue, now_ms: int, changes: Changes) -> tuple[None, Operation | None]:  # noqa: ARG002
        queue = self._idle(command.queue)
        changes[queue] = [Reset([command.offset] * LANES, command.epoch)]
        return None, Operation.RESET

    def _govern(self, command: Govern, now_ms: int, changes: Changes) -> tuple[None, Operation | None]:  # noqa: ARG002
        queue = self._queues.get(command.queue)
        if queue is not None and not queue.is_incomplete and queue.policy != command.policy:
            changes[queue] = [Governed(command.policy)]
        return None, Operation.LEASE

    def _cut(self, command: CutQueue, now_ms: int, changes: Changes) -> tuple[bool, Operation | None]:  # noqa: ARG002
        queue = self._sound(command.queue)
        if queue.epoch != command.known_epoch:
            return False, Operation.CUT
        # What is outstanding lies before a cursor.
        if max(queue.cursors) > command.end:
            changes[queue] = [Cut(command.end, command.epoch)]
        return True, Operation.CUT

    def _forget(self, command: ForgetQueue, now_ms: int, changes: Changes) -> tuple[None, Operation | None]:  # noqa: ARG002
        if command.idle_only:
            self._idle(command.queue)
        return None, Operation.RESET

    _HANDLERS: ClassVar[dict[type, Callable[..., tuple[object, Operation | None]]]] = {
        OpenQueue: _open,
        Lease: _lease,
        Settle: _settle,
        SettleHeld: _settle_held,
        SetAsideHeld: _set_aside_held,
        Promise: _promise,
        Reopen: _reopen,
        EndPromises: _end_promises,
        ReleaseConsumer: _release,
        BeginMove: _begin_move,
        EndMove: _end_move,
        ResetQueue: _reset,
        ForgetQueue: _forget,
        CutQueue: _cut,
        Govern: _govern,
    }

    # --- queues --------------------------------------------------------------------------

    def _forgotten(self, queue_id: QueueId) -> list[Record]:
        """What removes a queue from the log. One that was never written is dropped at once."""
        queue = self._queues.get(queue_id)
        if queue is None:
            return []
        if not (queue.sequence or queue.is_incomplete):
            self._drop(queue_id)
            return []
        return tombstones(queue)

    def _put(self, queue_id: QueueId) -> Queue:
        queue = self._queues[queue_id] = Queue(queue_id, self._timers, self._leases, self.advance)
        self._table.put(queue)
        return queue

    def _drop(self, queue_id: QueueId) -> None:
        queue = self._queues.pop(queue_id, None)
        if queue is not None:
            queue.change(Reset([0] * LANES))
            self._table.drop(queue)

    def _sound(self, queue_id: QueueId) -> Queue:
        queue = self._queues.get(queue_id) or self._put(queue_id)
        if queue.is_incomplete:
            raise StorageError(f"the delivery log lacks records of group {queue_id.group!r}")
        return queue

    def _idle(self, queue_id: QueueId) -> Queue:
        queue = self._sound(queue_id)
        if queue.in_flight_count or queue.dying or queue.pending or queue.reopenings:
            raise GroupInFlight(
                f"{queue.in_flight_count + len(queue.dying)} messages of group {queue_id.group!r} are in flight"
            )
        return queue


def _quarantined(one: SetAside, now_ms: int, *, dies: bool, with_leased: bool) -> Quarantined:
    return Quarantined(one.lane, one.offset, one.first, one.last, one.error, now_ms, dies, with_leased)


def _move_id(queue: Queue) -> MoveId:
    return MoveId(queue.producer_id, queue.next_sequence)


def _dead(queue: Queue, offset: int) -> Dead:
    hold = queue.outstanding[offset]
    return Dead(offset, hold.lane, hold.count, hold.consumer, hold.first_ms, hold.last_ms, hold.reason, hold.error)
