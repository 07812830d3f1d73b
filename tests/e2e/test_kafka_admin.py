"""Administration with stock clients: topics, records, settings, offsets, the cluster, its disk and producers."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AioPartitions
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.e2e.kafka_clients import Confluent, Sent
from tests.e2e.kafka_python import KafkaAdminClient
from tests.e2e.kafka_python import TopicPartition as PythonPartition
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess

# kafka-python leaves the socket of its first contact to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
numbers = itertools.count()
INCREMENTAL_ALTER_CONFIGS = 44


@pytest.fixture
def name() -> str:
    return f"admin-{next(numbers)}"


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.kafka, "log_level": 0})


def done(futures: dict[Any, Any]) -> Any:
    """The one result of an administrative call."""
    ((_, future),) = futures.items()
    return future.result(10)


# --- confluent-kafka ------------------------------------------------------------------


def test_a_topic_lives_from_creation_to_deletion(admin: AdminClient, name: str) -> None:
    done(admin.create_topics([NewTopic(name, 2, -1, config={"retention.ms": "60000"})]))
    assert len(admin.list_topics(timeout=5).topics[name].partitions) == 2
    with pytest.raises(KafkaException, match="exists already"):
        done(admin.create_topics([NewTopic(name, 2, -1)]))
    done(admin.create_partitions([NewPartitions(name, 4)]))
    assert len(admin.list_topics(timeout=5).topics[name].partitions) == 4
    done(admin.delete_topics([name]))
    assert name not in admin.list_topics(timeout=5).topics
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        done(admin.delete_topics([name]))


def test_topics_and_the_cluster_are_described(admin: AdminClient, broker: BrokerProcess, name: str) -> None:
    done(admin.create_topics([NewTopic(name, 3, -1)]))
    described = done(admin.describe_topics(TopicCollection([name]), include_authorized_operations=True))
    assert (described.name, len(described.partitions), described.is_internal) == (name, 3, False)
    assert [one.leader.id for one in described.partitions] == [1, 1, 1]
    assert len(described.authorized_operations) == 8
    cluster = admin.describe_cluster(include_authorized_operations=True).result(10)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [broker.kafka]
    assert cluster.controller.id == 1
    assert cluster.cluster_id == admin.list_topics(timeout=5).cluster_id


def test_what_cannot_be_created_says_why(admin: AdminClient) -> None:
    for topic, reason in [
        (NewTopic("a/b", 1, -1), "not allowed"),
        (NewTopic("__mine", 1, -1), "reserved"),
        (NewTopic("fine", 1, 3), "replication factor 3"),
        (NewTopic("fine", 1, -1, config={"retention.sm": "1"}), "retention.ms"),
    ]:
        with pytest.raises(KafkaException, match=reason):
            done(admin.create_topics([topic]))


def test_settings_are_described_set_appended_and_put_back(admin: AdminClient, name: str) -> None:
    done(admin.create_topics([NewTopic(name, 1, -1, config={"retention.ms": "60000"})]))
    resource = ConfigResource(ResourceType.TOPIC, name)
    before = done(admin.describe_configs([resource]))
    assert (before["retention.ms"].value, before["retention.ms"].source) == (
        "60000",
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    )
    change = ConfigResource(
        ResourceType.TOPIC,
        name,
        incremental_configs=[
            ConfigEntry("segment.bytes", "2048", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
            ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ],
    )
    done(admin.incremental_alter_configs([change]))
    after = done(admin.describe_configs([resource]))
    assert after["segment.bytes"].value == "2048"
    assert set(after["cleanup.policy"].value.split(",")) == {"delete", "compact"}
    assert after["retention.ms"].is_default


def test_defaults_of_topic_settings_are_altered_without_a_restart(
    admin: AdminClient, broker: BrokerProcess, name: str
) -> None:
    done(admin.create_topics([NewTopic(name, 1, -1)]))
    done(admin.create_topics([NewTopic(f"{name}-own", 1, -1, config={"retention.ms": "5000"})]))
    topic, own = (ConfigResource(ResourceType.TOPIC, one) for one in (name, f"{name}-own"))

    def alter(setting: str, value: str | None) -> str:
        """As kafka-configs --entity-default: of all brokers. The clients for Python name one broker only."""
        change = {"name": setting, "config_operation": 1 if value is None else 0, "value": value}
        resource = {"resource_type": 4, "resource_name": "", "configs": [change]}
        with RawClient(broker.kafka) as raw:
            (row,) = raw.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)["responses"]
        return str(row["error_message"]) if row["error_code"] else ""

    assert alter("log.retention.ms", "123456") == ""
    assert alter("message.max.bytes", "500") == ""
    try:
        shown = done(admin.describe_configs([topic]))
        assert (shown["retention.ms"].value, shown["max.message.bytes"].value) == ("123456", "500")
        assert shown["retention.ms"].source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value
        assert done(admin.describe_configs([own]))["retention.ms"].value == "5000"
        of_broker = done(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
        assert of_broker["log.retention.ms"].value == "123456"
        assert not of_broker["log.retention.ms"].is_read_only
        with pytest.raises(Exception, match=r"MSG_SIZE_TOO_LARGE|too large"):
            Confluent().produce(broker.kafka, name, [Sent(b"x" * 1000)])
        assert "'log.retention.ms' cannot be 'soon'" in alter("log.retention.ms", "soon")
        # The broker's own topics keep to its file: a small limit does not stop commits of offsets.
        group = Consumer({"bootstrap.servers": broker.kafka, "group.id": name})
        group.commit(offsets=[TopicPartition(name, 0, 0, metadata="m" * 1000)], asynchronous=False)
        group.close()
        internal = done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, "__consumer_offsets")]))
        assert internal["max.message.bytes"].value != "500"
    finally:
        assert alter("message.max.bytes", None) == ""
        assert alter("log.retention.ms", None) == ""
    assert done(admin.describe_configs([topic]))["retention.ms"].is_default
    Confluent().produce(broker.kafka, name, [Sent(b"x" * 1000)])


def test_settings_of_the_broker_are_described_and_those_that_need_a_restart_are_refused(admin: AdminClient) -> None:
    resource = ConfigResource(ResourceType.BROKER, "1")
    settings = done(admin.describe_configs([resource]))
    assert settings["auto.create.topics.enable"].value == "true"
    assert settings["num.partitions"].is_read_only
    entry = ConfigEntry("num.partitions", "9", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    with pytest.raises(KafkaException, match=r"set broker\.default_partitions in the broker's file and restart"):
        done(admin.incremental_alter_configs([change]))


def test_offsets_are_listed_and_records_deleted(admin: AdminClient, broker: BrokerProcess, name: str) -> None:
    done(admin.create_topics([NewTopic(name, 1, -1)]))
    base = 1_700_000_000_000
    Confluent().produce(broker.kafka, name, [Sent(b"x", timestamp_ms=base + at) for at in (0, 500, 200)])
    place = TopicPartition(name, 0)

    def listed(spec: OffsetSpec) -> int:
        return int(done(admin.list_offsets({place: spec})).offset)

    assert listed(OffsetSpec.earliest()) == 0
    assert listed(OffsetSpec.latest()) == 3
    assert listed(OffsetSpec.max_timestamp()) == 1
    assert listed(OffsetSpec.for_timestamp(base + 100)) == 1
    assert done(admin.delete_records([TopicPartition(name, 0, 2)])).low_watermark == 2
    assert listed(OffsetSpec.earliest()) == 2


# --- kafka-python ---------------------------------------------------------------------


@pytest.fixture
def python_admin(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.kafka)
    yield client
    client.close()


def test_kafka_python_creates_grows_describes_and_deletes(python_admin: KafkaAdminClient, name: str) -> None:
    from kafka.admin import NewPartitions as PythonPartitions
    from kafka.admin import NewTopic as PythonTopic

    python_admin.create_topics([PythonTopic(name, num_partitions=2, replication_factor=-1)])
    assert name in python_admin.list_topics()
    python_admin.create_partitions({name: PythonPartitions(total_count=3)})
    (described,) = python_admin.describe_topics([name])
    assert len(described["partitions"]) == 3
    paged = python_admin.describe_topic_partitions([name], response_partition_limit=2)
    assert paged is not None
    python_admin.delete_topics([name])
    assert name not in python_admin.list_topics()


def test_kafka_python_describes_the_cluster_and_its_disk(
    python_admin: KafkaAdminClient, broker: BrokerProcess, name: str
) -> None:
    Confluent().produce(broker.kafka, name, [Sent(b"x" * 1000)])
    cluster = python_admin.describe_cluster()
    assert cluster["controller_id"] == 1
    assert name in str(python_admin.describe_log_dirs())
    assert str(broker.data_dir) in str(python_admin.describe_log_dirs())


def test_kafka_python_sees_producers_and_offsets(
    python_admin: KafkaAdminClient, broker: BrokerProcess, name: str
) -> None:
    from kafka import KafkaProducer
    from kafka.admin import OffsetSpec as PythonSpec

    producer = KafkaProducer(bootstrap_servers=broker.kafka, enable_idempotence=True)
    producer.send(name, b"x", partition=0).get(timeout=10)
    producer.close()
    place = PythonPartition(name, 0)
    described = python_admin.describe_producers([place])
    assert len(described) == 1
    assert "last_sequence" in str(described)
    offsets = python_admin.list_partition_offsets({place: PythonSpec.LATEST})
    assert next(iter(offsets.values())).offset == 1
    assert python_admin.delete_records({place: 1})


def test_kafka_python_reads_and_changes_settings(python_admin: KafkaAdminClient, name: str) -> None:
    from kafka.admin import ConfigResource as PythonResource
    from kafka.admin import ConfigResourceType
    from kafka.admin import NewTopic as PythonTopic

    python_admin.create_topics([PythonTopic(name, num_partitions=1, replication_factor=-1)])
    resource = PythonResource(ConfigResourceType.TOPIC, name, configs={"retention.ms": "777000"})
    python_admin.alter_configs([resource])
    assert "777000" in str(python_admin.describe_configs([PythonResource(ConfigResourceType.TOPIC, name)]))


# --- aiokafka -------------------------------------------------------------------------


@pytest.fixture
async def aio_admin(broker: BrokerProcess) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=broker.kafka)
    await client.start()
    yield client
    await client.close()


async def test_aiokafka_creates_grows_describes_and_deletes(aio_admin: AIOKafkaAdminClient, name: str) -> None:
    await aio_admin.create_topics([AioTopic(name, num_partitions=2, replication_factor=1)])
    await aio_admin.create_partitions({name: AioPartitions(total_count=3)})
    (described,) = await aio_admin.describe_topics([name])
    assert len(described["partitions"]) == 3
    assert (await aio_admin.describe_cluster())["controller_id"] == 1
    place = AioPartition(name, 0)
    assert await aio_admin.delete_records({place: RecordsToDelete(before_offset=0)}) == {place: 0}
    await aio_admin.delete_topics([name])
    assert name not in await aio_admin.list_topics()
