"""Settings, as frozen slices: each part of the node receives its own.

Nothing here reads a file or the environment: `node/config/load_config.py` does. Every field
carries its documentation in its metadata, from which the command line's options and
the reference page are made, so a setting cannot exist undocumented.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

MIB = 1024 * 1024


def setting(default: Any, doc: str, **extra: Any) -> Any:
    """A documented field. `extra` may name `env`, `flag`, `minimum`, `maximum`, `choices`."""
    return field(default=default, metadata={"doc": doc, **extra})


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Who this node is and where its data lies."""

    data_dir: str = setting(
        "./data", "Directory that holds everything durable.", env="GOQUEUE_BROKER_DATADIR", flag="--data-dir"
    )
    node_id: int = setting(
        1,
        "Number of this node, unique in its cluster. Data belongs to the node that made it: another number is refused.",
        env="GOQUEUE_BROKER_NODEID",
        flag="--node-id",
        minimum=0,
        maximum=2**31 - 1,
    )
    auto_create_topics: bool = setting(True, "Create a topic when a client first names it.")
    default_partitions: int = setting(3, "Partitions of a topic that does not say.", minimum=1, maximum=10_000)
    default_replication_factor: int = setting(1, "Copies of a topic that does not say.", minimum=1)
    log_level: str = setting(
        "info", "Least severe events that are written to stderr.", choices=("debug", "info", "warning", "error")
    )


