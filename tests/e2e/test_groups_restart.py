"""Groups over restarts of the broker, clean and by kill -9, while members are at work."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from tests.e2e.group_members import Member, create_topic, produce, quick_broker, wait_until
from tests.e2e.process import BrokerProcess


def member_ids(address: str, group: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    return {one.member_id for one in admin.describe_consumer_groups([group])[group].result(20).members}


def committed(address: str, group: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, None)])[group].result(20)
    return {one.partition: one.offset for one in found.topic_partitions}


def restart(broker: BrokerProcess, how: str) -> None:
    if how == "kill -9":
        broker.kill()
    broker.restart()


@pytest.mark.parametrize("how", ["stop", "kill -9"])
def test_members_and_offsets_survive(tmp_path_factory: pytest.TempPathFactory, how: str) -> None:
    """The same members go on, nothing is read twice that was committed, nothing is missed."""
    protocols = ["range", "cooperative-sticky", "consumer"]
    # Sessions that outlast the slowest restart: who is timed out by its own client must join again.
    # Members end before their broker does, whatever happens: one that is left behind waits for it for ever.
    with quick_broker(tmp_path_factory.mktemp("broker"), session_timeout_ms=60_000) as broker, ExitStack() as ending:
        address = broker.kafka
        members: dict[str, list[Member]] = {}
        for protocol in protocols:
            create_topic(address, protocol, 4)
            session = {} if protocol == "consumer" else {"session_timeout_ms": 60_000}
            members[protocol] = [
                ending.enter_context(Member(address, protocol, protocol, protocol, **session)) for _ in range(2)
            ]
        everybody = [one for pair in members.values() for one in pair]
        wait_until(lambda: all(len(one.owned) == 2 for one in everybody), *everybody)
        # Only now: a first member that owned everything could have read it all, and the second nothing.
        for protocol in protocols:
            produce(address, protocol, 4, 100)
        wait_until(lambda: all(sum(len(one.read) for one in pair) >= 100 for pair in members.values()), *everybody)
        for one in everybody:
            one.consumer.commit(asynchronous=False)
        before = {protocol: member_ids(address, protocol) for protocol in protocols}
        owned = [one.owned for one in everybody]
        rebalances = [one.assigned for one in everybody]

        restart(broker, how)

        for protocol in protocols:
            # A commit that was answered is durable.
            assert committed(address, protocol) == {0: 25, 1: 25, 2: 25, 3: 25}
        for protocol in protocols:
            produce(address, protocol, 4, 40, start=100)
        wait_until(lambda: all(sum(len(one.read) for one in pair) >= 140 for pair in members.values()), *everybody)
        assert {protocol: member_ids(address, protocol) for protocol in protocols} == before
        assert [one.owned for one in everybody] == owned
        assert [one.assigned for one in everybody] == rebalances, "nobody had to join again"
        for protocol, pair in members.items():
            values = [int(value) for one in pair for value in one.values]
            assert sorted(values) == list(range(140)), protocol
        for one in everybody:
            one.consumer.commit(asynchronous=False)


@pytest.mark.slow
def test_a_broker_that_was_frozen_does_not_blame_its_members(tmp_path_factory: pytest.TempPathFactory) -> None:
    """SIGSTOP for longer than a session, as a suspended machine would be."""
    with quick_broker(tmp_path_factory.mktemp("broker")) as broker:
        create_topic(broker.kafka, "t", 4)
        with Member(broker.kafka, "g", "consumer", "t") as first, Member(broker.kafka, "g", "consumer", "t") as second:
            wait_until(lambda: len(first.owned) == len(second.owned) == 2, first, second)
            before = member_ids(broker.kafka, "g")
            rebalances = (first.assigned, second.assigned)

            broker.signal(signal.SIGSTOP)
            time.sleep(9)
            broker.signal(signal.SIGCONT)

            produce(broker.kafka, "t", 4, 40)
            wait_until(lambda: len(first.read) + len(second.read) >= 40, first, second)
            assert member_ids(broker.kafka, "g") == before
            assert (first.assigned, second.assigned) == rebalances
