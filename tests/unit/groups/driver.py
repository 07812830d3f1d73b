"""Runs a group machine as its shard would, with time in the test's hands."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from goqueue.config import GroupsConfig
from goqueue.coordinator.shard import Decision
from goqueue.errors import GoQueueError
from goqueue.groups.commands import (
    ConsumerBeat,
    ConsumerHeartbeat,
    Heartbeat,
    Joined,
    JoinGroup,
    SyncGroup,
)
from goqueue.groups.machine import GroupMachine
from goqueue.groups.statistics import Rebalances
from goqueue.groups.subscription.topic_partitions import PartitionSet, TopicIdPartition, TopicShape

START_MS = 1_700_000_000_000


class FakeTopics:
    """A catalog that tests can change."""

    def __init__(self, **partitions: int) -> None:
        self.version = 0
        self._shapes: dict[str, TopicShape] = {}
        self._ids = 0
        for name, count in partitions.items():
            self.create(name, count)

    def create(self, name: str, partitions: int) -> UUID:
        self._ids += 1
        self._shapes[name] = TopicShape(UUID(int=self._ids), partitions)
        self.version += 1
        return self._shapes[name].topic_id

    def grow(self, name: str, partitions: int) -> None:
        self._shapes[name] = self._shapes[name]._replace(partitions=partitions)
        self.version += 1

    def delete(self, name: str) -> None:
        del self._shapes[name]
        self.version += 1

    def shape(self, name: str) -> TopicShape | None:
        return self._shapes.get(name)

    def name_of(self, topic_id: UUID) -> str | None:
        return next((name for name, shape in self._shapes.items() if shape.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        return list(self._shapes)

    def partitions(self, name: str, *numbers: int) -> PartitionSet:
        shape = self._shapes[name]
        return frozenset(TopicIdPartition(shape.topic_id, one) for one in numbers or range(shape.partitions))


class Bench:
    """A machine, its log, and the answers it gave."""

    def __init__(self, topics: FakeTopics | None = None, **settings: int) -> None:
        self.config = replace(GroupsConfig(), **settings)
        self.topics = topics or FakeTopics(t=3)
        self.rebalances = Rebalances()
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.replies: dict[int, object] = {}
        # Members of queue groups that delivery was told to be gone.
        self.departed: list[tuple[str, str]] = []
        self._tickets = 0
        self.machine = self._new_machine()

    # --- asking -------------------------------------------------------------------------

    def send(self, command: object) -> int:
        """Submit a command; its answer may come later."""
        self._tickets += 1
        try:
            decision = self.machine.decide(self._tickets, command, self.now_ms)
        except GoQueueError as refusal:
            decision = Decision(replies=[(self._tickets, refusal)])
        self._carry_out(decision)
        return self._tickets

    def answer(self, ticket: int) -> object:
        """The answer to a ticket, raised if it is an error."""
        assert ticket in self.replies, "not answered yet"
        reply = self.replies[ticket]
        if isinstance(reply, GoQueueError):
            raise reply
        return reply

    def ask(self, command: object) -> object:
        """Submit a command that is answered at once."""
        return self.answer(self.send(command))

    def waits(self, ticket: int) -> bool:
        return ticket not in self.replies

    # --- time and restarts --------------------------------------------------------------

    def pass_ms(self, ms: int) -> None:
        """Let time pass, ringing every alarm when it is due."""
        until_ms = self.now_ms + ms
        while (at_ms := self.machine.wake_at_ms()) is not None and at_ms <= until_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self._carry_out(self.machine.tick(self.now_ms))
        self.now_ms = until_ms

    def restart(self, *, compacted: bool = False) -> None:
        """Lose all but the log; outstanding requests are never answered."""
        self.machine = self._replayed(compacted=compacted)
        self.rebalances = Rebalances()

    def check_replay(self) -> None:
        """What is durable is what the log says, whole or compacted, and what a snapshot says."""
        expected = self.machine.snapshot()
        assert self._replayed(compacted=False).snapshot() == expected
        assert self._replayed(compacted=True).snapshot() == expected
        restored = self._new_machine()
        restored.restore(expected)
        assert restored.snapshot() == expected

    def _replayed(self, *, compacted: bool) -> GroupMachine:
        machine = self._new_machine()
        last = {key: place for place, (key, _) in enumerate(self.log)}
        for place, (key, value) in enumerate(self.log):
            if not compacted or last[key] == place:
                machine.apply(key, value)
        return machine

    def _new_machine(self) -> GroupMachine:
        return GroupMachine(
            self.config,
            self.topics,
            self.rebalances,
            departed=lambda group, member_id: self.departed.append((group, member_id)),
        )

    def _carry_out(self, decision: Decision) -> None:
        for key, value in decision.records:
            self.log.append((key, value))
            self.machine.apply(key, value)
        for ticket, reply in decision.replies:
            assert ticket not in self.replies, "answered twice"
            self.replies[ticket] = reply

    # --- the classic protocol -----------------------------------------------------------

    def join(
        self, member_id: str, *, group: str = "g", new_id: str = "", topics: Sequence[str] = ("t",), **more: object
    ) -> int:
        """Ask to be in the next generation. Without a member id, `new_id` is what it will get."""
        settings: dict[str, object] = {
            "protocol_type": "consumer",
            "protocols": (("range", subscription(*topics)),),
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "id_required": False,
            **more,
        }
        return self.send(JoinGroup(group=group, member_id=member_id, new_member_id=new_id or member_id, **settings))  # type: ignore[arg-type]

    def newcomer(self, member_id: str, **more: object) -> int:
        """Join for the first time, as a client that is told its id."""
        return self.join("", new_id=member_id, **more)  # type: ignore[arg-type]

    def joined(self, ticket: int) -> Joined:
        reply = self.answer(ticket)
        assert isinstance(reply, Joined)
        return reply

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        group: str = "g",
        **more: object,
    ) -> int:
        return self.send(SyncGroup(group, member_id, generation, assignments or {}, **more))  # type: ignore[arg-type]

    def beat(self, member_id: str, generation: int, **more: object) -> None:
        self.ask(Heartbeat("g", member_id, generation, **more))  # type: ignore[arg-type]

    def form(self, *member_ids: str, group: str = "g", **more: object) -> int:
        """A stable generation of these new members, the first leading; returns its number."""
        tickets = {}
        for member_id in member_ids:
            tickets[member_id] = self.newcomer(member_id, group=group, **more)
            for known, ticket in tickets.items():
                if known != member_id and not self.waits(ticket):
                    tickets[known] = self.join(known, group=group, **more)  # type: ignore[arg-type]
        generation = self.joined(tickets[member_ids[0]]).generation
        for member_id in member_ids[1:]:
            self.sync(member_id, generation, group=group)
        leader = self.joined(tickets[member_ids[0]]).leader
        self.answer(self.sync(leader, generation, {one: one.encode() for one in member_ids}, group=group))
        return generation

    # --- the new protocol ---------------------------------------------------------------

    def consume(self, member_id: str, epoch: int = 0, **more: object) -> ConsumerBeat:
        """One heartbeat of the new protocol; joining members read topic t unless they say."""
        settings: dict[str, object] = {"group": "g"}
        if epoch == 0:
            settings |= {"rebalance_timeout_ms": 300_000, "topics": ("t",), "owned": frozenset()}
        beat = self.ask(ConsumerHeartbeat(member_id=member_id, member_epoch=epoch, **{**settings, **more}))  # type: ignore[arg-type]
        assert isinstance(beat, ConsumerBeat)
        return beat


def subscription(*topics: str) -> bytes:
    """What a consumer of the classic protocol says it wants to read."""
    names = b"".join(struct.pack(">h", len(one)) + one.encode() for one in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def assignment(**partitions: Sequence[int]) -> bytes:
    """What a leader of the classic protocol gives a member to read."""
    parts = b"".join(
        struct.pack(">h", len(topic)) + topic.encode() + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in partitions.items()
    )
    return struct.pack(">hi", 0, len(partitions)) + parts + struct.pack(">i", -1)
