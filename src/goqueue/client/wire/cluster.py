"""The brokers of a cluster as one client sees them: who leads what, and where to ask.

Connections are made when they are needed and made again when they break. What may be asked
twice is asked again until `retry_s` is over; an address that never answered fails sooner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from uuid import UUID

from goqueue.client.wire.connection import WireConnection
from goqueue.client.wire.errors import RETRIABLE, STALE_METADATA, AnswerLost, BrokerRefused, KafkaUnreachable
from goqueue.client.wire.security import security_of
from goqueue.client.wire.tls import tls_context
from goqueue.errors import InvalidRequest, TopicNotFound
from goqueue.records import TopicPartition

METADATA, FIND_COORDINATOR, CREATE_TOPICS, DESCRIBE_CONFIGS = 3, 10, 19, 32
GROUP, TRANSACTION = 0, 1
_TOPIC_RESOURCE = 2
_UNKNOWN_TOPIC = 3
_PAUSE_S_FIRST, _PAUSE_S_MAX = 0.05, 1.0

T = TypeVar("T")
Address = tuple[str, int]


class TopicInfo(NamedTuple):
    """A topic as the brokers describe it: its id, and the leader of each partition."""

    topic_id: UUID | None
    leaders: Mapping[int, int]


class WireClient:
    """A client of one cluster. One thread at a time may use it."""

    def __init__(
        self,
        servers: str,
        *,
        client_id: str = "goqueue",
        timeout_s: float = 30.0,
        connect_s: float = 5.0,
        retry_s: float = 60.0,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self._security = security_of(security or {})
        self._tls = tls_context(self._security.tls) if self._security is not None and self._security.uses_tls else None
        self.servers = servers
        self._bootstrap = parse_servers(servers)
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._connect_s = connect_s
        self.retry_s = retry_s
        self._open: dict[Address, WireConnection] = {}
        self._made: list[WireConnection] = []
        self._nodes: dict[int, Address] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._has_answered = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all connections."""
        for connection in self._made:
            connection.close()
        self._made.clear()
        self._open.clear()

    # --- what there is -------------------------------------------------------------------

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicInfo]:
        """The topics of these names that exist; without names, all topics but the broker's own."""
        asked = None if names is None else [{"name": name} for name in names]
        answer = self.repeat(
            lambda: self.any_broker().call(METADATA, 10, {"topics": asked, "allow_auto_topic_creation": False})
        )
        self._nodes = {one.node_id: (one.host, one.port) for one in answer.brokers}
        found = {}
        for topic in answer.topics:
            if topic.error_code == 0 and not (names is None and topic.is_internal):
                leaders = {one.partition_index: one.leader_id for one in topic.partitions}
                found[topic.name] = TopicInfo(topic.topic_id, leaders)
            elif topic.error_code not in {0, _UNKNOWN_TOPIC}:
                raise BrokerRefused(f"topic {topic.name!r}", topic.error_code)
        self._topics.update(found)
        return found

    def topic(self, name: str) -> TopicInfo:
        """One topic, or TopicNotFound."""
        if name not in self._topics and name not in self.topics([name]):
            raise TopicNotFound(name)
        return self._topics[name]

    def topic_settings(self, name: str) -> dict[str, str | None]:
        """The settings that the topic obeys."""
        resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": name, "configuration_keys": None}
        answer = self.repeat(lambda: self.any_broker().call(DESCRIBE_CONFIGS, 4, {"resources": [resource]}))
        (row,) = answer.results
        if row.error_code:
            raise BrokerRefused(f"settings of topic {name!r}", row.error_code, row.error_message)
        return {one.name: one.value for one in row.configs}

    def create_topic(self, name: str, partitions: int, **settings: str) -> bool:
        """Make a topic; False if it is there already."""
        configs = [{"name": key.replace("_", "."), "value": value} for key, value in settings.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": -1, "configs": configs}
        answer = self.repeat(lambda: self.any_broker().call(CREATE_TOPICS, 7, {"topics": [topic], "timeout": 30_000}))
        (row,) = answer.topics
        if row.error_code not in {0, 36}:
            raise BrokerRefused(f"creating topic {name!r}", row.error_code, row.error_message)
        return not row.error_code

    # --- where to ask --------------------------------------------------------------------

    def any_broker(self) -> WireConnection:
        """A connection to some broker, the one that was named first if it answers."""
        for connection in self._open.values():
            if connection.is_open:
                return connection
        reason = ""
        deadline = time.monotonic() + (self.retry_s if self._has_answered else self._connect_s)
        for pause_s in pauses():
            for address in dict.fromkeys([*self._bootstrap, *self._nodes.values()]):
                try:
                    return self.connection(address)
                except OSError as error:
                    reason = error.strerror or str(error)
            if time.monotonic() + pause_s > deadline:
                break
            time.sleep(pause_s)
        raise KafkaUnreachable(self.servers, reason)

    def leader(self, place: TopicPartition) -> WireConnection:
        """The connection to the node that leads the partition."""
        return self.connection(self.leader_address(place))

    def leader_address(self, place: TopicPartition) -> Address:
        """Where the node is that leads the partition."""
        info = self.topic(place.topic)
        node = info.leaders.get(place.partition)
        if node is None:
            self._topics.pop(place.topic, None)
            raise BrokerRefused(str(place), 3)
        if node not in self._nodes:
            self._topics.pop(place.topic, None)
            raise BrokerRefused(str(place), 5)
        return self._nodes[node]

    def coordinator(self, name: str, kind: int = GROUP) -> WireConnection:
        """The connection to the node that coordinates a group or a transactional id."""
        address = self._coordinators.get((kind, name))
        if address is None:
            answer = self.any_broker().call(FIND_COORDINATOR, 4, {"key_type": kind, "coordinator_keys": [name]})
            (row,) = answer.coordinators
            if row.error_code:
                raise BrokerRefused(f"coordinator of {name!r}", row.error_code, row.error_message)
            address = self._coordinators[kind, name] = (row.host, row.port)
        return self.connection(address)

    def connection(self, address: Address) -> WireConnection:
        """The connection to this address, made if there is none."""
        connection = self._open.get(address)
        if connection is None or not connection.is_open:
            connection = self.new_connection(address)
            self._open[address] = connection
        return connection

    def new_connection(self, address: Address) -> WireConnection:
        """A connection of the caller's own, for many requests in flight; it ends with the client."""
        connection = WireConnection(
            *address, client_id=self._client_id, timeout_s=self._timeout_s, tls=self._tls, security=self._security
        )
        self._has_answered = True
        self._made = [one for one in self._made if one.is_open]
        self._made.append(connection)
        return connection

    def forget(self, topics: Iterable[str] | None = None) -> None:
        """What was known of these topics (of all) and of coordinators may be wrong: ask again next time."""
        for topic in list(self._topics) if topics is None else topics:
            self._topics.pop(topic, None)
        self._coordinators.clear()

    def repeat(self, work: Callable[[], T]) -> T:
        """Do what may be done twice, again while the reason for its failure may pass."""
        deadline = time.monotonic() + self.retry_s
        for pause_s in pauses():
            try:
                return work()
            except (AnswerLost, OSError, BrokerRefused) as error:
                if isinstance(error, BrokerRefused) and error.code not in RETRIABLE | STALE_METADATA:
                    raise
                # Of a node that is gone others have taken over what it led and coordinated.
                self.forget()
                if time.monotonic() + pause_s > deadline:
                    if isinstance(error, BrokerRefused):
                        raise
                    raise KafkaUnreachable(self.servers, str(error)) from error
            time.sleep(pause_s)
        raise AssertionError("pauses have no end")


def pauses() -> Iterable[float]:
    """Seconds to wait between attempts, doubling, for ever."""
    pause_s = _PAUSE_S_FIRST
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, _PAUSE_S_MAX)


def parse_servers(servers: str) -> list[Address]:
    """The addresses in `host:port,host:port`."""
    addresses = []
    for server in filter(None, (one.strip() for one in servers.split(","))):
        host, colon, port = server.rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise InvalidRequest(
                f"{server!r} is not an address", field="bootstrap.servers", hint="write host:port, as 127.0.0.1:9092"
            )
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise InvalidRequest("no address is given", field="bootstrap.servers", hint="write host:port")
    return addresses


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions of each topic, as requests want them."""
    topics: dict[str, list[int]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append(place.partition)
    return topics


def checked(what: str, code: int, message: Any = None) -> None:
    """Raise what an answer's code says."""
    if code:
        raise BrokerRefused(what, code, message)
