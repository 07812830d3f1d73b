"""One thread of load: it works, meets a broker that is gone, and begins again until it is told to stop."""

from __future__ import annotations

import http.client
import random
import threading
import traceback
import urllib.error
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import KafkaException
from tests.e2e.campaign.ledger import Fate, Ledger
from tests.e2e.http import Answer, Http

SECONDS_MAX = 60.0
# What any client may meet while the broker is away.
CUT = (OSError, http.client.HTTPException, KafkaException)
# Settings of all Kafka clients here: a broker that is killed is back within a second or two.
KAFKA: Mapping[str, Any] = {
    "log_level": 0,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    # With `rebootstrap`, librdkafka 2.16 forgets its only broker when that goes down, and a
    # send_offsets_to_transaction then waits for ever on the connection that it has thrown away.
    "metadata.recovery.strategy": "none",
}


class Target(Protocol):
    """What is under load: one broker, or a cluster."""

    @property
    def kafka(self) -> str:
        """Addresses for Kafka's clients."""
        ...

    @property
    def http(self) -> str:
        """An address for one request over HTTP."""
        ...

    @property
    def is_cluster(self) -> bool:
        """Whether another node may lead a partition in a moment."""
        ...

    @property
    def data_dirs(self) -> list[Path]:
        """Of all its nodes."""
        ...

    @property
    def output(self) -> str:
        """What it has printed so far."""
        ...

    def restart(self) -> object:
        """Stop it cleanly and start it again."""
        ...

    def stop(self) -> object:
        """Stop it cleanly."""
        ...


class Campaign:
    """What all threads of one run share."""

    def __init__(self, broker: Target, seed: int) -> None:
        self.broker = broker
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.ledgers: dict[str, Ledger] = {}
        # Set when nothing new is to be sent; consumers go on until there is nothing left.
        self.draining = threading.Event()
        # Set when the consumers are to end as well.
        self.stopping = threading.Event()
        self.problems: list[str] = []

    def ledger(self, kind: str) -> Ledger:
        return self.ledgers.setdefault(kind, Ledger(kind, self.counts))

    @property
    def acknowledged(self) -> int:
        """Messages of all kinds that were acknowledged."""
        return sum(one.count(Fate.ACKNOWLEDGED) for one in self.ledgers.values())


class Load(threading.Thread):
    """`work` is called again and again, with a new life after each cut connection."""

    def __init__(self, campaign: Campaign, name: str, *, consumes: bool = False) -> None:
        super().__init__(name=name, daemon=True)
        self.campaign = campaign
        self.chance = random.Random(f"{campaign.seed} {name}")
        self._ends = campaign.stopping if consumes else campaign.draining

    @property
    def broker(self) -> Target:
        return self.campaign.broker

    @property
    def http(self) -> Http:
        return Http(self.broker.http)

    @property
    def is_ended(self) -> bool:
        return self._ends.is_set()

    def run(self) -> None:
        while not self.is_ended:
            try:
                self.work()
            except CUT as problem:
                self.campaign.counts[f"cut: {type(problem).__name__}"] += 1
                self.pause(0.2)
            except BaseException:  # noqa: BLE001 - a thread has nobody above it; the checker reports what it met
                self.campaign.problems.append(f"{self.name} failed: {traceback.format_exc()}")
                return

    def work(self) -> None:
        """Do some of it; return when ended. Raises one of `CUT` when the broker goes away."""
        raise NotImplementedError

    def pause(self, seconds: float) -> None:
        """Wait, unless the end comes first."""
        self._ends.wait(seconds)

    def settings(self, **more: Any) -> dict[str, Any]:
        """For a Kafka client; `enable_idempotence` stands for enable.idempotence."""
        return {
            "bootstrap.servers": self.broker.kafka,
            **KAFKA,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def publish(self, topic: str, ledger: Ledger, messages: Mapping[str, Mapping[str, Any]]) -> None:
        """Publish over HTTP without any retry, and note what is known of each message by its id."""
        try:
            answer = self.ask(f"/topics/{topic}/messages", {"messages": list(messages.values())})
        except urllib.error.URLError as problem:
            if isinstance(problem.reason, ConnectionRefusedError):
                for name in messages:
                    ledger.note(name, Fate.REFUSED)
            raise
        results = answer.body.get("results") or [{"status": answer.status}] * len(messages)
        for name, result in zip(messages, results, strict=True):
            ledger.note(name, fate_of(result, answer.status))

    def ask(self, path: str, body: object) -> Answer:
        """POST; a connection that is cut raises, and refusals are counted for the report.

        Every topic is there, so nobody may be told that it is not.
        """
        address = self.broker.http
        answer = Http(address).ask("POST", path, body)
        if answer.status >= 400:
            self.campaign.counts[f"status {answer.status} of {path.rpartition('/')[2]}"] += 1
        if answer.status == 404 and answer.body["error"]["code"] == "topic_not_found":
            self.campaign.problems.append(f"POST {path} at {address}: 404 {answer.body}")
        return answer


def fate_of(result: Mapping[str, Any], status: int) -> Fate:
    """What the answer to a publish says of one message."""
    # A delayed message has a slot, until it gets its offset.
    if ("offset" in result or "slot" in result) and "error" not in result:
        return Fate.ACKNOWLEDGED
    # A server error says nothing about what was stored.
    return Fate.UNKNOWN if int(result.get("status", status)) >= 500 else Fate.REFUSED
