"""One transaction that takes from a queue, rejects, publishes and delays: all of it at the commit, or nothing."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Producer
from tests.e2e.conftest import StartBroker
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

from goqueue.client import Client, ClientError, connect

T = TypeVar("T")
numbers = itertools.count()
# Long enough that a slow machine still finds it in the future when it is held back.
DELAY = "1s"


@pytest.fixture
def http(broker: BrokerProcess) -> Http:
    return Http(broker.http)


@pytest.fixture
def topic(http: Http) -> str:
    return new_topic(http)


def new_topic(http: Http, **config: str) -> str:
    name = f"together-{next(numbers)}"
    http.post("/topics", {"name": name, "num_partitions": 1, "config": config})
    return name


class Worker(NamedTuple):
    """A transactional producer over HTTP."""

    http: Http
    ids: dict[str, Any]

    def begin(self) -> Worker:
        return Worker(self.http, {**self.ids, **self.http.post("/transactions/begin", self.ids)})

    def publish(self, topic: str, value: str, sequence: int, **more: Any) -> dict[str, Any]:
        ids = {name: self.ids[name] for name in ("producer_id", "epoch", "transaction_id")}
        body = {**ids, "topic": topic, "value": value, "sequence": sequence, **more}
        return self.http.post("/transactions/publish", body)

    def settle(self, *messages: dict[str, Any], action: str = "ack") -> None:
        receipts = [message["receipt_handle"] for message in messages]
        self.http.post("/transactions/ack", {**self.ids, "receipts": receipts, "action": action, "reason": "bad"})

    def end(self, how: str) -> None:
        self.http.post(f"/transactions/{how}", self.ids)


def worker(http: Http, name: str) -> Worker:
    reply = http.post("/producers/init", {"transactional_id": name})
    return Worker(http, {"transactional_id": name, "producer_id": reply["producer_id"], "epoch": reply["epoch"]})


def take(http: Http, topic: str, count: int = 10, wait: str = "0") -> list[dict[str, Any]]:
    request = {"group": f"workers-of-{topic}", "limit": count, "wait": wait}
    return list(http.post(f"/topics/{topic}/receive", request)["messages"])


def values(http: Http, topic: str) -> list[str]:
    return [one["value"] for one in http.get(f"/topics/{topic}/partitions/0/messages?offset=0")["messages"]]


def letters(http: Http, topic: str) -> list[tuple[str, str]]:
    return [(one["message"]["value"], one["reason"]) for one in http.get(f"/topics/{topic}/dlq")["letters"]]


def pending(http: Http, topic: str) -> list[dict[str, Any]]:
    return list(http.get(f"/topics/{topic}/delayed")["messages"])


def until(look: Callable[[], T], wanted: T) -> None:
    deadline = time.monotonic() + 10
    while (found := look()) != wanted:
        assert time.monotonic() < deadline, f"{found} instead of {wanted}"
        time.sleep(0.01)


def until_past(http: Http, delay: str) -> None:
    """Let time pass: a message of no transaction that is held back from now on, for as long, has come."""
    witness = new_topic(http)
    http.post(f"/topics/{witness}/messages", {"value": "it is time", "delay": delay})
    until(lambda: values(http, witness), ["it is time"])


class Together(NamedTuple):
    """An open transaction that acks one message, rejects another, publishes a third and delays a fourth."""

    work: Worker
    jobs: str
    topic: str
    good: dict[str, Any]
    bad: dict[str, Any]


def together(http: Http) -> Together:
    jobs, topic = new_topic(http), new_topic(http)
    http.publish(jobs, "good")
    http.publish(jobs, "bad")
    good, bad = take(http, jobs)
    work = worker(http, topic).begin()
    work.settle(good)
    work.settle(bad, action="reject")
    work.publish(topic, "result", 0)
    assert work.publish(topic, "reminder", 1, delay=DELAY)["delayed"] is True
    return Together(work, jobs, topic, good, bad)


def test_everything_becomes_true_at_the_commit(http: Http) -> None:
    work, jobs, topic, _, _ = together(http)
    assert (letters(http, jobs), values(http, topic), pending(http, topic)) == ([], [], [])

    work.end("commit")

    until(lambda: letters(http, jobs), [("bad", "rejected")])
    until(lambda: values(http, topic), ["result", "reminder"])
    assert take(http, jobs) == []
    assert values(http, f"{jobs}.dlq") == ["bad"]


def test_nothing_becomes_true_at_the_abort(http: Http) -> None:
    work, jobs, topic, good, bad = together(http)
    until_past(http, DELAY)

    work.end("abort")

    # The leases are what they were: the same receipts, and no delivery was counted.
    until(lambda: extended(http, good, bad), True)
    after = worker(http, topic).begin()
    after.publish(topic, "after", 0)
    after.end("commit")
    until(lambda: values(http, topic), ["after"])
    assert (letters(http, jobs), pending(http, topic)) == ([], [])
    for message in (good, bad):
        http.post("/messages/nack", {"receipt_handle": message["receipt_handle"], "delay": "0ms"})
    again = take(http, jobs, wait="5s")
    assert [(one["value"], one["delivery_count"]) for one in again] == [("good", 2), ("bad", 2)]


def extended(http: Http, *messages: dict[str, Any]) -> bool:
    """Whether the receipts are their holder's again, which they are milliseconds after the abort."""
    for message in messages:
        body = {"receipt_handle": message["receipt_handle"], "visibility": "60s"}
        if http.ask("POST", "/messages/visibility", body).status != 200:
            return False
    return True


