"""What can be known before Spark starts, which takes seconds: whether a broker answers and has the topics."""

from __future__ import annotations

from collections.abc import Iterable

from goqueue.client.wire import WireClient
from goqueue.client.wire.security import with_defaults
from goqueue.errors import TopicNotFound


def missing_topics(servers: str, topics: Iterable[str]) -> list[str]:
    """The topics that the broker does not have; raises if no broker answers."""
    wanted = list(dict.fromkeys(topics))
    with WireClient(servers, client_id="goqueue-preflight", security=with_defaults({})) as client:
        found = client.topics(wanted)
    return [topic for topic in wanted if topic not in found]


def check_topics(servers: str, *topics: str) -> None:
    """Raise for the first topic that is not there."""
    for topic in missing_topics(servers, topics):
        raise TopicNotFound(topic)
