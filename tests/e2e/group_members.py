"""Consumers for group tests: in this process, driven step by step, and in processes that can be killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.e2e.process import BrokerProcess

PROTOCOLS = ["range", "roundrobin", "cooperative-sticky", "consumer"]
HEARTBEAT_MS = 200
SESSION_MS = 6_000
WAIT_SECONDS = 20.0


def settings(bootstrap: str, group: str, protocol: str, **more: object) -> dict[str, Any]:
    """What a consumer of this protocol is configured with."""
    chosen: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
        "topic.metadata.refresh.interval.ms": 500,
    }
    if protocol == "consumer":
        chosen["group.protocol"] = "consumer"
    else:
        chosen["partition.assignment.strategy"] = protocol
        chosen["session.timeout.ms"] = SESSION_MS
        chosen["heartbeat.interval.ms"] = HEARTBEAT_MS
    return chosen | {name.replace("_", "."): value for name, value in more.items()}


@contextmanager
def quick_broker(home: Path, *, session_timeout_ms: int = SESSION_MS) -> Iterator[BrokerProcess]:
    """A broker that tells members of the new protocol to beat five times a second."""
    environment = {
        "GOQUEUE_GROUPS_HEARTBEAT_INTERVAL_MS": str(HEARTBEAT_MS),
        "GOQUEUE_GROUPS_SESSION_TIMEOUT_MS": str(session_timeout_ms),
    }
    process = BrokerProcess(home, environment=environment).start()
    try:
        yield process
    finally:
        process.kill()


class Member:
    """A confluent-kafka consumer that counts its rebalances and keeps what it reads."""

    def __init__(self, bootstrap: str, group: str, protocol: str, *topics: str, **more: object) -> None:
        self.consumer = Consumer(settings(bootstrap, group, protocol, **more))
        self.read: list[Message] = []
        self.errors: list[KafkaError] = []
        self.assigned = 0
        self.revoked = 0
        self.consumer.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.consumer.close()

    @property
    def owned(self) -> set[tuple[str, int]]:
        return {(one.topic, one.partition) for one in self.consumer.assignment()}

    @property
    def values(self) -> list[str]:
        return [(one.value() or b"").decode() for one in self.read]

    def poll(self, seconds: float = 0.05) -> None:
        for message in self.consumer.consume(500, seconds):
            if message.error() is not None:
                self.errors.append(message.error())
            else:
                self.read.append(message)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned += 1

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked += 1


def wait_until(condition: Callable[[], bool], *members: Member, seconds: float = WAIT_SECONDS) -> float:
    """Poll members until something is true; returns how long that took."""
    begin = time.monotonic()
    while not condition():
        passed = time.monotonic() - begin
        assert passed < seconds, f"not within {seconds} s; owned: {[sorted(one.owned) for one in members]}"
        for member in members:
            member.poll()
        if not members:
            time.sleep(0.02)
    return time.monotonic() - begin


def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    """Make a topic, and wait until it is there."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, -1)])[name].result(10)


def produce(bootstrap: str, topic: str, partitions: int, count: int, *, start: int = 0) -> list[str]:
    """Produce numbered values over the partitions in turn; returns the values."""
    # A leader that hands over has stored what it refuses then: only with a sequence is it stored once.
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    values = [str(one) for one in range(start, start + count)]
    for place, value in enumerate(values):
        producer.produce(topic, value, partition=place % partitions)
    assert producer.flush(20) == 0
    return values


class MemberProcess:
    """A consumer in a process of its own, which tells what it owns and reads, and can be killed."""

    def __init__(self, bootstrap: str, group: str, protocol: str, topic: str, name: str) -> None:
        self.name = name
        self.events: list[dict[str, Any]] = []
        self.killed_at: float | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.group_members", bootstrap, group, protocol, topic, name],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    @property
    def owned(self) -> set[int]:
        owned: set[int] = set()
        for event in list(self.events):
            if event["event"] == "assigned":
                owned |= set(event["partitions"])
            elif event["event"] in {"revoked", "lost"}:
                owned -= set(event["partitions"])
        return owned

    def wait_until_it_owns(self, seconds: float = 15.0) -> None:
        """Until it has been given a partition; a group may have no more to give."""
        deadline = time.monotonic() + seconds
        while not self.owned and time.monotonic() < deadline:
            time.sleep(0.02)

    def leave(self) -> None:
        """Ask it to close its consumer and end."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a word to the broker."""
        self._process.kill()
        self._process.wait()
        self.killed_at = time.monotonic()
        self._reader.join()

    def wait(self) -> int:
        code = self._process.wait(20)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def ownership(self, end: float) -> list[tuple[float, float, int]]:
        """(from, to, partition) of all that it owned for certain."""
        open_since: dict[int, float] = {}
        spans = []
        for event in self.events:
            if event["event"] == "assigned":
                open_since |= dict.fromkeys(event["partitions"], event["at"])
            elif event["event"] == "revoked":
                spans += [(open_since.pop(one), event["at"], one) for one in event["partitions"] if one in open_since]
            elif event["event"] == "lost":
                # Taken away while it did not listen: until when it owned them cannot be known.
                for one in event["partitions"]:
                    open_since.pop(one, None)
        closed = self.killed_at if self.killed_at is not None else end
        return spans + [(since, closed, one) for one, since in open_since.items()]

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # A killed process may leave half a line.
            if line.endswith(b"\n"):
                self.events.append(json.loads(line))


def overlaps(members: Iterable[MemberProcess], end: float) -> list[str]:
    """Moments at which a partition had two owners."""
    spans = sorted(
        (partition, since, until, member.name)
        for member in members
        for since, until, partition in member.ownership(end)
    )
    return [
        f"partition {one[0]}: {one[3]} until {one[2]:.3f}, {two[3]} from {two[1]:.3f}"
        for one, two in pairwise(spans)
        if one[0] == two[0] and two[1] < one[2]
    ]


def _run_member(bootstrap: str, group: str, protocol: str, topic: str, name: str) -> None:
    stopping: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

    def tell(event: str, **more: object) -> None:
        print(json.dumps({"event": event, "at": time.monotonic(), **more}), flush=True)

    def on(event: str) -> Callable[[Consumer, list[TopicPartition]], None]:
        return lambda _, partitions: tell(event, partitions=[one.partition for one in partitions])

    consumer = Consumer(settings(bootstrap, group, protocol, client_id=name, fetch_wait_max_ms=50))
    consumer.subscribe([topic], on_assign=on("assigned"), on_revoke=on("revoked"), on_lost=on("lost"))
    tell("started")
    while not stopping:
        messages = [one for one in consumer.consume(200, 0.05) if one.error() is None]
        if not messages:
            continue
        # Told before it is committed: what the group has left behind has certainly been read.
        tell("read", records=[[one.partition(), one.offset(), (one.value() or b"").decode()] for one in messages])
        try:
            consumer.commit(asynchronous=False)
        except KafkaException:
            # A rebalance came between: whoever has the partition now reads it again.
            continue
    consumer.close()
    tell("closed")


if __name__ == "__main__":
    _run_member(*sys.argv[1:])
