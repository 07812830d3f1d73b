"""Writes `docs/reference/kafka-compatibility.md` from the handlers themselves.

Run `python -m goqueue.servers.kafka.compatibility docs/reference/kafka-compatibility.md`;
a test fails while the page is not what this module would write.
"""

from __future__ import annotations

import sys
from pathlib import Path

from goqueue.servers.kafka.registry import MODULES

PREAMBLE = """\
# Kafka compatibility

GoQueue speaks Kafka's protocol, so point any Kafka client at it. This page is written from the handlers that answer
(`python -m goqueue.servers.kafka.compatibility`) and tested to be current. The end-to-end suite in `tests/e2e` drives
these APIs with confluent-kafka (librdkafka), aiokafka, kafka-python and kcat, its slow part also with Apache Kafka's
Java client; versions that none of them speaks are tested with raw requests.

- Message format 2 only: older formats are answered UNSUPPORTED_FOR_MESSAGE_FORMAT.
- Requests of one connection are answered in order, and each sees what the ones before it have changed. Produce, Fetch
  and reads are worked on side by side; a request that changes topics, settings, groups or transactions starts when
  those before it are answered, and those behind it wait for it. Nothing waits for Fetch, ShareFetch, JoinGroup and
  SyncGroup.
- Clients read internal topics (`__*`) and cannot write, change or delete them.
- A group keeps the protocol that its first member spoke for as long as it has members. Online migration of a group
  between the classic protocol and that of KIP-848 is left for later: let all members leave, then start the new ones.
- A group's `consumer.session.timeout.ms` (within the node's `groups.session_timeout_ms_min` and `_max`) and
  `consumer.heartbeat.interval.ms` can be set before the group is used and while it is; members obey them from their
  next heartbeat on. They are forgotten when the group is deleted. `share.isolation.level` is stored and shown, but
  share groups get records of committed transactions alone: `read_uncommitted` is logged as a setting without effect.
- Broker settings that are defaults of topic settings (`log.retention.ms`, `log.retention.bytes`, `log.segment.bytes`,
  `log.roll.ms`, `message.max.bytes` and a few more; DescribeConfigs shows them as not read-only) can be altered while
  the broker runs, as the default of all brokers: `kafka-configs --alter --entity-type brokers --entity-default`. A node
  on its own may be named instead; brokers of a cluster have no such settings of their own. User topics without a value
  of their own follow at once; the broker's internal topics keep to its file. Altered values survive a restart.
- A request for an API or version that is not listed closes the connection, except for ApiVersions, which is answered
  in version 0.

| API | key | versions | gaps |
|---|---|---|---|
"""


def render() -> str:
    """The whole page."""
    rows = []
    for api in sorted((module.API for module in MODULES), key=lambda one: one.key):
        low, high = api.versions
        versions = f"{low}-{high}" if low != high else str(low)
        rows.append(f"| {api.name} | {api.key} | {versions} | {' '.join(map(_sentence, api.gaps))} |")
    return PREAMBLE + "\n".join(rows) + "\n"


def _sentence(text: str) -> str:
    plain = text[:1].upper() + text[1:]
    return plain if plain.endswith(".") else plain + "."


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
