"""The new protocol under every order of events that Hypothesis can think of.

Clients here behave as the protocol asks, but lose answers, crash, return, and the broker
restarts between any two steps. However it comes: a partition has at most one owner, epochs
only rise, the log says what memory says, and when the dust settles all is handed out evenly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.groups.driver import Bench, FakeTopics

from goqueue.errors import (
    FencedInstance,
    FencedMemberEpoch,
    GoQueueError,
    GroupNotFound,
    UnknownMember,
    UnreleasedInstance,
)
from goqueue.groups.commands import ConsumerBeat, ConsumerHeartbeat
from goqueue.groups.consumer.group import ConsumerGroup
from goqueue.groups.subscription.topic_partitions import NO_PARTITIONS, PartitionSet

_FENCED = (UnknownMember, FencedMemberEpoch, FencedInstance, UnreleasedInstance, GroupNotFound)


@dataclass
class Client:
    """A consumer: what it believes it owns, and what it has been asked to own."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    epoch: int = 0
    owned: PartitionSet = NO_PARTITIONS
    asked: PartitionSet | None = None
    # An answer was lost: the next heartbeat says everything again, and is told everything.
    is_unsure: bool = False
    seen_epochs: list[int] = field(default_factory=list)

    def request(self) -> ConsumerHeartbeat:
        is_full = self.epoch == 0 or self.is_unsure
        return ConsumerHeartbeat(
            group="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=45_000 if is_full else None,
            topics=self.topics,
            owned=self.owned,
        )

    def take(self, beat: ConsumerBeat) -> None:
        self.is_unsure = False
        self.epoch = beat.member_epoch
        self.seen_epochs.append(beat.member_epoch)
        if beat.assignment is not None:
            self.asked = beat.assignment
        self.pick_up()

    def pick_up(self) -> None:
        # What is new may be read only once what must go is gone.
        if self.asked is not None and self.owned <= self.asked:
            self.owned = self.asked

    def finish(self) -> None:
        """Let go of what was asked for; until then the client is one that takes its time."""
        if self.asked is not None:
            self.owned &= self.asked
            self.pick_up()

    def abandon(self) -> None:
        self.epoch, self.owned, self.asked = 0, NO_PARTITIONS, None


class ConsumerGroups(RuleBasedStateMachine):
    """One group, up to six clients, two topics that come, grow and go."""

    @initialize(sizes=st.tuples(st.integers(1, 6), st.integers(0, 4)))
    def begin(self, sizes: tuple[int, int]) -> None:
        topics = FakeTopics(t=sizes[0])
        if sizes[1]:
            topics.create("u", sizes[1])
        self.bench = Bench(topics)
        self.clients: list[Client] = []
        self.made = 0
        self.epoch = 0

    # --- what happens -----------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 6)
    @rule(topics=st.sampled_from([("t",), ("t",), ("t", "u"), ("u",)]), is_static=st.booleans())
    def a_client_joins(self, topics: tuple[str, ...], is_static: bool) -> None:
        self.made += 1
        taken = {one.instance_id for one in self.clients}
        instance_id = next((one for one in ("i1", "i2") if one not in taken), None) if is_static else None
        client = Client(f"m{self.made}", instance_id, topics)
        self.clients.append(client)
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_beats(self, data: st.DataObject) -> None:
        self.beat(data.draw(st.sampled_from(self.clients)))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_lets_go_and_beats(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        client.finish()
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def an_answer_is_lost(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.bench.send(client.request())
        client.is_unsure = True

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), topics=st.sampled_from([("t",), ("t", "u")]))
    def a_client_changes_its_mind(self, data: st.DataObject, topics: tuple[str, ...]) -> None:
        client = data.draw(st.sampled_from(self.clients))
        client.topics = topics
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_leaves(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.clients.remove(client)
        if client.epoch > 0:
            epoch = -2 if client.instance_id is not None else -1
            self.bench.send(ConsumerHeartbeat("g", client.member_id, epoch, client.instance_id))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_crashes(self, data: st.DataObject) -> None:
        self.clients.remove(data.draw(st.sampled_from(self.clients)))

    @rule(ms=st.sampled_from([1_000, 10_000, 29_000, 46_000]))
    def time_passes(self, ms: int) -> None:
        self.bench.pass_ms(ms)

    @rule(compacted=st.booleans())
    def the_broker_restarts(self, compacted: bool) -> None:
        self.bench.restart(compacted=compacted)

    @rule(partitions=st.integers(1, 3))
    def a_topic_grows(self, partitions: int) -> None:
        shape = self.bench.topics.shape("t")
        if shape is not None:
            self.bench.topics.grow("t", shape.partitions + partitions)

    @rule(partitions=st.integers(1, 4))
    def a_topic_is_deleted_and_comes_back(self, partitions: int) -> None:
        if self.bench.topics.shape("u") is not None:
            self.bench.topics.delete("u")
        else:
            self.bench.topics.create("u", partitions)

    # --- what must be -----------------------------------------------------------------

    @invariant()
    def a_partition_has_at_most_one_owner(self) -> None:
        group = self.group()
        if group is None:
            return
        held = [one for member in group.members.values() for one in member.current.held]
        assert len(held) == len(set(held))
        assert group.owners == {one: member for member in group.members for one in group.members[member].current.held}

    @invariant()
    def no_client_in_the_group_reads_what_the_broker_thinks_is_free(self) -> None:
        group = self.group()
        for client in self.clients:
            if group is not None and client.member_id in group.members and client.epoch > 0:
                # Of a deleted topic there is nothing left to read, so nothing of it has to be given up.
                exists = self.bench.topics.name_of
                readable = {one for one in client.owned if exists(one.topic_id) is not None}
                assert readable <= group.members[client.member_id].current.held

    @invariant()
    def epochs_only_rise(self) -> None:
        group = self.group()
        if group is not None:
            assert group.epoch >= self.epoch
            self.epoch = group.epoch
        for client in self.clients:
            assert client.seen_epochs == sorted(client.seen_epochs)

    @invariant()
    def the_log_says_what_memory_says(self) -> None:
        self.bench.check_replay()

    def teardown(self) -> None:
        """Left alone, the clients that are there come to rest with everything handed out evenly."""
        if not hasattr(self, "bench"):
            return
        for _ in range(12):
            self.bench.pass_ms(10_000)
            for client in self.clients:
                client.finish()
                self.beat(client)
        group = self.group()
        if group is None or not self.clients:
            return
        assert {one.member_id for one in self.clients} == group.members.keys()
        expected = set()
        for name in {one for client in self.clients for one in client.topics}:
            if self.bench.topics.shape(name) is not None:
                expected |= self.bench.topics.partitions(name)
        assert {one for client in self.clients for one in client.owned} == expected
        assert sum(len(client.owned) for client in self.clients) == len(expected)
        for topics in {client.topics for client in self.clients}:
            sizes = [len(client.owned) for client in self.clients if client.topics == topics]
            assert max(sizes) - min(sizes) <= 1
        assert not self.bench.rebalances.is_open("g")

    # --- how --------------------------------------------------------------------------

    def beat(self, client: Client) -> None:
        try:
            reply = self.bench.ask(client.request())
        except _FENCED:
            client.abandon()
            client.seen_epochs.clear()
            return
        except GoQueueError as error:  # pragma: no cover - would be a bug
            raise AssertionError(error) from error
        assert isinstance(reply, ConsumerBeat)
        client.take(reply)

    def group(self) -> ConsumerGroup | None:
        entry = self.bench.machine._table.get("g")
        return None if entry is None else entry.consumer


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