@dataclass(frozen=True, slots=True)
class ListenersConfig:
    """Where clients connect. Loopback only, until security is configured."""

    kafka: str = setting(
        "127.0.0.1:9092",
        "Address of the listener `kafka`, host:port, or tls://host:port; port 0 takes a free one. Empty: none, if "
        "`named` has one.",
        env="GOQUEUE_LISTENERS_KAFKA",
        flag="--kafka",
    )
    advertised_kafka: str = setting(
        "",
        "Address that Kafka clients are told to use; empty means the one listened on.",
        env="GOQUEUE_LISTENERS_ADVERTISED_KAFKA",
        flag="--advertised-kafka",
    )
    http: str = setting(
        "127.0.0.1:8080",
        "Address of the listener `http`, host:port, or tls://host:port; port 0 takes a free one. Empty: none, if "
        "`named` has one.",
        env="GOQUEUE_LISTENERS_HTTP",
        flag="--http",
    )
    grpc: str = setting(
        "",
        "Address of the listener `grpc`, host:port, or tls://host:port; port 0 takes a free one. Empty: no gRPC. Needs "
        "the extra goqueue[grpc].",
        env="GOQUEUE_LISTENERS_GRPC",
        flag="--grpc",
    )
    named: tuple[str, ...] = setting(
        (),
        "Further listeners, each `name=protocol://host:port`. Protocol is kafka, http or grpc, with +tls behind it "
        "for TLS. After a question mark: advertised=host:port, client_certificates=none, optional or required. "
        "Separate several by commas, or write a list.",
    )
    client_certificates: str = setting(
        "none",
        "Whether the listeners `kafka`, `http` and `grpc` ask for client certificates, when they use TLS.",
        choices=("none", "optional", "required"),
    )
    allow_insecure: bool = setting(
        False,
        "Accept listeners beyond loopback without authentication or without TLS: whoever reaches one may read and "
        "write everything, or read what others send.",
    )


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Certificates of the listeners that use TLS. TLS 1.2 is the oldest version."""

    certificate: str = setting("", "File with the certificate of this node and its chain, PEM.")
    key: str = setting("", "File with the private key of the certificate, PEM, not encrypted.")
    client_ca: str = setting("", "File with the authorities that client certificates are checked against, PEM.")
    reload_ms: int = setting(
        1_000, "Time between two looks at the files. New connections use changed files without a restart.", minimum=100
    )
    expiry_warning_days: int = setting(
        30, "The log warns once a day when the certificate expires within so many days.", minimum=0
    )


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """Who clients are and what they may do. Users, keys, roles and rules are stored; see `goqueue security`."""

    enabled: bool = setting(
        False, "Every client must authenticate, and may do only what a rule or a role allows.", flag="--secure"
    )
    super_users: tuple[str, ...] = setting((), "Principals that may do everything, as in User:admin.")
    sasl_mechanisms: tuple[str, ...] = setting(
        ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"),
        "What Kafka clients may authenticate by; with `token_keys`, OAUTHBEARER too.",
    )
    principal_mapping_rules: tuple[str, ...] = setting(
        ("DEFAULT",),
        "How the subject of a client certificate becomes a name: RULE:pattern/replacement/[LU] or DEFAULT, the first "
        "that fits. Separate several by semicolons, or write a list.",
        separator=";",
    )
    token_keys: str = setting("", "File or https URL with the public keys (JWKS) of the issuer of tokens; empty: none.")
    token_issuer: str = setting("", "Issuer that a token must name (iss).")
    token_audience: str = setting("", "Audience that a token must name (aud).")
    token_claim: str = setting("sub", "Claim of a token that is the user's name.")
    token_refresh_ms: int = setting(300_000, "Time after which the keys of the issuer are read again.", minimum=1000)
    reauthentication_ms: int = setting(
        0, "Time after which a Kafka connection must authenticate again; 0: when its credential expires.", minimum=0
    )
    authentication_ms: int = setting(
        10_000, "A Kafka connection that has not authenticated by then is closed.", minimum=100
    )
    failed_login_ms_max: int = setting(
        5_000,
        "Longest time that the answer to a failed login is held back. It doubles with every failure of an address, "
        "from 100 ms on, and starts again after a minute.",
        minimum=0,
    )
    open_routes: tuple[str, ...] = setting(
        (), "What HTTP answers without credentials besides health: metrics, docs, version."
    )
    audit_file: str = setting("", "File that gets the audit log as JSON lines, besides the topic __audit.")
    audit_data: bool = setting(False, "Audit reads and writes of messages too, not only logins, denials and changes.")
    audit_required: bool = setting(
        False, "Refuse administrative changes that cannot be written to the audit log first."
    )


@dataclass(frozen=True, slots=True)
class LogConfig:
    """How partition logs are kept. Topics override what Kafka lets topics override."""

    segment_bytes: int = setting(64 * MIB, "A segment is sealed at this size.", minimum=1024)
    segment_ms: int = setting(7 * 24 * 3600 * 1000, "A segment is sealed at this age.", minimum=1)
    index_interval_bytes: int = setting(4096, "One index entry per this many bytes of log.", minimum=1)
    retention_ms: int = setting(7 * 24 * 3600 * 1000, "Age at which records go; -1 keeps them.", minimum=-1)
    retention_bytes: int = setting(-1, "Size of a partition above which old segments go; -1: no limit.", minimum=-1)
    retention_check_ms: int = setting(60_000, "Time between two rounds of retention and compaction.", minimum=100)
    max_message_bytes: int = setting(16 * MIB, "Largest batch a topic takes.", minimum=1)
    open_files_max: int = setting(
        0,
        "Files of segments kept open at once, of all partitions together; 0 takes half of the files that the process "
        "may have open (`ulimit -n`), 4096 at most.",
        minimum=0,
    )
    producer_window_batches: int = setting(5, "Batches per producer whose retries are recognised.", minimum=1)
    producer_expiry_ms: int = setting(24 * 3600 * 1000, "Idle time after which a producer is forgotten.", minimum=1)
    tombstone_retention_ms: int = setting(24 * 3600 * 1000, "How long a deletion outlives compaction.", minimum=0)
    compaction_dirty_ratio: float = setting(
        0.5, "Share of uncompacted bytes that starts compaction.", minimum=0.0, maximum=1.0
    )


@dataclass(frozen=True, slots=True)
class DurabilityConfig:
    """When bytes must be on the disk and not only in its cache."""

    flush_interval_ms: int = setting(1000, "Longest time that acks=leader leaves bytes unsynced.", minimum=1)
    checkpoint_interval_ms: int = setting(60_000, "Time between two recovery points.", minimum=100)
    syncfs_files_min: int = setting(64, "Dirty files from which one syncfs replaces many fdatasync.", minimum=1)
    disk_free_bytes_min: int = setting(64 * MIB, "Writes are refused when less space is left.", minimum=0)


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What one client, or all of them, may ask of the node at once."""

    connections_max: int = setting(10_000, "Open connections; one more is closed at once.", minimum=1)
    connections_per_address_max: int = setting(
        10_000, "Open connections from one address; one more is closed at once.", minimum=1
    )
    connections_per_principal_max: int = setting(
        10_000, "Open Kafka connections of one principal; one more is closed at once.", minimum=1
    )
    request_bytes_max: int = setting(
        100 * MIB,
        "Largest request; a larger one closes its connection. A compressed batch may unpack to as much, or to 128 MiB "
        "if that is more; beyond it the batch is unreadable.",
        minimum=1024,
    )
    inflight_bytes_max: int = setting(
        1024 * MIB, "Requests being read or worked on; above it, reading pauses.", minimum=MIB
    )
    inflight_requests_per_connection_max: int = setting(64, "Requests of one connection worked on at once.", minimum=1)
    fetch_bytes_max: int = setting(55 * MIB, "Largest answer to one fetch.", minimum=1024)
    fetch_wait_ms_max: int = setting(300_000, "Longest wait of one fetch.", minimum=0)
    fetch_sessions_max: int = setting(
        1_000, "Kafka consumers that fetch incrementally; one more names all its partitions each time.", minimum=0
    )
    idle_connection_ms: int = setting(600_000, "Connections without a request for this long are closed.", minimum=1000)
    deduplication_ids_max: int = setting(
        1_000_000, "Deduplication ids remembered per topic; one more is refused. Some 250 bytes each.", minimum=1
    )
    unsent_bytes_max: int = setting(
        64 * MIB, "Answers a connection may leave unread before its requests wait.", minimum=MIB
    )
    answer_bytes_max: int = setting(
        256 * MIB,
        "Answers of all connections, Kafka and HTTP, that clients have not read yet; above it, reads wait.",
        minimum=MIB,
    )
    answer_wait_ms_max: int = setting(
        5_000, "Longest wait of an HTTP read for memory for its answer; then it is told to retry.", minimum=1
    )
    unread_answer_ms_max: int = setting(
        30_000, "A client that reads nothing of its answer for this long is closed.", minimum=1000
    )


