"""One campaign from the first message to the last account."""

from __future__ import annotations

import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence

from tests.e2e.campaign import checker
from tests.e2e.campaign.ledger import Fate, GroupLedger
from tests.e2e.campaign.load import CUT, Campaign, Load, Target
from tests.e2e.campaign.queues import JOBS, JobFeeder, QueueWorker, ShareWorker
from tests.e2e.campaign.readers import Row, read_http, read_kafka, verify_files
from tests.e2e.campaign.streams import (
    CODECS,
    INPUTS,
    LEADER,
    ORDERS,
    SHARED,
    KafkaWriters,
    StreamLedger,
    StreamMember,
)
from tests.e2e.campaign.timed import (
    BEATS,
    DEDUPLICATED,
    DELAYED,
    DelayFeeder,
    RepeatingFeeder,
    begin_schedules,
    deduplication_header,
    end_schedules,
)
from tests.e2e.campaign.transactional import OUTPUTS, PARTITIONS, TRANSACTIONS, TransactionalWriter, Transformer
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess
from tests.e2e.share_consumers import make_topic

QUEUE = {"delivery_backoff_ms": "30", "delivery_max_retries": "3", "delivery_visibility_timeout_ms": "3000"}
TOPICS: dict[str, dict[str, str]] = {
    ORDERS: {},
    LEADER: {},
    INPUTS: {},
    OUTPUTS: {},
    TRANSACTIONS: {},
    JOBS: QUEUE,
    SHARED: QUEUE,
    DELAYED: {"goqueue_delay_headers": "true"},
    DEDUPLICATED: {"goqueue_dedup_window_ms": "3600000"},
    BEATS: {},
}
DRAIN_SECONDS_MAX = 120.0
# After the last kill every kind of load gets so many more messages acknowledged.
PROGRESS = 5


