"""Share groups with confluent-kafka's `ShareConsumer`, against a broker as users run it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.e2e.conftest import StartBroker
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess
from tests.e2e.share_consumers import (
    ACCEPT,
    REJECT,
    RELEASE,
    WAIT_SECONDS,
    accept,
    commit,
    holder,
    make_topic,
    poll,
    send,
    share_consumer,
    take,
    values,
)


def lag(broker: BrokerProcess, group: str) -> int:
    return int(Http(broker.http).get(f"/groups/{group}/offsets")["total_lag"])


def dead_letters(broker: BrokerProcess, topic: str, wanted: int) -> list[str]:
    """What is in the dead-letter topic, once there is as much as wanted."""
    settings = {
        "bootstrap.servers": broker.kafka,
        "group.id": f"reader-{topic}",
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    reader = Consumer(settings)
    reader.subscribe([f"{topic}.dlq"])
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(found) < wanted:
        assert time.monotonic() < deadline, f"{len(found)} of {wanted} dead letters came"
        one = reader.poll(0.5)
        if one is not None and one.error() is None:
            found.append(one)
    reader.close()
    return values(found)


def test_several_consumers_share_one_partition(broker: BrokerProcess) -> None:
    """Nothing is lost, and nothing is given twice while it is locked."""
    make_topic(broker.kafka, "shared")
    sent = [str(one) for one in range(3_000)]
    send(broker.kafka, "shared", sent)
    taken: dict[int, list[str]] = {0: [], 1: [], 2: []}

    def work(number: int) -> None:
        with share_consumer(broker.kafka, "shared", "workers", max_poll_records=100) as consumer:
            deadline = time.monotonic() + WAIT_SECONDS
            while sum(map(len, taken.values())) < len(sent) and time.monotonic() < deadline:
                found = poll(consumer, 0.2)
                for one in found:
                    consumer.acknowledge(one, ACCEPT)
                commit(consumer)
                taken[number] += values(found)

    threads = [threading.Thread(target=work, args=(number,)) for number in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WAIT_SECONDS)

    assert sorted((one for texts in taken.values() for one in texts), key=int) == sent
    assert sum(bool(one) for one in taken.values()) >= 2, "one consumer did it all"
    assert lag(broker, "workers") == 0


@pytest.mark.parametrize("packed", ["none", "lz4"])
def test_stretches_of_large_batches_hold_what_was_acquired(broker: BrokerProcess, packed: str) -> None:
    """A poll gets a part of a batch; sizes, keys and headers differ, and some messages come a second time."""
    topic = f"large-{packed}"
    make_topic(broker.kafka, topic, delivery_backoff_ms="1")
    settings = {"bootstrap.servers": broker.kafka, "log_level": 0, "linger.ms": 500, "compression.type": packed}
    producer = Producer({**settings, "batch.num.messages": 5_000, "batch.size": 1_000_000})
    sent = {}
    for number in range(6_000):
        value = b"%d:" % number + bytes(number % 200)
        key, headers = (None, []) if number % 3 else (b"k%d" % number, [("n", b"%d" % number)])
        sent[number] = value, key, headers
        producer.produce(topic, value, key, headers=headers)
    assert producer.flush(WAIT_SECONDS) == 0
    again = {number for number in sent if number % 700 == 5}
    left = set(again)

    def answer(message: Message) -> AcknowledgeType:
        number = message.offset()
        if number in left:
            left.remove(number)
            return RELEASE
        return ACCEPT

    with share_consumer(broker.kafka, topic, topic, max_poll_records=250) as consumer:
        found = take(consumer, len(sent) + len(again), answer)

    assert Counter(one.offset() for one in found) == Counter([*sent, *again])
    for one in found:
        assert (one.value(), one.key(), one.headers() or []) == sent[one.offset()]
    assert lag(broker, topic) == 0


def test_implicit_acknowledgement_works_too(broker: BrokerProcess) -> None:
    make_topic(broker.kafka, "implicit", partitions=3)
    send(broker.kafka, "implicit", [str(one) for one in range(300)])

    found: list[str] = []
    with share_consumer(broker.kafka, "implicit", "i", share_acknowledgement_mode="implicit") as consumer:
        deadline = time.monotonic() + WAIT_SECONDS
        while len(found) < 300 and time.monotonic() < deadline:
            found += values(poll(consumer))
        commit(consumer)

    assert sorted(map(int, found)) == list(range(300))
    assert lag(broker, "i") == 0


def test_messages_are_accepted_released_and_rejected(broker: BrokerProcess) -> None:
    make_topic(broker.kafka, "kinds", delivery_backoff_ms="10", delivery_max_retries="1")
    send(broker.kafka, "kinds", ["good", "again", "bad", "hopeless"])
    counts: dict[str, list[int]] = {}

    def answer(message: Message) -> Any:
        (text,) = values([message])
        counts.setdefault(text, []).append(message.delivery_count())
        tried_once = len(counts[text]) == 1
        return {"good": ACCEPT, "again": RELEASE if tried_once else ACCEPT, "bad": REJECT, "hopeless": RELEASE}[text]

    with share_consumer(broker.kafka, "kinds", "k") as consumer:
        take(consumer, 6, answer)
        letters = dead_letters(broker, "kinds", 2)
        assert poll(consumer, 0.5) == []

    assert counts == {"good": [1], "again": [1, 2], "bad": [1], "hopeless": [1, 2]}
    assert sorted(letters) == ["bad", "hopeless"]
    assert lag(broker, "k") == 0


def test_a_lock_that_runs_out_sets_the_message_free(broker: BrokerProcess) -> None:
    make_topic(broker.kafka, "slow", delivery_visibility_timeout_ms="500")
    send(broker.kafka, "slow", ["x"])
    with ExitStack() as stack:
        slow, quick = (stack.enter_context(share_consumer(broker.kafka, "slow", "s")) for _ in range(2))
        (held,) = _some(slow)

        (taken,) = take(quick, 1, accept)

        assert (held.delivery_count(), taken.delivery_count()) == (1, 2)
        slow.acknowledge(held, ACCEPT)
        (problem,) = slow.commit_sync(WAIT_SECONDS).values()
        assert isinstance(problem, KafkaException), "a message was accepted by one who did not hold it"


def test_what_a_killed_consumer_held_is_given_to_others_at_once(broker: BrokerProcess) -> None:
    make_topic(broker.kafka, "killed", delivery_visibility_timeout_ms="600000")
    send(broker.kafka, "killed", [str(one) for one in range(20)])
    with holder(broker.kafka, "killed", "kg") as (process, held):
        assert held > 0
        process.kill()
        process.wait()

        with share_consumer(broker.kafka, "killed", "kg") as consumer:
            taken = take(consumer, 20, accept)

    assert sorted(map(int, values(taken))) == list(range(20))


def test_a_consumer_that_closes_gives_back_what_it_held(broker: BrokerProcess) -> None:
    make_topic(broker.kafka, "closed", delivery_visibility_timeout_ms="600000")
    send(broker.kafka, "closed", ["a", "b"])
    with share_consumer(broker.kafka, "closed", "c") as consumer:
        assert _some(consumer)

    with share_consumer(broker.kafka, "closed", "c") as consumer:
        taken = take(consumer, 2, accept)

    assert [one.delivery_count() for one in taken] == [1, 1]


def test_http_consumers_and_share_consumers_work_in_one_group(broker: BrokerProcess) -> None:
    make_topic(broker.kafka, "together")
    sent = [str(one) for one in range(40)]
    http = Http(broker.http)
    with share_consumer(broker.kafka, "together", "team", max_poll_records=10) as consumer:
        member = http.post("/groups/team/join", {"topics": ["together"], "sharing": "shared"})
        # A poll takes whole batches, whatever max.poll.records says: batches of ten leave something for the other.
        for first in range(0, 40, 10):
            send(broker.kafka, "together", sent[first : first + 10])
        taken = values(take(consumer, 10, accept))
        query = f"member_id={quote(member['member_id'])}&generation={member['generation']}&limit=10&timeout=5s"
        found = http.get(f"/groups/team/poll?{query}")["messages"]
        http.post("/messages/ack", {"receipts": [one["receipt_handle"] for one in found]})
        described = http.get("/groups/team")
        taken += values(take(consumer, 40 - len(taken) - len(found), accept))

    assert (described["protocol"], len(described["members"])) == ("share", 2)
    assert len(found) == 10
    assert sorted([*taken, *(one["value"] for one in found)], key=int) == sent
    assert lag(broker, "team") == 0


def test_a_group_can_be_told_to_begin_at_the_end(broker: BrokerProcess) -> None:
    make_topic(broker.kafka, "late")
    send(broker.kafka, "late", ["before"])
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    setting = ConfigEntry("share.auto.offset.reset", "latest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, "late-group", incremental_configs=[setting])
    admin.incremental_alter_configs([resource])[resource].result()

    with share_consumer(broker.kafka, "late", "late-group") as consumer:
        assert poll(consumer, 1.0) == []
        send(broker.kafka, "late", ["after"])
        assert values(take(consumer, 1, accept)) == ["after"]


def test_two_groups_are_independent(broker: BrokerProcess) -> None:
    make_topic(broker.kafka, "both")
    send(broker.kafka, "both", ["a", "b", "c"])
    with (
        share_consumer(broker.kafka, "both", "first") as first,
        share_consumer(broker.kafka, "both", "second") as second,
    ):
        assert values(take(first, 3, accept)) == values(take(second, 3, accept)) == ["a", "b", "c"]


def test_what_a_transaction_aborts_is_never_given(broker: BrokerProcess) -> None:
    make_topic(broker.kafka, "tx")
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": "share-tx", "log_level": 0})
    producer.init_transactions(WAIT_SECONDS)
    for texts, end in ((["kept 1", "kept 2"], producer.commit_transaction), (["lost"], producer.abort_transaction)):
        producer.begin_transaction()
        for text in texts:
            producer.produce("tx", text.encode())
        producer.flush(WAIT_SECONDS)
        end(WAIT_SECONDS)
    send(broker.kafka, "tx", ["plain"])

    with share_consumer(broker.kafka, "tx", "t") as consumer:
        taken = take(consumer, 3, accept)
        assert poll(consumer, 0.5) == []

    assert values(taken) == ["kept 1", "kept 2", "plain"]
    assert lag(broker, "t") == 0


def test_an_administrator_sees_lag_and_moves_an_empty_group(broker: BrokerProcess) -> None:
    make_topic(broker.kafka, "admin")
    send(broker.kafka, "admin", [str(one) for one in range(10)])
    admin = AdminClient({"bootstrap.servers": broker.kafka})

    def committed() -> int:
        request = ConsumerGroupTopicPartitions("a", [TopicPartition("admin", 0)])
        result = admin.list_consumer_group_offsets([request])["a"].result()
        return int(result.topic_partitions[0].offset)

    with share_consumer(broker.kafka, "admin", "a", max_poll_records=4) as consumer:
        taken = take(consumer, 4, accept)
        assert (committed(), lag(broker, "a")) == (len(taken), 10 - len(taken))
        (listed,) = [one for one in Http(broker.http).get("/groups")["groups"] if one["id"] == "a"]
        assert (listed["protocol"], listed["members"]) == ("share", 1)
        moved = ConsumerGroupTopicPartitions("a", [TopicPartition("admin", 0, 0)])
        (refused,) = admin.alter_consumer_group_offsets([moved])["a"].result().topic_partitions
        assert refused.error is not None
    admin.alter_consumer_group_offsets([moved])["a"].result()
    assert committed() == 0

    with share_consumer(broker.kafka, "admin", "a") as consumer:
        assert len(take(consumer, 10, accept)) == 10
    admin.delete_consumer_groups(["a"])["a"].result()
    assert "a" not in [one["id"] for one in Http(broker.http).get("/groups")["groups"]]


def test_streams_and_queues_do_not_mix(broker: BrokerProcess) -> None:
    make_topic(broker.kafka, "mixed")
    send(broker.kafka, "mixed", ["x"])
    with share_consumer(broker.kafka, "mixed", "queue") as consumer:
        take(consumer, 1, accept)
        settings = {"bootstrap.servers": broker.kafka, "group.id": "queue", "log_level": 0}
        for protocol in ("classic", "consumer"):
            stream = Consumer({**settings, "group.protocol": protocol})
            stream.subscribe(["mixed"])
            refusal = None
            deadline = time.monotonic() + WAIT_SECONDS
            while refusal is None:
                assert time.monotonic() < deadline, f"{protocol} was let in"
                one = stream.poll(0.5)
                assert one is None or one.error() is not None
                refusal = one and one.error()
            stream.close()
    stream = Consumer({"bootstrap.servers": broker.kafka, "group.id": "stream", "log_level": 0})
    stream.commit(offsets=[TopicPartition("mixed", 0, 0)], asynchronous=False)
    stream.close()
    refused = pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND")
    with share_consumer(broker.kafka, "mixed", "stream") as consumer, refused:
        _some(consumer)


def test_a_broker_that_is_killed_loses_nothing_and_repeats_no_accepted_message(start_broker: StartBroker) -> None:
    broker = start_broker()
    make_topic(broker.kafka, "jobs", delivery_visibility_timeout_ms="2000")
    sent = [str(one) for one in range(500)]
    # A poll takes whole batches: there must be more of them than polls before the last kill.
    for first in range(0, 500, 50):
        send(broker.kafka, "jobs", sent[first : first + 50])
    accepted: list[str] = []
    with share_consumer(broker.kafka, "jobs", "g", max_poll_records=50) as consumer:
        for _ in range(3):
            accepted += values(take(consumer, 50, accept))
            held = _some(consumer)
            broker.kill()
            broker.start()
            for one in held:
                consumer.acknowledge(one, RELEASE)
        deadline = time.monotonic() + 2 * WAIT_SECONDS
        while len(set(accepted)) < len(sent):
            assert time.monotonic() < deadline, f"{len(set(accepted))} of {len(sent)} messages came"
            found = poll(consumer)
            for one in found:
                consumer.acknowledge(one, ACCEPT)
            problems = consumer.commit_sync(WAIT_SECONDS).values()
            # What could not be accepted comes again, and is counted then.
            accepted += [] if any(problems) else values(found)

    assert sorted(set(accepted), key=int) == sent
    assert len(accepted) == len(set(accepted)), "an accepted message came again"


def _some(consumer: Any) -> list[Message]:
    deadline = time.monotonic() + WAIT_SECONDS
    found: list[Message] = []
    while not found:
        assert time.monotonic() < deadline, "no message came"
        found = poll(consumer)
    return found
