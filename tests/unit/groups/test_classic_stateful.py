"""The classic protocol under every order of events that Hypothesis can think of.

Members join, sync, beat, crash, return, and the broker restarts between any two steps. However
it comes: those whose commits would be taken own disjoint partitions, generations only rise,
the log says what memory says, and nobody waits for an answer for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.groups.driver import Bench

from goqueue.errors import GoQueueError, MemberIdRequired, RebalanceInProgress
from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.commands import Heartbeat, Joined, LeaveGroup, Leaver, Synced
from goqueue.groups.descriptions import GroupState

PARTITIONS = 7


@dataclass
class Client:
    """A consumer, as far as it knows."""

    name: str
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    # The generation that what it reads was given in.
    owns_in: int = -1
    owned: bytes = b""
    joining: int | None = None
    syncing: int | None = None

    @property
    def waits(self) -> bool:
        return self.joining is not None or self.syncing is not None

    def forget(self) -> None:
        self.member_id, self.generation, self.owns_in, self.owned = "", -1, -1, b""


class ClassicGroups(RuleBasedStateMachine):
    """One group and up to five clients."""

    @initialize(delay_ms=st.sampled_from([0, 0, 3_000]))
    def begin(self, delay_ms: int) -> None:
        self.bench = Bench(initial_rebalance_delay_ms=delay_ms)
        self.clients: list[Client] = []
        self.made = 0
        self.ids = 0
        self.last_generation = 0
        self.durable_generation = 0

    # --- what happens -----------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 5)
    @rule(is_static=st.booleans())
    def a_client_comes(self, is_static: bool) -> None:
        self.made += 1
        taken = {one.instance_id for one in self.clients}
        instance_id = next((one for one in ("i1", "i2") if one not in taken), None) if is_static else None
        self.clients.append(Client(f"c{self.made}", instance_id))
        self.join(self.clients[-1])

    @precondition(lambda self: any(not one.waits for one in self.clients))
    @rule(data=st.data())
    def a_client_goes_on(self, data: st.DataObject) -> None:
        """What a client does next depends only on what it was last told."""
        self.go_on(data.draw(st.sampled_from([one for one in self.clients if not one.waits])))

    @precondition(lambda self: any(one.waits for one in self.clients))
    @rule(data=st.data())
    def a_connection_breaks(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([one for one in self.clients if one.waits]))
        client.joining = client.syncing = None

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_leaves(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.clients.remove(client)
        self.bench.send(LeaveGroup("g", (Leaver(client.member_id, client.instance_id),)))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_crashes(self, data: st.DataObject) -> None:
        self.clients.remove(data.draw(st.sampled_from(self.clients)))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_process_is_replaced(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.clients))
        client.forget()
        client.joining = client.syncing = None
        self.join(client)

    @rule(ms=st.sampled_from([100, 5_000, 11_000, 61_000]))
    def time_passes(self, ms: int) -> None:
        self.bench.pass_ms(ms)

    @rule(compacted=st.booleans())
    def the_broker_restarts(self, compacted: bool) -> None:
        self.hear()
        self.bench.restart(compacted=compacted)
        self.last_generation = self.durable_generation
        for client in self.clients:
            client.joining = client.syncing = None

    # --- what must be -----------------------------------------------------------------

    @invariant()
    def answers_reach_their_clients(self) -> None:
        self.hear()

    @invariant()
    def those_who_may_commit_own_disjoint_partitions(self) -> None:
        group = self.group()
        if group is None:
            return
        owned: list[int] = []
        for client in self.clients:
            if (
                client.member_id in group.members
                and client.owns_in == group.generation
                and group.state in {GroupState.STABLE, GroupState.PREPARING_REBALANCE}
            ):
                owned.extend(client.owned)
        assert len(owned) == len(set(owned))

    @invariant()
    def generations_only_rise(self) -> None:
        group = self.group()
        if group is not None:
            assert group.generation >= self.last_generation
            self.last_generation = group.generation
            if group.stored is not None:
                assert group.stored.generation >= self.durable_generation
                self.durable_generation = group.stored.generation

    @invariant()
    def the_log_says_what_memory_says(self) -> None:
        self.bench.check_replay()

    def teardown(self) -> None:
        """Left alone, the clients that are there form one generation that owns everything."""
        if not hasattr(self, "bench"):
            return
        for _ in range(80):
            self.bench.pass_ms(2_000)
            for client in self.clients:
                self.hear()
                if not client.waits:
                    self.go_on(client)
        self.hear()
        group = self.group()
        if group is None or not self.clients:
            return
        assert group.state is GroupState.STABLE
        assert {one.member_id for one in self.clients} == group.members.keys()
        assert sorted(one for client in self.clients for one in client.owned) == list(range(PARTITIONS))
        assert not [one for one in self.clients if one.waits]

    # --- how --------------------------------------------------------------------------

    def join(self, client: Client) -> None:
        self.ids += 1
        client.joining = self.bench.join(
            client.member_id,
            new_id=f"{client.name}-{self.ids}",
            instance_id=client.instance_id,
            id_required=client.instance_id is None,
        )

    def go_on(self, client: Client) -> None:
        if client.generation < 0:
            self.join(client)
        elif client.owns_in != client.generation:
            self.sync(client)
        else:
            ticket = self.bench.send(Heartbeat("g", client.member_id, client.generation, client.instance_id))
            self.refused(client, self.bench.replies[ticket])

    def sync(self, client: Client) -> None:
        group = self.group()
        assignments = {}
        if group is not None and group.leader == client.member_id and group.generation == client.generation:
            names = sorted(group.members)
            assignments = {name: bytes(range(place, PARTITIONS, len(names))) for place, name in enumerate(names)}
        client.syncing = self.bench.sync(
            client.member_id, client.generation, assignments, instance_id=client.instance_id
        )

    def hear(self) -> None:
        for client in self.clients:
            if client.joining in self.bench.replies:
                self.told_generation(client, self.bench.replies[client.joining])
            if client.syncing in self.bench.replies:
                self.told_assignment(client, self.bench.replies[client.syncing])

    def told_generation(self, client: Client, reply: object) -> None:
        client.joining = None
        if isinstance(reply, Joined):
            client.member_id, client.generation = reply.member_id, reply.generation
            if client.owns_in != reply.generation:
                client.owned = b""  # eager: everything is given up before joining
        else:
            self.refused(client, reply)

    def told_assignment(self, client: Client, reply: object) -> None:
        client.syncing = None
        if isinstance(reply, Synced):
            client.owned, client.owns_in = reply.assignment, client.generation
        else:
            self.refused(client, reply)

    def refused(self, client: Client, reply: object) -> None:
        if isinstance(reply, MemberIdRequired):
            client.member_id = reply.member_id
        elif isinstance(reply, RebalanceInProgress):
            client.generation = -1
        elif isinstance(reply, GoQueueError):
            client.forget()

    def group(self) -> ClassicGroup | None:
        entry = self.bench.machine._table.get("g")
        return None if entry is None else entry.classic


TestClassicGroups = ClassicGroups.TestCase
TestClassicGroups.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
