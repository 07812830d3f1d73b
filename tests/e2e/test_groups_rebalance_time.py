"""RP.03: how long a rebalance takes from end to end, and that what stays is read throughout."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.e2e.group_members import Member, create_topic, quick_broker

MEMBERS = 10
PARTITIONS = 100
SECONDS_MAX = 1.0


class Polled:
    """A member that a thread of its own polls, as applications do; nobody else may touch it meanwhile."""

    def __init__(self, address: str, protocol: str) -> None:
        self.member = Member(address, "g", protocol, "t")
        self.owned: set[tuple[str, int]] = set()


@contextmanager
def polling(members: list[Polled]) -> Iterator[None]:
    stopping = threading.Event()

    def run(one: Polled) -> None:
        while not stopping.is_set():
            one.member.poll(0.02)
            one.owned = one.member.owned

    threads = [threading.Thread(target=run, args=(one,)) for one in members]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def settled(members: list[Polled]) -> bool:
    sizes = [len(one.owned) for one in members]
    return sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1


def seconds_until(members: list[Polled], limit: float) -> float:
    begin = time.monotonic()
    while not settled(members):
        assert time.monotonic() - begin < limit, [len(one.owned) for one in members]
        time.sleep(0.005)
    return time.monotonic() - begin


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["consumer", "cooperative-sticky"])
def test_an_eleventh_member_has_its_share_within_a_second(
    tmp_path_factory: pytest.TempPathFactory, protocol: str
) -> None:
    with quick_broker(tmp_path_factory.mktemp("broker")) as broker:
        create_topic(broker.kafka, "t", PARTITIONS)
        members = [Polled(broker.kafka, protocol) for _ in range(MEMBERS)]
        with polling(members):
            seconds_until(members, 60)
            time.sleep(1)  # the last of them has nothing left to say
            kept = [one.owned for one in members]
            newcomer = Polled(broker.kafka, protocol)
            with polling([newcomer]):
                took = seconds_until([*members, newcomer], 30)
        print(f"{protocol}: {took * 1000:.0f} ms for {PARTITIONS} partitions over {MEMBERS} members and one more")
        moved = sum(len(before - one.owned) for before, one in zip(kept, members, strict=True))
        for one in [*members, newcomer]:
            one.member.consumer.close()

    assert moved == len(newcomer.owned) == PARTITIONS // (MEMBERS + 1), "only what the newcomer gets has moved"
    if protocol == "consumer":
        assert took < SECONDS_MAX
