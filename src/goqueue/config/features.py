"""Settings of the features: groups, transactions, queues, delay, stories, schemas."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.config.declaring import MIB, setting


@dataclass(frozen=True, slots=True)
class GroupsConfig:
    """Consumer groups and their offsets."""

    offsets_partitions: int = setting(50, "Partitions of __consumer_offsets.", minimum=1)
    session_timeout_ms: int = setting(
        30_000, "A member that sends no heartbeat for this long is removed from its group.", minimum=1
    )
    session_timeout_ms_min: int = setting(1_000, "Shortest session a member may ask for.", minimum=1)
    session_timeout_ms_max: int = setting(1_800_000, "Longest session a member may ask for.", minimum=1)
    heartbeat_interval_ms: int = setting(
        3_000, "Heartbeat interval given to members of the consumer protocol (KIP-848).", minimum=1
    )
    initial_rebalance_delay_ms: int = setting(0, "Wait for more members before the first generation.", minimum=0)
    revocation_timeout_ms: int = setting(
        60_000, "Time a member has to give partitions up before it is fenced.", minimum=1
    )
    members_max: int = setting(10_000, "Maximum number of members of one group.", minimum=1)
    share_sessions_max: int = setting(2_000, "Kafka share consumers that fetch at the same time.", minimum=1)
    offset_metadata_bytes_max: int = setting(4096, "Largest metadata text of one committed offset.", minimum=0)
    offsets_retention_ms: int = setting(7 * 24 * 3600 * 1000, "How long offsets of an empty group are kept.", minimum=1)


@dataclass(frozen=True, slots=True)
class TransactionsConfig:
    """Transactions and the ids of their producers."""

    state_partitions: int = setting(50, "Partitions of __transaction_state.", minimum=1)
    timeout_ms: int = setting(60_000, "Default transaction timeout: the transaction is aborted after it.", minimum=1)
    timeout_ms_max: int = setting(900_000, "Largest transaction timeout that a producer may request.", minimum=1)
    session_timeout_ms: int = setting(
        30_000, "The open transaction of an HTTP producer that sends no heartbeat for this long is aborted.", minimum=1
    )
    heartbeat_interval_ms: int = setting(3_000, "Heartbeat interval given to HTTP producers.", minimum=1)
    id_expiration_ms: int = setting(
        7 * 24 * 3600 * 1000, "Idle time after which a transactional id is forgotten.", minimum=1
    )
    prepared_timeout_ms: int = setting(
        24 * 3600 * 1000, "Time after which a participant of an external coordinator is aborted.", minimum=1
    )
    prepared_participants_max: int = setting(
        10_000, "Open participants of one writer of an external coordinator.", minimum=1
    )
    prepared_writer_expiration_ms: int = setting(
        90 * 24 * 3600 * 1000, "Idle time after which a writer's committed epochs are forgotten.", minimum=1
    )


@dataclass(frozen=True, slots=True)
class DeliveryConfig:
    """Queue groups: how messages are handed out, and what becomes of those that are not settled."""

    receive_max: int = setting(1_000, "Messages in one receive, and receipts in one settlement.", minimum=1)
    visibility_ms: int = setting(
        30_000, "How long a delivered message is hidden from others.", minimum=0, maximum=12 * 3600 * 1000
    )
    retries_max: int = setting(3, "Redeliveries after the first delivery; then the dead-letter topic.", minimum=0)
    backoff_ms: int = setting(1_000, "Wait before the first redelivery after a nack.", minimum=0)
    backoff_multiplier: float = setting(2.0, "Factor by which each further wait is longer.", minimum=1.0)
    backoff_ms_max: int = setting(60_000, "Longest wait before a redelivery.", minimum=0)
    backoff_jitter: float = setting(
        0.0, "Random share added to a wait at most, so that retries are spread over time.", minimum=0.0, maximum=1.0
    )
    in_flight_max: int = setting(1_000, "Maximum number of unsettled messages of one consumer.", minimum=1)
    outstanding_max: int = setting(
        100_000, "Messages that one group may have unsettled in one partition; then it gets no new ones.", minimum=1
    )
    starvation_ms: int = setting(30_000, "Wait after which a priority lane is served out of turn.", minimum=0)


@dataclass(frozen=True, slots=True)
class DelayConfig:
    """Messages that are held back until they are due."""

    fire_lead_ms: int = setting(
        50,
        "How long before it is due a message is made ready; from then on it cannot be cancelled.",
        minimum=0,
        maximum=1000,
    )
    near_ms: int = setting(
        600_000,
        "How far ahead due times are kept in memory; all later ones are on the disk alone.",
        minimum=1000,
        maximum=7 * 24 * 3600 * 1000,
    )
    near_max: int = setting(100_000, "Due times that are kept in memory at most.", minimum=1000)
    schedules_max: int = setting(10_000, "Maximum number of recurring messages in the cluster.", minimum=0)


@dataclass(frozen=True, slots=True)
class TracingConfig:
    """Stories of messages, and spans for other systems. Topics override the switch and the rate."""

    enabled: bool = setting(
        True, "Record what happens to every message, for `goqueue explain`; a topic's trace.enabled decides for itself."
    )
    retention_ms: int = setting(7 * 24 * 3600 * 1000, "How long stories are kept.", minimum=1000)
    retention_bytes: int = setting(1024 * MIB, "Total size of stories above which the oldest are deleted.", minimum=MIB)
    pending_max: int = setting(
        100_000,
        "Events that may wait to be written; above it the oldest are dropped, and stories say so.",
        minimum=100,
    )
    ring_spans: int = setting(10_000, "Recent events in memory, for GET /traces.", minimum=1)
    exporters: str = setting(
        "", "Where spans are sent: any of otlp, jaeger, file and stdout, with commas between; empty sends none."
    )
    sample_rate: float = setting(
        1.0, "Share of the messages whose spans are exported, chosen by trace id.", minimum=0.0, maximum=1.0
    )
    export_failed: bool = setting(True, "Export every message that was dead-lettered or rejected, sampled or not.")
    export_slow_ms: int = setting(
        0,
        "Export every message that was acknowledged later than this after it was stored; 0: none for that.",
        minimum=0,
    )
    export_rate_max: int = setting(
        500,
        "Maximum number of spans per second that are made of messages; above it, fewer messages are sampled.",
        minimum=10,
    )
    export_queue_max: int = setting(
        10_000, "Spans that may wait for one exporter; beyond it the oldest are dropped and counted.", minimum=1
    )
    otlp_endpoint: str = setting(
        "http://127.0.0.1:4318/v1/traces", "Where the otlp exporter posts to; HTTP with protobuf bodies."
    )
    otlp_headers: str = setting("", "Headers of these requests: name=value, with commas between.")
    otlp_certificate: str = setting("", "File with the certificates that an https endpoint is checked against.")
    otlp_timeout_ms: int = setting(10_000, "Longest time that one request of the otlp exporter takes.", minimum=1)
    file_bytes_max: int = setting(10 * MIB, "Size at which the file exporter begins its next file.", minimum=1024)
    file_count_max: int = setting(100, "Files that the file exporter keeps; older ones are deleted.", minimum=1)
    stdout_pretty: bool = setting(False, "Let the stdout exporter indent what it writes.")
    jaeger_agent: str = setting(
        "127.0.0.1:6831", "Address of the Jaeger agent that takes compact Thrift over UDP, host:port."
    )


@dataclass(frozen=True, slots=True)
class SchemasConfig:
    """The schema registry, and the process that runs schemas."""

    schemas_max: int = setting(100_000, "Maximum number of schemas in the registry.", minimum=1)
    schema_bytes_max: int = setting(MIB, "Largest schema, with all that it references.", minimum=1024)
    cache_size: int = setting(
        1_000, "Compiled schemas that are kept; the least recently used are evicted first.", minimum=1
    )
    worker_ms_max: int = setting(
        5_000, "Longest time that checking a schema, or a batch against one, may take.", minimum=100
    )
    worker_memory_bytes_max: int = setting(
        2048 * MIB, "Memory limit (address space) of the process that checks schemas.", minimum=512 * MIB
    )
    copy_age_ms_max: int = setting(
        30_000,
        "How long a node that cannot reach the registry goes on checking messages by what it knows (clusters only).",
        minimum=1000,
    )
