"""What a client, a producer and a consumer can be told: names with types, defaults, and checks.

The classes are the settings; each `...Fields` beside one names the keywords that the client's methods take, with
synonyms in milliseconds of an earlier release.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from goqueue.client.durations import Duration
from goqueue.client.errors import InvalidArgument
from goqueue.client.identity import default_client_id
from goqueue.records import TopicPartition

AcksName = Literal["none", "leader", "all"]
OffsetReset = Literal["earliest", "latest"]
Sharing = Literal["exclusive", "shared"]
RebalanceCallback = Callable[[frozenset[TopicPartition]], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """When batches go, and what must be true before they count as delivered."""

    # None: "all" in a cluster, "leader" on a node on its own.
    acks: AcksName | None = None
    batch_records_max: int = 100
    batch_bytes_max: int = 64 * 1024
    linger: Duration = 0.005
    buffer_records_max: int = 10_000
    # For how long a record is sent again to a broker that stopped answering; 0: only as often as the client's retries.
    delivery_timeout: Duration = 30
    # With an id, records are sent in transactions only, and acks is "all".
    transactional_id: str | None = None
    transaction_timeout: Duration = 60
    # A class whose instances are sent, or the subject by whose schema documents are encoded.
    schema: Any = None
    # Whether the schema of a class is registered; else it must be.
    schema_register: bool = True
    # The subject; without one, it is the topic's name with -value.
    schema_subject: str | None = None

    def __post_init__(self) -> None:
        if self.acks is not None:
            _check_choice("acks", self.acks, ("none", "leader", "all"))
        _check_positive(self, "batch_records_max", "batch_bytes_max", "buffer_records_max")


class ProducerFields(TypedDict, total=False):
    """Keywords of `client.producer`."""

    acks: AcksName | None
    batch_records_max: int
    batch_bytes_max: int
    linger: Duration
    buffer_records_max: int
    delivery_timeout: Duration
    transactional_id: str | None
    transaction_timeout: Duration
    schema: Any
    schema_register: bool
    schema_subject: str | None
    linger_ms: int
    transaction_timeout_ms: int


PRODUCER_SYNONYMS = {"linger_ms": "linger", "transaction_timeout_ms": "transaction_timeout"}


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """How a consumer reads and commits."""

    client_id: str = ""
    auto_commit: bool = True
    auto_commit_interval: Duration = 5
    auto_offset_reset: OffsetReset = "earliest"
    poll_records_max: int = 1_000
    poll_wait: Duration = 1
    # A consumer that does not poll for so long leaves its group, so that others get its partitions.
    poll_interval_max: Duration = 300
    # For how long an unreachable broker is tried again; None: for as long as the consumer runs.
    reconnect_max: Duration | None = None
    on_assigned: RebalanceCallback | None = None
    on_revoked: RebalanceCallback | None = None
    # A class as whose instances values are read (`message.object`), or dict for plain documents.
    schema: Any = None

    def __post_init__(self) -> None:
        _check_choice("auto_offset_reset", self.auto_offset_reset, ("earliest", "latest"))
        _check_positive(self, "poll_records_max")
        if not self.client_id:
            object.__setattr__(self, "client_id", default_client_id())


class ConsumerFields(TypedDict, total=False):
    """Keywords of `client.consumer`."""

    client_id: str
    auto_commit: bool
    auto_commit_interval: Duration
    auto_offset_reset: OffsetReset
    poll_records_max: int
    poll_wait: Duration
    poll_interval_max: Duration
    reconnect_max: Duration | None
    on_assigned: RebalanceCallback | None
    on_revoked: RebalanceCallback | None
    schema: Any
    auto_commit_interval_ms: int
    poll_wait_ms: int


CONSUMER_SYNONYMS = {"auto_commit_interval_ms": "auto_commit_interval", "poll_wait_ms": "poll_wait"}


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """How a queue is read. What is None is left to the group's policy."""

    client_id: str = ""
    receive_max: int = 100
    wait: Duration = 20
    visibility: Duration | None = None
    # Ask for more time while a message is held, but not for longer than this in all.
    auto_extend: bool = True
    hold_max: Duration = 3_600
    # Settlements are answered once they are on the disk.
    durable: bool = False
    # For members of a group: how its members share it, and whether a key's messages come one after the other.
    sharing: Sharing | None = None
    key_ordered: bool | None = None
    # For how long an unreachable broker is tried again; None: for as long as the consumer runs.
    reconnect_max: Duration | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "receive_max")
        if self.sharing is not None:
            _check_choice("sharing", self.sharing, ("exclusive", "shared"))
        if not self.client_id:
            object.__setattr__(self, "client_id", default_client_id())


class QueueFields(TypedDict, total=False):
    """Keywords of `client.queue` and `client.queue_consumer`."""

    client_id: str
    receive_max: int
    wait: Duration
    visibility: Duration | None
    auto_extend: bool
    hold_max: Duration
    durable: bool
    sharing: Sharing | None
    key_ordered: bool | None
    reconnect_max: Duration | None
    wait_ms: int
    visibility_ms: int | None
    hold_ms_max: int


QUEUE_SYNONYMS = {"wait_ms": "wait", "visibility_ms": "visibility", "hold_ms_max": "hold_max"}


def _check_choice(name: str, given: object, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise InvalidArgument(f"{name}={given!r} is not allowed", f"give one of {', '.join(allowed)}")


def _check_positive(options: object, *names: str) -> None:
    for name in names:
        number = getattr(options, name)
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"{name} is {type(number).__name__}: give an int")
        if number < 1:
            raise InvalidArgument(f"{name}={number} is too small", "give 1 or more")
