"""RP.03: what a rebalance costs the coordinator, and how little of it a quiet group costs."""

from __future__ import annotations

import time

from tests.unit.groups.driver import Bench, FakeTopics, assignment

MEMBERS = 10
PARTITIONS = 100
COORDINATOR_MS_MAX = 100


def test_a_join_into_ten_members_with_a_hundred_partitions_costs_little() -> None:
    """The new protocol: all heartbeats from the join until everybody has what is theirs."""
    bench = Bench(FakeTopics(t=PARTITIONS))
    names = [f"m{one}" for one in range(MEMBERS)]
    settle(bench, names)
    held = {name: len(bench.machine._table["g"].consumer.members[name].current.assigned) for name in names}  # type: ignore[union-attr]
    assert set(held.values()) == {10}

    begin = time.process_time()
    rounds = settle(bench, [*names, "new"])
    spent_ms = (time.process_time() - begin) * 1000

    assert spent_ms < COORDINATOR_MS_MAX
    assert rounds <= 3, "told, confirmed, given"
    assert bench.rebalances.of("g").partitions_moved - moved_before(MEMBERS) == 9


def test_a_classic_join_into_ten_members_costs_little() -> None:
    bench = Bench(FakeTopics(t=PARTITIONS))
    names = [f"m{one}" for one in range(MEMBERS)]
    bench.form(*names)

    begin = time.process_time()
    newest = bench.newcomer("new")
    for name in names:
        bench.join(name)
    generation = bench.joined(newest).generation
    for name in [*names[1:], "new"]:
        bench.sync(name, generation)
    bench.sync(names[0], generation, {name: assignment(t=range(9)) for name in [*names, "new"]})
    spent_ms = (time.process_time() - begin) * 1000

    assert spent_ms < COORDINATOR_MS_MAX


def settle(bench: Bench, names: list[str]) -> int:
    """Beat until nobody has anything left to do; returns how many rounds that took."""
    epochs = dict.fromkeys(names, 0)
    group = bench.machine._table.get("g")
    if group is not None and group.consumer is not None:
        epochs |= {name: member.current.epoch for name, member in group.consumer.members.items()}
    owned = {name: frozenset() for name in names}
    for round_number in range(1, 50):
        for name in names:
            known = bench.machine._table.get("g")
            if known is not None and known.consumer is not None and name in known.consumer.members:
                owned[name] = known.consumer.members[name].current.assigned
            beat = bench.consume(name, epochs[name], owned=owned[name] if epochs[name] else frozenset())
            epochs[name] = beat.member_epoch
        entry = bench.machine._table["g"]
        if entry.state.value == "Stable":
            return round_number
    raise AssertionError("the group did not settle")


def moved_before(members: int) -> int:
    """Partitions that moved while the members joined one after the other: each newcomer's share."""
    return sum(PARTITIONS // size for size in range(2, members + 1))