@dataclass(frozen=True, slots=True)
class GroupsConfig:
    """Consumer groups and their offsets."""

    offsets_partitions: int = setting(50, "Partitions of __consumer_offsets.", minimum=1)
    session_timeout_ms: int = setting(30_000, "Silence after which a member is gone.", minimum=1)
    session_timeout_ms_min: int = setting(1_000, "Shortest session a member may ask for.", minimum=1)
    session_timeout_ms_max: int = setting(1_800_000, "Longest session a member may ask for.", minimum=1)
    heartbeat_interval_ms: int = setting(3_000, "Heartbeat that members of the new protocol are told.", minimum=1)
    initial_rebalance_delay_ms: int = setting(0, "Wait for more members before the first generation.", minimum=0)
    revocation_timeout_ms: int = setting(
        60_000, "Time a member has to give partitions up before it is fenced.", minimum=1
    )
    members_max: int = setting(10_000, "Members of one group.", minimum=1)
    share_sessions_max: int = setting(2_000, "Kafka share consumers that fetch at the same time.", minimum=1)
    offset_metadata_bytes_max: int = setting(4096, "Text stored beside one committed offset.", minimum=0)
    offsets_retention_ms: int = setting(7 * 24 * 3600 * 1000, "How long offsets of an empty group are kept.", minimum=1)


@dataclass(frozen=True, slots=True)
class TransactionsConfig:
    """Transactions and the ids of their producers."""

    state_partitions: int = setting(50, "Partitions of __transaction_state.", minimum=1)
    timeout_ms: int = setting(
        60_000, "Time after which a transaction of a client that does not say is aborted.", minimum=1
    )
    timeout_ms_max: int = setting(900_000, "Longest time a producer may ask for its transactions.", minimum=1)
    session_timeout_ms: int = setting(
        30_000, "Silence after which what a producer that speaks HTTP has open is aborted.", minimum=1
    )
    heartbeat_interval_ms: int = setting(3_000, "Heartbeat that producers that speak HTTP are told.", minimum=1)
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

    state_partitions: int = setting(50, "Partitions of __delivery_state.", minimum=1)
    receive_max: int = setting(1_000, "Messages in one receive, and receipts in one settlement.", minimum=1)
    visibility_ms: int = setting(
        30_000, "How long a delivered message is hidden from others.", minimum=0, maximum=12 * 3600 * 1000
    )
    retries_max: int = setting(3, "Redeliveries after the first delivery; then the dead-letter topic.", minimum=0)
    backoff_ms: int = setting(1_000, "Wait before the first redelivery after a nack.", minimum=0)
    backoff_multiplier: float = setting(2.0, "How much longer each further wait is.", minimum=1.0)
    backoff_ms_max: int = setting(60_000, "Longest wait before a redelivery.", minimum=0)
    backoff_jitter: float = setting(
        0.0, "Share of a wait that chance may add, so that retries do not come at once.", minimum=0.0, maximum=1.0
    )
    in_flight_max: int = setting(1_000, "Messages that one consumer may hold unsettled.", minimum=1)
    outstanding_max: int = setting(
        100_000, "Messages that one group may have unsettled in one partition; then it gets no new ones.", minimum=1
    )
    starvation_ms: int = setting(30_000, "Wait after which a priority lane is served out of turn.", minimum=0)


