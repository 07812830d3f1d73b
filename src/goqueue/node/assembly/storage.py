"""Storage: the data directory with its metadata, the partitions, and their way to the disk."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.arrivals.producer_ids import ProducerIds
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.codec.batch_decode import RECORDS_BYTES_MAX
from goqueue.handles import open_files_max
from goqueue.metadata.directory import DataDirectory
from goqueue.metadata.local import LocalMetadata
from goqueue.metadata.store import MetadataStore
from goqueue.node.assembly.registered import this_node
from goqueue.node.assembly.tools import Tools
from goqueue.node.cluster.belonging import refuse_clustered
from goqueue.node.config.cluster_settings import is_clustered
from goqueue.node.disk.flusher import Flusher
from goqueue.node.disk.write_failures import WriteFailures
from goqueue.node.listeners.claims import check_node_id
from goqueue.node.reports import report_topic_change

if TYPE_CHECKING:
    from goqueue.cluster.replication.terms import Terms
    from goqueue.node.assembly.cluster import Cluster
    from goqueue.node.assembly.replication import Replicas

_log = logging.getLogger("goqueue.node")


class Storage(NamedTuple):
    """What is stored, and who brings it to the disk."""

    metadata: MetadataStore
    partitions: Partitions
    topics: TopicService
    producer_ids: ProducerIds
    flusher: Flusher
    write_failures: WriteFailures
    directory: DataDirectory
    # None: this node is on its own.
    cluster: Cluster | None = None
    replicas: Replicas | None = None


async def open_storage(tools: Tools) -> Storage:
    """Open the directory if it is this node's; no partition is opened yet."""
    config, files, clock, stack = tools.config, tools.world.files, tools.clock, tools.stack
    write_failures = WriteFailures(
        files, clock=clock, offload=tools.work_offload, free_bytes_min=config.durability.disk_free_bytes_min
    )
    write_failures.start()
    stack.push_async_callback(write_failures.close)
    directory = DataDirectory(files)
    # Left last: a stop is clean when all that is opened from here on was closed in order.
    stack.push(directory.leave)
    cluster: Cluster | None = None
    metadata: MetadataStore
    if tools.kv is not None or is_clustered(config):
        # Not above: a node on its own does not wait for what it does not use.
        from goqueue.node.assembly.cluster import open_cluster

        cluster = await open_cluster(tools, directory)
        metadata = cluster.metadata
    else:
        metadata = _open_metadata(tools, directory, write_failures)
    flusher = Flusher(files, tools.sync_offload, config.durability)
    terms: Terms | None = None
    if cluster is not None:
        from goqueue.node.assembly.replication import make_terms, open_replicas

        terms = make_terms(tools, cluster, flusher)
    partitions = Partitions(
        node_id=config.broker.node_id,
        make_lock=Lock,
        files=files,
        metadata=metadata,
        syncer=flusher,
        offload=tools.work_offload,
        clock=clock,
        log_config=replace(config.log, open_files_max=open_files_max(config.log.open_files_max)),
        # No client could have sent a larger batch without compression.
        unpacked_bytes_max=max(config.limits.request_bytes_max, RECORDS_BYTES_MAX),
        observer=write_failures,
        writers=None if terms is None else terms.writer,
    )
    stack.push_async_callback(_close_partitions, partitions, directory)
    # Closed before the partitions: one round for all of them, and nothing is left for each to sync.
    stack.push_async_callback(flusher.close)
    # After a restore of the metadata, topics that the backup did not know are unknown without having been deleted.
    is_known = cluster is not None and cluster.metadata.generation == 0
    await partitions.start(remove_unknown=is_known, remove_left=cluster is not None)
    replicas: Replicas | None = None
    if cluster is not None and terms is not None:
        replicas = await open_replicas(tools, cluster, terms, partitions, flusher)
    topics = TopicService(
        metadata,
        partitions,
        broker=config.broker,
        log=config.log,
        delivery=config.delivery,
        clock=clock,
        rng=tools.rng,
        on_change=[report_topic_change],
        assigning=None if cluster is None else cluster.placement,
    )
    producer_ids = ProducerIds(metadata)
    return Storage(metadata, partitions, topics, producer_ids, flusher, write_failures, directory, cluster, replicas)


def _open_metadata(tools: Tools, directory: DataDirectory, observer: WriteFailures) -> LocalMetadata:
    """The metadata in this directory, if it is this node's; it then leads every partition."""
    world, stack, node_id = tools.world, tools.stack, tools.config.broker.node_id
    refuse_clustered(world.files, data_dir=world.data_dir)
    metadata = LocalMetadata.open(
        world.files,
        clock=tools.clock,
        rng=tools.rng,
        offload=tools.sync_offload,
        was_clean=directory.was_clean,
        observer=observer,
        check=partial(check_node_id, node_id=node_id, data_dir=world.data_dir),
    )
    stack.push_async_callback(metadata.close)
    taken = metadata.take_leadership(node_id)
    if taken:
        # Earlier versions started with any node id, and so left topics that no running node led.
        _log.warning("node %d takes over %d topics of another node id: %s", node_id, len(taken), ", ".join(taken[:20]))
    start = directory.begin(tools.rng)
    metadata.be_alone(this_node(tools, start.directory_id))
    if metadata.owes_epochs:
        directory.spoil()
    return metadata


async def _close_partitions(partitions: Partitions, directory: DataDirectory) -> None:
    if any(log.poisoned for log in partitions.open_logs()):
        # What could not be synced may be gone at the next start, although nothing crashed.
        directory.spoil()
    for place, error in await partitions.close():
        directory.spoil()
        _log.error("partition %s was not closed in order and will be recovered at the next start: %s", place, error)
