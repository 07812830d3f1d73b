"""Settings of the node itself and of what it stores: directory, logs, durability, limits."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.config.declaring import MIB, setting


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
    default_partitions: int = setting(3, "Default number of partitions of a topic.", minimum=1, maximum=10_000)
    default_replication_factor: int = setting(1, "Default replication factor of a topic.", minimum=1)
    log_level: str = setting(
        "info", "Least severe events that are written to stderr.", choices=("debug", "info", "warning", "error")
    )


@dataclass(frozen=True, slots=True)
class LogConfig:
    """How partition logs are kept. Topics override what Kafka lets topics override."""

    segment_bytes: int = setting(64 * MIB, "A segment is sealed at this size.", minimum=1024)
    segment_ms: int = setting(7 * 24 * 3600 * 1000, "A segment is sealed at this age.", minimum=1)
    index_interval_bytes: int = setting(4096, "One index entry per this many bytes of log.", minimum=1)
    retention_ms: int = setting(7 * 24 * 3600 * 1000, "Age at which records are deleted; -1 keeps them.", minimum=-1)
    retention_bytes: int = setting(
        -1, "Size of a partition above which old segments are deleted; -1: no limit.", minimum=-1
    )
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
    tombstone_retention_ms: int = setting(24 * 3600 * 1000, "How long a tombstone is kept after compaction.", minimum=0)
    compaction_dirty_ratio: float = setting(
        0.5, "Share of uncompacted bytes that starts compaction.", minimum=0.0, maximum=1.0
    )


@dataclass(frozen=True, slots=True)
class DurabilityConfig:
    """When bytes must be on the disk and not only in its cache."""

    flush_interval_ms: int = setting(1000, "Longest time that acks=leader leaves bytes unsynced.", minimum=1)
    acks_all: str = setting(
        "synced",
        "What acks=all waits for in a cluster: until every in-sync replica has the bytes on its disk (synced), or has "
        "written them to its page cache (written). That is lost by a power cut of all of them, and by one of a replica "
        "that leads next because the others are gone.",
        choices=("synced", "written"),
    )
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
        1_000,
        "Maximum number of incremental fetch sessions; further consumers send all their partitions in each fetch.",
        minimum=0,
    )
    idle_connection_ms: int = setting(600_000, "Connections without a request for this long are closed.", minimum=1000)
    deduplication_ids_max: int = setting(
        1_000_000, "Deduplication ids remembered per partition; one more is refused. Some 250 bytes each.", minimum=1
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
