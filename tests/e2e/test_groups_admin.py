"""What administrators do with groups: list, describe, delete, move and forget offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    OffsetSpec,
    ResourceType,
)
from tests.e2e.group_members import Member, create_topic, produce, quick_broker, wait_until
from tests.e2e.kafka_python import GroupSubscribedToTopicError, KafkaAdminClient, MemberToRemove
from tests.e2e.kafka_python import TopicPartition as PythonPartition
from tests.e2e.kafka_raw import RawClient

CONSUMER_BEAT = 68


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with quick_broker(tmp_path_factory.mktemp("broker")) as process:
        yield process.kafka


@pytest.fixture
def admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, "log_level": 0})


def code_of(error: pytest.ExceptionInfo[KafkaException]) -> int:
    kafka_error: KafkaError = error.value.args[0]
    return int(kafka_error.code())


def committed(admin: AdminClient, group: str, topic: str) -> dict[int, int]:
    wanted = ConsumerGroupTopicPartitions(group, None)
    found = admin.list_consumer_group_offsets([wanted])[group].result(10)
    return {one.partition: one.offset for one in found.topic_partitions if one.topic == topic}


def test_a_broker_without_groups_lists_none_and_makes_nothing(address: str, admin: AdminClient) -> None:
    assert admin.list_consumer_groups().result(10).valid == []
    assert "__consumer_offsets" not in admin.list_topics(timeout=10).topics


def test_groups_are_listed_by_state_and_type(address: str, admin: AdminClient) -> None:
    create_topic(address, "listed", 1)
    with Member(address, "listed-classic", "range", "listed") as classic:
        wait_until(lambda: len(classic.owned) == 1, classic)
    with Member(address, "listed-new", "consumer", "listed") as new:
        wait_until(lambda: len(new.owned) == 1, new)

        def listed(**filters: object) -> set[str]:
            return {one.group_id for one in admin.list_consumer_groups(**filters).result(10).valid}

        wait_until(lambda: listed(states={ConsumerGroupState.STABLE}) == {"listed-new"}, new)
        assert listed() >= {"listed-classic", "listed-new"}
        assert listed(types={ConsumerGroupType.CLASSIC}) == {"listed-classic"}
        assert listed(types={ConsumerGroupType.CONSUMER}) == {"listed-new"}
        assert "listed-classic" in listed(states={ConsumerGroupState.EMPTY})


@pytest.mark.parametrize(("protocol", "assignor"), [("roundrobin", "roundrobin"), ("consumer", "uniform")])
def test_a_group_is_described_with_its_members(address: str, admin: AdminClient, protocol: str, assignor: str) -> None:
    topic = f"described-{protocol}"
    create_topic(address, topic, 3)
    with Member(address, topic, protocol, topic, client_id="the-client", group_instance_id="the-instance") as member:
        wait_until(lambda: len(member.owned) == 3, member)
        wait_until(
            lambda: admin.describe_consumer_groups([topic])[topic].result(10).state is ConsumerGroupState.STABLE, member
        )

        found = admin.describe_consumer_groups([topic])[topic].result(10)

        (one,) = found.members
        assert found.partition_assignor == assignor
        assert (one.client_id, one.group_instance_id, one.host.lstrip("/")) == (
            "the-client",
            "the-instance",
            "127.0.0.1",
        )
        assert one.member_id.startswith("the-client-") or protocol == "consumer"
        assert sorted(each.partition for each in one.assignment.topic_partitions) == [0, 1, 2]


def test_a_group_that_is_not_there_is_dead(admin: AdminClient) -> None:
    found = admin.describe_consumer_groups(["no-such-group"])["no-such-group"].result(10)

    assert (found.state, found.members) == (ConsumerGroupState.DEAD, [])


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_only_an_empty_group_is_deleted(address: str, admin: AdminClient, protocol: str) -> None:
    topic = f"deleted-{protocol}"
    create_topic(address, topic, 1)
    produce(address, topic, 1, 10)
    with Member(address, topic, protocol, topic) as member:
        wait_until(lambda: len(member.read) >= 10, member)
        member.consumer.commit(asynchronous=False)
        with pytest.raises(KafkaException) as error:
            admin.delete_consumer_groups([topic])[topic].result(10)
        assert code_of(error) == KafkaError.NON_EMPTY_GROUP

    admin.delete_consumer_groups([topic])[topic].result(10)

    assert committed(admin, topic, topic) == {}
    with pytest.raises(KafkaException) as error:
        admin.delete_consumer_groups([topic])[topic].result(10)
    assert code_of(error) == KafkaError.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_offsets_are_moved_while_the_group_is_empty(address: str, admin: AdminClient, protocol: str) -> None:
    topic = f"moved-{protocol}"
    create_topic(address, topic, 1)
    values = produce(address, topic, 1, 10)
    moved = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 7)])
    with Member(address, topic, protocol, topic) as member:
        wait_until(lambda: len(member.read) >= 10, member)
        member.consumer.commit(asynchronous=False)
        assert committed(admin, topic, topic) == {0: 10}
        refused = admin.alter_consumer_group_offsets([moved])[topic].result(10)
        assert refused.topic_partitions[0].error.code() == KafkaError.UNKNOWN_MEMBER_ID

    admin.alter_consumer_group_offsets([moved])[topic].result(10)

    assert committed(admin, topic, topic) == {0: 7}
    with Member(address, topic, protocol, topic) as member:
        wait_until(lambda: len(member.read) >= 3, member)
        assert member.values == values[7:]


def test_lag_is_the_end_of_the_log_less_what_is_committed(address: str, admin: AdminClient) -> None:
    create_topic(address, "lag", 2)
    produce(address, "lag", 2, 20)
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("lag", [TopicPartition("lag", 0, 4)])])[
        "lag"
    ].result(10)
    partition = TopicPartition("lag", 0)

    end = admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(10).offset

    assert end - committed(admin, "lag", "lag")[0] == 6


def test_offsets_of_a_topic_that_is_read_are_not_deleted(address: str, admin: AdminClient) -> None:
    for topic in ("read", "unread"):
        create_topic(address, topic, 1)
    python = KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions("forgetful", [TopicPartition("read", 0, 0), TopicPartition("unread", 0, 0)])]
        )["forgetful"].result(10)
        with Member(address, "forgetful", "range", "read") as member:
            wait_until(lambda: len(member.owned) == 1, member)

            outcome = python.delete_group_offsets(
                "forgetful", [PythonPartition("read", 0), PythonPartition("unread", 0)]
            )

            assert outcome[PythonPartition("read", 0)] is GroupSubscribedToTopicError, outcome
            assert committed(admin, "forgetful", "unread") == {}
            assert committed(admin, "forgetful", "read") == {0: 0}
    finally:
        python.close()


def test_an_administrator_removes_a_static_member(address: str, admin: AdminClient) -> None:
    create_topic(address, "evicted", 1)
    python = KafkaAdminClient(bootstrap_servers=address)
    try:
        with Member(address, "evicted", "range", "evicted", group_instance_id="one") as member:
            wait_until(lambda: len(member.owned) == 1, member)
            python.remove_group_members("evicted", [MemberToRemove(group_instance_id="one")])

            state = admin.describe_consumer_groups(["evicted"])["evicted"].result(10).state
            assert state is ConsumerGroupState.EMPTY
    finally:
        python.close()


def set_for_group(admin: AdminClient, group: str, settings: dict[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(10)


def shown_of_group(admin: AdminClient, group: str) -> dict[str, tuple[str, ConfigSource]]:
    resource = ConfigResource(ResourceType.GROUP, group)
    found = admin.describe_configs([resource])[resource].result(10)
    return {name: (entry.value, ConfigSource(entry.source)) for name, entry in found.items()}


def test_a_groups_own_session_is_obeyed_and_survives_a_kill(tmp_path: Path) -> None:
    """The node's session is a minute: only the group's own can let the second member have all in time."""
    settings = {
        "consumer.session.timeout.ms": "1500",
        "consumer.heartbeat.interval.ms": "300",
        "share.isolation.level": "read_uncommitted",
    }
    with quick_broker(tmp_path, session_timeout_ms=60_000) as broker:
        admin = AdminClient({"bootstrap.servers": broker.kafka, "log_level": 0})
        create_topic(broker.kafka, "own", 2)
        set_for_group(admin, "own", settings)
        broker.kill()
        broker.restart()

        shown = shown_of_group(admin, "own")
        with RawClient(broker.kafka) as raw:
            silent = raw.call(
                CONSUMER_BEAT, 1, group_id="own", member_id="silent", member_epoch=0, rebalance_timeout=300_000,
                subscribed_topic_names=["own"], topic_partitions=[],
            )  # fmt: skip
        with Member(broker.kafka, "own", "consumer", "own") as member:
            wait_until(lambda: len(member.owned) == 2, member)
        with pytest.raises(KafkaException) as refusal:
            set_for_group(admin, "own", {"consumer.session.timeout.ms": "200"})

    assert silent["heartbeat_interval"] == 300
    assert {name: shown[name] for name in settings} == {
        name: (value, ConfigSource.GROUP_CONFIG) for name, value in settings.items()
    }
    assert code_of(refusal) == KafkaError.INVALID_CONFIG
    assert "1000 to 1800000" in refusal.value.args[0].str()