def test_a_delayed_message_whose_time_has_come_is_delivered_right_after_the_commit(http: Http, topic: str) -> None:
    work = worker(http, topic).begin()
    first = work.publish(topic, "late", 0, delay=DELAY)
    again = work.publish(topic, "late", 0, delay=DELAY)
    assert (again["slot"], again["deliverAt"], again["duplicate"]) == (first["slot"], first["deliverAt"], True)
    assert not {"partition", "offset"} & {*first, *again}
    until_past(http, DELAY)
    assert values(http, topic) == []
    work.end("commit")
    until(lambda: values(http, topic), ["late"])


def test_a_committed_delayed_message_can_be_cancelled_and_one_before_cannot(http: Http, topic: str) -> None:
    work = worker(http, topic).begin()
    held = work.publish(topic, "tomorrow", 0, delay="24h")
    slot = f"/topics/{topic}/delayed/{held['slot']}"
    assert http.refused("GET", slot)[0] == 404
    assert http.refused("DELETE", slot)[0] == 404
    work.end("commit")
    until(lambda: [one["slot"] for one in pending(http, topic)], [held["slot"]])
    http.delete(slot)
    assert pending(http, topic) == []


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_transaction_survives_kill_9_with_all_its_parts(start_broker: StartBroker, end: str) -> None:
    broker = start_broker()
    work, jobs, topic, good, bad = together(Http(broker.http))
    broker.kill()
    broker.start()
    work = work._replace(http=Http(broker.http))
    work.publish(topic, "reminder", 1, delay=DELAY)  # sent again, as after an answer that was lost

    work.end(end)
    broker.kill()
    broker.start()

    http = Http(broker.http)
    if end == "commit":
        until(lambda: values(http, topic), ["result", "reminder"])
        until(lambda: letters(http, jobs), [("bad", "rejected")])
        assert take(http, jobs) == []
    else:
        until(lambda: extended(http, good, bad), True)
        assert (values(http, topic), letters(http, jobs), pending(http, topic)) == ([], [], [])


def test_kafka_clients_delay_in_a_transaction_by_header(broker: BrokerProcess, http: Http) -> None:
    topic = new_topic(http, **{"goqueue.delay.headers": "true"})
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(20)
    for value, end in (("a", producer.commit_transaction), ("b", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, f"{value} now")
        producer.produce(topic, f"{value} later", headers={"goqueue-delay-ms": b"200"})
        assert producer.flush(20) == 0
        until_past(http, "200ms")
        assert f"{value} later" not in values(http, topic)
        end(20)
    until(lambda: values(http, topic), ["a now", "a later"])
    assert pending(http, topic) == []


async def test_aiokafka_delays_in_a_transaction_by_header(broker: BrokerProcess, http: Http) -> None:
    topic = new_topic(http, **{"goqueue.delay.headers": "true"})
    async with AIOKafkaProducer(bootstrap_servers=broker.kafka, transactional_id=topic) as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"now")
            await producer.send_and_wait(topic, b"later", headers=[("goqueue-delay-ms", b"200")])
        with suppress(LookupError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"never", headers=[("goqueue-delay-ms", b"200")])
                raise LookupError
    until(lambda: values(http, topic), ["now", "later"])
    until(lambda: pending(http, topic), [])


def test_delay_that_is_switched_on_within_a_transaction_counts_from_the_next_record(
    broker: BrokerProcess, http: Http, topic: str
) -> None:
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, "now", headers={"goqueue-delay-ms": b"3600000"})
    producer.flush(20)
    http.patch(f"/topics/{topic}", {"config": {"goqueue.delay.headers": "true"}})
    producer.produce(topic, "later", headers={"goqueue-delay-ms": b"200"}, on_delivery=lambda why, _: told.append(why))
    producer.flush(20)
    assert told == [None]
    assert pending(http, topic) == []
    producer.commit_transaction(20)
    until(lambda: values(http, topic), ["now", "later"])


async def test_the_python_client_acks_sends_and_delays_in_one_transaction(broker: BrokerProcess, http: Http) -> None:
    jobs, topic = new_topic(http), new_topic(http)
    for number in range(4):
        http.publish(jobs, str(number))
    client: Client
    async with (
        connect(f"http://{broker.http}") as client,
        client.producer(transactional_id=topic) as producer,
        client.queue(jobs, group="workers") as queue,
    ):
        taken = []
        while len(taken) < 4:
            taken += await queue.receive(wait="500ms")
        async with producer.transaction() as transaction:
            await transaction.ack(*taken[:2])
            await transaction.send(topic, "now")
            told = await transaction.send(topic, "later", delay=1)
            await producer.flush()
            assert told.result().delayed
        with suppress(LookupError):
            async with producer.transaction() as transaction:
                await transaction.ack(*taken[2:])
                await transaction.send(topic, "never", delay=0.01)
                raise LookupError
        async with producer.transaction() as transaction:
            with pytest.raises(ClientError, match="deduplication_id"):
                await transaction.send(topic, "x", deduplication_id="x")
            await transaction.send(topic, "last")
        for message in taken[2:]:
            await queue.release(message)
    # How long the two transactions behind it took decides which of the others is first.
    until(lambda: sorted(values(http, topic)), ["last", "later", "now"])
    assert values(http, topic)[0] == "now"
    until(lambda: pending(http, topic), [])