class Run:
    """All loads of one broker or cluster, and what is done to it meanwhile."""

    def __init__(self, broker: Target, seed: int) -> None:
        self.campaign = Campaign(broker, seed)
        self.due_ms: dict[str, int] = {}
        self.stream = StreamLedger(self.due_ms)
        self.jobs = [GroupLedger("alpha"), GroupLedger("beta")]
        self.shares = [GroupLedger("gamma"), GroupLedger("delta")]
        self.runs: dict[str, int] = {}
        self.topics: dict[str, list[Row]] = {}
        for name, settings in TOPICS.items():
            make_topic(broker.kafka, name, PARTITIONS, **settings)
        delay = DelayFeeder(self.campaign, self.due_ms)
        self.feeders: list[Load] = [
            KafkaWriters(self.campaign, delay.headers, deduplication_header),
            delay,
            RepeatingFeeder(self.campaign),
            JobFeeder(self.campaign),
            *(TransactionalWriter(self.campaign, number) for number in range(2)),
        ]
        self.consumers: list[Load] = [
            *(StreamMember(self.campaign, number, self.stream) for number in range(2)),
            *(QueueWorker(self.campaign, one) for one in self.jobs),
            *(ShareWorker(self.campaign, one) for one in self.shares),
            Transformer(self.campaign),
        ]

    @property
    def http(self) -> Http:
        return Http(self.campaign.broker.http)

    def execute(self, disturb: Callable[[], None]) -> list[str]:
        """Load, disturbance, the end of the load, a clean restart, and the account; gives what is wrong."""
        first_runs = begin_schedules(self.http)
        for one in [*self.feeders, *self.consumers]:
            one.start()
        disturb()
        self._progress()
        self._finish(self.feeders, self.campaign.draining.set)
        self._until(self._left)
        self._finish(self.consumers, self.campaign.stopping.set)
        self.runs, problems = end_schedules(self.http, first_runs)
        self._until(lambda: [] if self.http.get("/delay/stats")["total_pending"] == 0 else ["delayed messages wait"])
        self.campaign.broker.restart()
        problems += self.campaign.problems + self._account()
        self.campaign.broker.stop()
        return problems + [one for place in self.campaign.broker.data_dirs for one in verify_files(place)]

    def figures(self) -> str:
        """What was done, for the report."""
        lines = [f"seed {self.campaign.seed}, {self.campaign.counts['kills']} kills"]
        lines += [
            f"  {kind}: " + ", ".join(f"{ledger.count(fate)} {fate.value}" for fate in Fate)
            for kind, ledger in self.campaign.ledgers.items()
        ]
        lines += [
            f"  group {group.group}: {group.delivered.total()} deliveries of {len(group.delivered)} messages, "
            f"{len(group.acked)} acked, {len(group.rejected)} rejected, {len(group.unknown)} unknown"
            for group in [*self.jobs, *self.shares]
        ]
        lines.append(f"  schedules: {self.runs}; stream group: {self.stream.seen.total()} deliveries")
        lines.append("  stored: " + ", ".join(f"{name} {len(rows)}" for name, rows in self.topics.items()))
        lines.append("  met: " + ", ".join(f"{what} {count}" for what, count in self.campaign.counts.most_common()))
        return "\n".join(lines)

    def kill(self, broker: BrokerProcess, kills: int) -> None:
        """kill -9 at moments that the seed chooses, and a new start after each."""
        chance = random.Random(self.campaign.seed)
        for _ in range(kills):
            before = self.campaign.acknowledged
            # Some kills meet a broker that has hardly started; the others one that has work under way.
            if chance.random() < 0.8:
                self._until(lambda before=before: [] if self.campaign.acknowledged > before + 100 else ["no progress"])
                time.sleep(chance.uniform(0.0, 3.0))
            assert broker.running, f"the broker ended by itself:\n{broker.output[-3000:]}"
            broker.kill()
            self.campaign.counts["kills"] += 1
            broker.start()

    def _progress(self) -> None:
        """Every load goes on after the last disturbance."""
        counts = {kind: one.count(Fate.ACKNOWLEDGED) for kind, one in self.campaign.ledgers.items()}
        self._until(lambda: [kind for kind, before in counts.items() if self._more_of(kind, before) < PROGRESS])

    def _more_of(self, kind: str, before: int) -> int:
        return self.campaign.ledgers[kind].count(Fate.ACKNOWLEDGED) - before

    def _finish(self, loads: Sequence[Load], tell: Callable[[], None]) -> None:
        tell()
        for one in loads:
            one.join(DRAIN_SECONDS_MAX)
            assert not one.is_alive(), f"{one.name} did not end"

    def _left(self) -> list[str]:
        """What the consumers have not settled yet."""
        unseen = self.stream.unseen([one for one in self.campaign.ledgers.values() if _is_streamed(one.kind)])
        left = [f"{len(unseen)} unseen by the stream group, first {unseen[:5]}"] if unseen else []
        for group in [Transformer.GROUP, *(one.group for one in [*self.jobs, *self.shares])]:
            try:
                lag = self.http.get(f"/groups/{group}/offsets")["total_lag"]
            except CUT as problem:
                lag = str(problem)
            if lag:
                left.append(f"group {group} lags by {lag}")
        return left

    def _until(self, left: Callable[[], list[str]]) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while last := left():
            assert time.monotonic() < deadline, f"after {DRAIN_SECONDS_MAX} s: {last}\n{self._where()}"
            time.sleep(0.1)

    def _where(self) -> str:
        """Where each thread of load is, for the report of one that makes no progress."""
        frames = sys._current_frames()
        alive = [one for one in [*self.feeders, *self.consumers] if one.is_alive() and one.ident in frames]
        lines = {one.name: traceback.extract_stack(frames[one.ident or 0])[-1] for one in alive}
        places = [f"{name} is at {line.filename}:{line.lineno} {line.line}" for name, line in lines.items()]
        return "\n".join([*places, *self.campaign.broker.output[-3000:].splitlines()])

    def _account(self) -> list[str]:
        broker = self.campaign.broker
        ledgers = self.campaign.ledgers
        problems: list[str] = []
        for name in [*TOPICS, f"{JOBS}.dlq", f"{SHARED}.dlq"]:
            self.topics[name] = read_kafka(broker.kafka, name)
            rows, unreadable = read_http(self.http, name)
            problems += checker.check_readers(name, self.topics[name], rows)
            problems += [f"{name}: unreadable {one}" for one in unreadable]
        for kind in [*(f"orders-{codec}" for codec in CODECS), "leader", "inputs", "shared", "jobs"]:
            rows = self.topics[kind.partition("-")[0]]
            if kind == "leader":
                problems += checker.check_stored(ledgers[kind], rows, once=False, may_be_lost=broker.is_cluster)
            else:
                problems += checker.check_stored(ledgers[kind], rows)
            # Clients count requests under way per node. When the leader changes, one without idempotence sends to the
            # new leader before it knows what became of its request to the old one, and then repeats that.
            if kind != "leader" or not broker.is_cluster:
                problems += checker.check_order(ledgers[kind], rows)
        for kind in ("delayed", "delayed-kafka"):
            problems += checker.check_stored(ledgers[kind], self.topics[DELAYED])
            problems += checker.check_due(ledgers[kind], self.topics[DELAYED], self.due_ms)
        for kind in ("dedup", "dedup-kafka"):
            problems += checker.check_stored(ledgers[kind], self.topics[DEDUPLICATED])
        for number in range(2):
            ledger = ledgers[f"transactions-{number}"]
            problems += checker.check_transactions(ledger, self.topics[TRANSACTIONS], PARTITIONS)
        problems += checker.check_outputs(ledgers["inputs"], self.topics[INPUTS], self.topics[OUTPUTS])
        for group in self.jobs:
            problems += checker.check_group(group, ledgers["jobs"], self.topics[JOBS], self.topics[f"{JOBS}.dlq"])
        for group in self.shares:
            problems += checker.check_group(group, ledgers["shared"], self.topics[SHARED], self.topics[f"{SHARED}.dlq"])
        problems += checker.check_runs(self.runs, self.topics[BEATS])
        problems += [f"{name} reached a reader before its time" for name in self.stream.early]
        return problems


def _is_streamed(kind: str) -> bool:
    return kind.partition("-")[0] in {ORDERS, DELAYED}
