"""Queue groups over HTTP and share groups over Kafka, both with dead letters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer
from tests.e2e.campaign.ledger import Answer, Body, GroupLedger, answer_for
from tests.e2e.campaign.load import CUT, KAFKA, Campaign, Load
from tests.e2e.campaign.streams import SHARED
from tests.e2e.share_consumers import ACCEPT, REJECT, RELEASE, share_consumer

JOBS = "jobs"
NO_SUCH_PARTITION = 99
LANES = ("critical", "high", "normal", "low", "background")
# A nack that is to fail for good has its retries quickly.
SETTLE: dict[Answer, dict[str, Any]] = {
    Answer.ACK: {},
    Answer.NACK: {"delay": "30ms", "reason": "try again"},
    Answer.REJECT: {"reason": "never"},
}
SHARE_ANSWERS: dict[Answer, AcknowledgeType] = {
    Answer.ACK: ACCEPT,
    Answer.NACK: RELEASE,
    # A share consumer must answer everything before its next poll.
    Answer.SILENCE: RELEASE,
    Answer.REJECT: REJECT,
}


class JobFeeder(Load):
    """Publishes over HTTP without any retry: a cut connection leaves its messages unknown."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__(campaign, "job-feeder")
        self._ledger = campaign.ledger("jobs")

    def work(self) -> None:
        while not self.is_ended:
            bodies = [self._ledger.begin() for _ in range(self.chance.randrange(1, 8))]
            messages: dict[str, dict[str, Any]] = {
                body.id: {
                    "key": body.key,
                    "value": body.encode(self.chance).decode(),
                    "priority": self.chance.choice(LANES),
                }
                for body in bodies
            }
            if self.chance.random() < 0.1:
                messages[bodies[-1].id]["partition"] = NO_SUCH_PARTITION
            self.publish(JOBS, self._ledger, messages)
            self.pause(0.05)


class QueueWorker(Load):
    """Takes messages of one group and acks, nacks, rejects or forgets them."""

    def __init__(self, campaign: Campaign, ledger: GroupLedger) -> None:
        super().__init__(campaign, f"queue-worker-{ledger.group}", consumes=True)
        self._ledger = ledger

    def work(self) -> None:
        receive = {"group": self._ledger.group, "limit": 30, "wait": "300ms", "visibility": "3s"}
        while not self.is_ended:
            asked_at = time.monotonic()
            answer = self.ask(f"/topics/{JOBS}/receive", receive)
            if answer.status != 200:
                self.pause(0.1)
                continue
            kinds: dict[Answer, list[tuple[str, str]]] = {one: [] for one in Answer}
            for message in answer.body["messages"]:
                name = Body.decode(message["value"].encode()).id
                self._ledger.note_delivery(name, asked_at)
                kind = answer_for(self._ledger.group, name, message["delivery_count"])
                kinds[kind].append((name, message["receipt_handle"]))
            for kind in SETTLE:
                if kinds[kind]:
                    self._settle(kind, kinds[kind])

    def _settle(self, kind: Answer, rows: Sequence[tuple[str, str]]) -> None:
        body: dict[str, Any] = {"receipts": [receipt for _, receipt in rows], **SETTLE[kind]}
        if kind is Answer.ACK:
            # Without it the ack is in the page cache, which outlives the process as well.
            body["durable"] = self.chance.random() < 0.5
        try:
            answer = self.ask(f"/messages/{kind.value}", body)
        except CUT:
            for name, _ in rows:
                self._ledger.note_answer(name, kind, confirmed=False)
            raise
        results = answer.body.get("results") or [{"success": False, "status": answer.status}] * len(rows)
        for (name, _), result in zip(rows, results, strict=True):
            # 410: the lease had run out, so the answer did not count and the message comes again.
            if result["success"] or result["status"] >= 500:
                self._ledger.note_answer(name, kind, confirmed=result["success"])


class ShareWorker(Load):
    """A share consumer that accepts, releases and rejects."""

    def __init__(self, campaign: Campaign, ledger: GroupLedger) -> None:
        super().__init__(campaign, f"share-worker-{ledger.group}", consumes=True)
        self._ledger = ledger

    def work(self) -> None:
        settings = {name.replace(".", "_"): value for name, value in KAFKA.items() if name != "log_level"}
        with share_consumer(self.broker.kafka, SHARED, self._ledger.group, max_poll_records=50, **settings) as consumer:
            while not self.is_ended:
                self._take(consumer)

    def _take(self, consumer: ShareConsumer) -> None:
        asked_at = time.monotonic()
        found = [one for one in consumer.poll(0.3) if one.error() is None]
        answers: list[tuple[Message, str, Answer]] = []
        for one in found:
            name = Body.decode(one.value() or b"").id
            self._ledger.note_delivery(name, asked_at)
            kind = answer_for(self._ledger.group, name, self._ledger.delivered[name])
            consumer.acknowledge(one, SHARE_ANSWERS[kind])
            answers.append((one, name, kind))
        if not answers:
            return
        try:
            done = consumer.commit_sync(10.0)
        except KafkaException:
            done = {}
        results = {place.partition: problem is None for place, problem in done.items()}
        for one, name, kind in answers:
            self._ledger.note_answer(name, kind, confirmed=results.get(one.partition(), False))
