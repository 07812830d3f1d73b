"""Tests that are about one node by design, each with the reason. `GOQUEUE_TEST_NODES=3` leaves them out."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType

_FILES = "reads or damages the files of one node, and another one leads what they hold"
_PROCESS = "is about one process: its memory, its files, its exit code, its output"
_CONNECTION = "speaks Kafka's bytes over one connection, to which other nodes answer that they lead and coordinate"
_COUNTS = "reads the metrics of one node"
_SHOWN = "expects the answer of a node on its own: one broker, one replica"
_SOON = "asks another node at once for what it hears of a moment later, as in Apache Kafka"

# Beginnings of names: whole files, and single tests of others.
ONE_NODE: Mapping[str, str] = MappingProxyType(
    {
        "test_backup.py": _PROCESS,
        "test_cluster_failover.py": "starts a cluster of its own",
        "test_cluster_up.py": "starts a cluster of its own",
        "test_full_disk.py": _FILES,
        "test_groups_wire.py": _CONNECTION,
        "test_kafka_wire.py": _CONNECTION,
        "test_migration_kill.py": "migrates the directory of a node on its own",
        "test_open_files.py": _PROCESS,
        "test_server_process.py": _PROCESS,
        "test_unreadable.py": _FILES,
        "test_cli.py::test_a_topic_lives_and_dies_on_the_command_line": _SHOWN,
        "test_cli.py::test_the_cluster_is_shown": _SHOWN,
        "test_cli_manners.py::test_priorities_are_readable_in_80_columns": (
            "expects a queue in every partition: a receive makes them on the leaders that it asks"
        ),
        "test_delay_kafka.py::test_what_was_stored_before_a_kill_and_is_sent_again": _FILES,
        "test_kafka_durability.py::test_the_high_watermark_never_shows_more_than_can_be_read": (
            "expects what only the leader has acknowledged to be readable at once"
        ),
        "test_kafka_durability.py::test_a_consumer_goes_on_after_a_kill_in_the_new_leader_epoch": (
            "counts leader epochs: leadership goes to another node and comes back"
        ),
        "test_kafka_emptied_batches.py::*earlier": "reads the files of an earlier version, which was a node on its own",
        "test_kafka_scale.py::test_a_long_poll_waits_no_longer_than_it_was_told": _CONNECTION,
        "test_kafka_scale.py::test_a_topic_that_is_made_again_starts_clean": (
            "another node makes the deleted topic again when the test's producer asks it for metadata"
        ),
        "test_kafka_kcat.py::test_the_cluster_and_offsets_are_listed": _SHOWN,
        "test_lane_reads.py::test_an_unreadable_batch_is_passed_over_and_named_once": _FILES,
        "test_groups_admin.py::test_a_groups_own_session_is_obeyed_and_survives_a_kill": _CONNECTION,
        "test_kafka_bench.py::test_the_quick_run_measures_everything": "measures a node on its own",
        "test_schemas_validation.py::test_bad_records_are_quarantined_and_sent_on_when_the_schema_takes_them": _COUNTS,
        "test_schemas_http.py::test_kill_9_takes_a_worker_along": _PROCESS,
        "test_http_node.py::test_the_time_of_kafka_requests_is_in_the_metrics": _COUNTS,
        "test_http_node.py::test_every_series_that_is_declared_is_fed": _COUNTS,
        "test_http_topics.py::test_a_created_topic_is_described_with_its_settings": _SHOWN,
        "test_http_topics.py::test_settings_and_partitions_change_and_return_to_their_default": _SHOWN,
        "test_kafka_order.py::test_the_second_request_sees_what_the_first_did": _CONNECTION,
        "test_kafka_admin.py::test_topics_and_the_cluster_are_described": _SHOWN,
        "test_kafka_admin.py::test_what_cannot_be_created_says_why": _SHOWN,
        "test_kafka_admin.py::test_kafka_python_creates_grows_describes_and_deletes": _SOON,
        "test_stories.py::test_spans_reach_a_collector_and_files_and_failures_do_though_nothing_is_sampled": _PROCESS,
        "test_transactions_http.py::test_statistics_and_metrics_count_what_transactions_came_to": _COUNTS,
    }
)


def reason_to_leave_out(node_id: str) -> str | None:
    """Why a test is not run against three nodes; None if it is."""
    name = node_id.rpartition("/")[2]
    found = (reason for beginning, reason in ONE_NODE.items() if fnmatchcase(name, f"{beginning}*"))
    return next(found, None)
