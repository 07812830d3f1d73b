"""Groups of confluent-kafka: eager, cooperative and the new protocol, as people use them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.e2e.group_members import PROTOCOLS, Member, create_topic, produce, quick_broker, wait_until


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the broker of this module listens."""
    with quick_broker(tmp_path_factory.mktemp("broker")) as process:
        yield process.kafka


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return re.sub(r"[^a-z0-9-]+", "-", request.node.name)


@pytest.fixture
def admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, "log_level": 0})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_share_the_partitions_and_take_over_from_each_other(address: str, topic: str, protocol: str) -> None:
    create_topic(address, topic, 6)
    values = produce(address, topic, 6, 300)

    with Member(address, topic, protocol, topic) as first:
        wait_until(lambda: len(first.read) >= 300, first)
        assert sorted(first.values) == sorted(values)
        first.consumer.commit(asynchronous=False)

        with Member(address, topic, protocol, topic) as second:
            wait_until(lambda: len(first.owned) == len(second.owned) == 3, first, second)
            assert not first.owned & second.owned
            more = produce(address, topic, 6, 60, start=300)
            wait_until(lambda: len(first.read) + len(second.read) >= 360, first, second)
            assert sorted(first.values + second.values) == sorted(values + more), "each once: nothing was read again"
            first.consumer.commit(asynchronous=False)
            second.consumer.commit(asynchronous=False)

        wait_until(lambda: len(first.owned) == 6, first)
        committed = first.consumer.committed([TopicPartition(topic, one) for one in range(6)], 10)
        assert [one.offset for one in committed] == [60] * 6
        assert first.errors == []


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_offsets_are_committed_by_themselves_and_read_on_from(address: str, topic: str, protocol: str) -> None:
    create_topic(address, topic, 2)
    produce(address, topic, 2, 100)
    with Member(address, topic, protocol, topic, enable_auto_commit=True, auto_commit_interval_ms=100) as first:
        wait_until(lambda: len(first.read) >= 100, first)

    more = produce(address, topic, 2, 10, start=100)
    with Member(address, topic, protocol, topic) as second:
        wait_until(lambda: len(second.read) >= 10, second)

        assert sorted(second.values) == sorted(more)


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_static_member_that_restarts_disturbs_nobody(address: str, topic: str, protocol: str) -> None:
    """R12.01, KIP-345: the other member neither pauses nor sees a rebalance."""
    create_topic(address, topic, 4)
    with Member(address, topic, protocol, topic, group_instance_id="one") as staying:
        wait_until(lambda: len(staying.owned) == 4, staying)
        leaving = Member(address, topic, protocol, topic, group_instance_id="two")
        wait_until(lambda: len(staying.owned) == len(leaving.owned) == 2, staying, leaving)
        had, rebalances = leaving.owned, (staying.assigned, staying.revoked)

        leaving.consumer.close()
        with Member(address, topic, protocol, topic, group_instance_id="two") as back:
            wait_until(lambda: back.owned == had, staying, back)
            produce(address, topic, 4, 20)
            wait_until(lambda: len(staying.read) + len(back.read) >= 20, staying, back)

            assert (staying.assigned, staying.revoked) == rebalances


def test_the_former_self_of_a_static_member_is_fenced(address: str, topic: str) -> None:
    create_topic(address, topic, 1)
    with Member(address, topic, "range", topic, group_instance_id="one") as former:
        wait_until(lambda: len(former.owned) == 1, former)
        with Member(address, topic, "range", topic, group_instance_id="one") as latter:
            wait_until(lambda: len(latter.owned) == 1, latter)
            wait_until(lambda: bool(former.errors), former, latter)

            assert former.errors[0].code() == KafkaError._FATAL
            assert "fenced" in former.errors[0].str()
            assert latter.errors == []


@pytest.mark.parametrize("protocol", ["consumer", "range"])
def test_a_pattern_finds_topics_that_come_later(address: str, protocol: str) -> None:
    """From the new protocol the broker evaluates it; from the classic one the client does."""
    prefix = f"orders-{protocol}"
    create_topic(address, f"{prefix}-eu", 2)
    create_topic(address, f"other-{protocol}", 1)
    with Member(address, prefix, protocol, f"^{prefix}-.*") as member:
        wait_until(lambda: (f"{prefix}-eu", 1) in member.owned, member)
        create_topic(address, f"{prefix}-us", 1)

        wait_until(lambda: (f"{prefix}-us", 0) in member.owned, member)

        assert len(member.owned) == 3


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "consumer"])
def test_new_partitions_are_handed_out(address: str, admin: AdminClient, topic: str, protocol: str) -> None:
    create_topic(address, topic, 1)
    with Member(address, topic, protocol, topic) as member:
        wait_until(lambda: len(member.owned) == 1, member)

        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(10)

        wait_until(lambda: len(member.owned) == 3, member)


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_a_topic_created_anew_is_read_from_its_beginning(
    address: str, admin: AdminClient, topic: str, protocol: str
) -> None:
    """Its predecessor's offsets are not its own."""
    create_topic(address, topic, 1)
    produce(address, topic, 1, 50)
    with Member(address, topic, protocol, topic) as first:
        wait_until(lambda: len(first.read) >= 50, first)
        first.consumer.commit(asynchronous=False)

    admin.delete_topics([topic])[topic].result(10)
    create_topic(address, topic, 1)
    values = produce(address, topic, 1, 5, start=1000)

    with Member(address, topic, protocol, topic) as second:
        wait_until(lambda: len(second.read) >= 5, second)
        assert second.values == values


def test_seek_pause_and_lag_work_within_a_group(address: str, topic: str) -> None:
    create_topic(address, topic, 1)
    produce(address, topic, 1, 100)
    with Member(address, topic, "consumer", topic) as member:
        wait_until(lambda: len(member.read) >= 100, member)
        partition = TopicPartition(topic, 0)

        member.consumer.seek(TopicPartition(topic, 0, 90))
        wait_until(lambda: len(member.read) >= 110, member)
        assert member.values[100:] == [str(one) for one in range(90, 100)]

        member.consumer.commit(offsets=[TopicPartition(topic, 0, 70)], asynchronous=False)
        low, high = member.consumer.get_watermark_offsets(partition, timeout=5)
        (committed,) = member.consumer.committed([partition], 5)
        assert (low, high - committed.offset) == (0, 30)

        member.consumer.pause([partition])
        produce(address, topic, 1, 1, start=100)
        member.poll(0.5)
        assert len(member.read) == 110
        member.consumer.resume([partition])
        wait_until(lambda: len(member.read) == 111, member)


def test_an_assignor_that_the_broker_does_not_have_is_refused(address: str, topic: str) -> None:
    create_topic(address, topic, 1)
    with Member(address, topic, "consumer", topic, group_remote_assignor="magic") as member:
        wait_until(lambda: bool(member.errors), member)

        assert member.errors[0].code() == KafkaError._FATAL
        assert "assignor" in member.errors[0].str()


@pytest.mark.parametrize("assignor", ["range", "uniform"])
def test_the_assignor_is_the_members_choice(address: str, admin: AdminClient, topic: str, assignor: str) -> None:
    create_topic(address, topic, 4)
    with (
        Member(address, topic, "consumer", topic, group_remote_assignor=assignor) as first,
        Member(address, topic, "consumer", topic, group_remote_assignor=assignor) as second,
    ):
        wait_until(lambda: len(first.owned) == len(second.owned) == 2, first, second)

        found = admin.describe_consumer_groups([topic])[topic].result(10)
        assert found.partition_assignor == assignor