@dataclass(frozen=True, slots=True)
class DelayConfig:
    """Messages that are held back until they are due."""

    state_partitions: int = setting(4, "Partitions of __delayed.", minimum=1)
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
    near_max: int = setting(50_000, "Due times of one partition that are kept in memory at most.", minimum=1000)
    schedules_max: int = setting(10_000, "Recurring messages of the node.", minimum=0)


@dataclass(frozen=True, slots=True)
class TracingConfig:
    """Stories of messages, and spans for other systems. Topics override the switch and the rate."""

    enabled: bool = setting(
        True, "Record what happens to every message, for `goqueue explain`; a topic's trace.enabled decides for itself."
    )
    retention_ms: int = setting(7 * 24 * 3600 * 1000, "How long stories are kept.", minimum=1000)
    retention_bytes: int = setting(1024 * MIB, "Size of all stories together above which the oldest go.", minimum=MIB)
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
        500, "Spans per second that are made of messages at most; above it, fewer messages are looked at.", minimum=10
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

    schemas_max: int = setting(100_000, "Schemas that the registry holds.", minimum=1)
    schema_bytes_max: int = setting(MIB, "Largest schema, with all that it references.", minimum=1024)
    cache_size: int = setting(1_000, "Compiled schemas that are kept; the least recently used go first.", minimum=1)
    worker_ms_max: int = setting(
        5_000, "Longest time that checking a schema, or a batch against one, may take.", minimum=100
    )
    worker_memory_bytes_max: int = setting(
        2048 * MIB, "Address space of the process that runs schemas.", minimum=512 * MIB
    )


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """The HTTP API."""

    body_bytes_max: int = setting(16 * MIB, "Largest request body.", minimum=1024)
    body_ms_max: int = setting(30_000, "Longest time that a request's body may take to arrive.", minimum=100)
    first_request_ms: int = setting(10_000, "A connection that has sent no request by then is closed.", minimum=100)
    idle_ms: int = setting(75_000, "A kept-alive connection without a request is closed after this.", minimum=1000)
    wait_ms_max: int = setting(60_000, "Longest wait of one long poll.", minimum=0)
    access_log: bool = setting(False, "Log every request with its status, duration and id.")
    cors_origin: str = setting("", "Origin that browsers may call from; empty switches CORS off.")
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "Host names that a request may be for. Addresses, localhost and names of listeners always are. Without names "
        "here, others are refused on loopback only, so that no page in a browser reaches it by a name of its own.",
    )


@dataclass(frozen=True, slots=True)
class GrpcConfig:
    """The gRPC API."""

    reflection: bool = setting(
        False, "Let clients ask for the services and their protos.", env="GOQUEUE_GRPC_REFLECTION"
    )
    message_bytes_max: int = setting(
        16 * MIB, "Largest message that a client may send; a call with a larger one is refused.", minimum=1024
    )
    streams_per_connection_max: int = setting(
        1_000, "Calls and streams that one connection may have open; further ones wait.", minimum=1
    )
    calls_max: int = setting(10_000, "Calls and streams of all connections; one more is refused.", minimum=1)
    keepalive_ms: int = setting(30_000, "A quiet connection is asked for a sign of life this often.", minimum=1000)
    keepalive_timeout_ms: int = setting(10_000, "A connection that gives none in this time is closed.", minimum=100)
    client_ping_ms_min: int = setting(10_000, "A client that pings more often than this is disconnected.", minimum=0)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one node."""

    broker: BrokerConfig = BrokerConfig()
    listeners: ListenersConfig = ListenersConfig()
    tls: TlsConfig = TlsConfig()
    security: SecurityConfig = SecurityConfig()
    log: LogConfig = LogConfig()
    durability: DurabilityConfig = DurabilityConfig()
    limits: LimitsConfig = LimitsConfig()
    groups: GroupsConfig = GroupsConfig()
    transactions: TransactionsConfig = TransactionsConfig()
    delivery: DeliveryConfig = DeliveryConfig()
    delay: DelayConfig = DelayConfig()
    tracing: TracingConfig = TracingConfig()
    schemas: SchemasConfig = SchemasConfig()
    http: HttpConfig = HttpConfig()
    grpc: GrpcConfig = GrpcConfig()


def environment_name(section: str, name: str, metadata: Any) -> str:
    """The variable that sets a field: an old name where there is one, else by rule."""
    return str(metadata.get("env") or f"GOQUEUE_{section.upper()}_{name.upper()}")


def documented_settings() -> list[tuple[str, str, Any, str, str]]:
    """(section, name, default, environment variable, doc) of every setting, in order."""
    return [
        (
            section.name,
            one.name,
            one.default,
            environment_name(section.name, one.name, one.metadata),
            one.metadata["doc"],
        )
        for section in fields(Config)
        for one in fields(section.default)  # type: ignore[arg-type]
    ]
