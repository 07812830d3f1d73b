"""The list of all handlers: what is in `MODULES` is advertised, and what is advertised works.

`PRIVATE` ones are our own, with keys from 10000 on: only a client that knows us asks for them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from goqueue.servers.kafka.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_share_group_offsets,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    decide_prepared,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    open_participant,
    produce,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.servers.kafka.api import Handler

# In the order of their keys.
MODULES: tuple[Handler, ...] = cast(
    "tuple[Handler, ...]",
    (
        produce,
        fetch,
        list_offsets,
        metadata,
        offset_commit,
        offset_fetch,
        find_coordinator,
        join_group,
        heartbeat,
        leave_group,
        sync_group,
        describe_groups,
        list_groups,
        sasl_handshake,
        api_versions,
        create_topics,
        delete_topics,
        delete_records,
        init_producer_id,
        offset_for_leader_epoch,
        add_partitions_to_txn,
        add_offsets_to_txn,
        end_txn,
        write_txn_markers,
        txn_offset_commit,
        describe_configs,
        alter_configs,
        describe_log_dirs,
        sasl_authenticate,
        create_partitions,
        delete_groups,
        incremental_alter_configs,
        offset_delete,
        describe_cluster,
        describe_producers,
        describe_transactions,
        list_transactions,
        consumer_group_heartbeat,
        consumer_group_describe,
        list_config_resources,
        describe_topic_partitions,
        share_group_heartbeat,
        share_group_describe,
        share_fetch,
        share_acknowledge,
        describe_share_group_offsets,
        alter_share_group_offsets,
        delete_share_group_offsets,
    ),
)

PRIVATE: tuple[Handler, ...] = cast("tuple[Handler, ...]", (open_participant, decide_prepared))

HANDLERS: Mapping[int, Handler] = MappingProxyType({module.API.key: module for module in (*MODULES, *PRIVATE)})
