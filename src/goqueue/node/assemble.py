"""The composition root: the only place that knows all the parts and puts them together.

Read from top to bottom it is the order of the start; the stack closes in the reverse.
"""

from __future__ import annotations

import logging
import os
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from random import SystemRandom

from goqueue.broker.answer_budget import AnswerBudget
from goqueue.broker.broker_defaults import BrokerDefaults
from goqueue.broker.deduplication import Deduplication
from goqueue.broker.disk_guard import DiskGuard
from goqueue.broker.fetch import FetchService
from goqueue.broker.partitions import Partitions
from goqueue.broker.producer_ids import ProducerIds
from goqueue.broker.queries import PartitionQueries
from goqueue.broker.record_reads import RecordReader
from goqueue.broker.topics import TopicService
from goqueue.build_info import build_info
from goqueue.clock import Clock, Rng
from goqueue.codec.batch_decode import RECORDS_BYTES_MAX
from goqueue.config import Config
from goqueue.delay.feature import feature as delay_feature
from goqueue.delay.headers import HeaderDelay
from goqueue.delay.schedules import ScheduleService
from goqueue.delay.shards import DELAYED
from goqueue.delay.staging import Staging
from goqueue.delivery.dead_letters.redrive import Redrives
from goqueue.delivery.feature import feature as delivery_feature
from goqueue.delivery.lane_reads import LaneReader
from goqueue.delivery.shards import DELIVERY_STATE
from goqueue.delivery.values import GroupSettings, Start
from goqueue.groups.classic.eager import EagerGroups
from goqueue.groups.feature import feature as group_feature
from goqueue.groups.offsets.progress import GroupProgress
from goqueue.groups.polls import GroupPolls
from goqueue.groups.queue.settings import Mode
from goqueue.groups.service import CONSUMER_OFFSETS
from goqueue.handles import open_files_max
from goqueue.metadata.directory import DataDirectory
from goqueue.metadata.local import LocalMetadata
from goqueue.node.claims import check_node_id
from goqueue.node.disk.flusher import Flusher
from goqueue.node.disk.housekeeping import Housekeeping
from goqueue.node.disk.offload import ThreadOffload
from goqueue.node.disk.write_failures import WriteFailures
from goqueue.node.health import HealthChecks
from goqueue.node.listening import CannotListen
from goqueue.node.metrics.metrics_page import MetricsPage, Storage
from goqueue.node.node import Node, Running
from goqueue.node.reports import report_dead_letters, report_delay, report_marker, report_shard, report_topic_change
from goqueue.node.system_clock import SystemClock
from goqueue.node.ways_in import WayIn
from goqueue.node.world import World, given_world, real_world
from goqueue.ports import Files, Offload
from goqueue.servers.http.server import HttpServer
from goqueue.servers.kafka.server import KafkaServer
from goqueue.servers.request_times import RequestTimes
from goqueue.servers.services import NodeIdentity, Services
from goqueue.transactions.feature import feature as transaction_feature
from goqueue.transactions.open_transactions import OpenTransactions

_log = logging.getLogger("goqueue.node")

# Syncs have threads of their own: a cold read must not stand in a producer's way to the disk.
SYNC_THREADS = 8
WORK_THREADS = 4


def assemble(
    config: Config,
    *,
    files: Files | None = None,
    clock: Clock | None = None,
    rng: Rng | None = None,
    offload: Offload | None = None,
) -> Node:
    """A node, not yet started. With `files` it runs on those, in the caller's loop, and listens nowhere."""

    async def wire(stack: AsyncExitStack) -> Running:
        world = real_world(config, stack) if files is None else given_world(config, files, stack)
        return await _wire(
            config,
            world,
            stack,
            clock=clock or SystemClock(),
            rng=rng or SystemRandom(),
            sync_offload=offload or _threads("sync", SYNC_THREADS, stack),
            work_offload=offload or _threads("work", WORK_THREADS, stack),
        )

    return Node(wire)


async def _wire(
    config: Config,
    world: World,
    stack: AsyncExitStack,
    *,
    clock: Clock,
    rng: Rng,
    sync_offload: Offload,
    work_offload: Offload,
) -> Running:
    files = world.files
    write_failures = WriteFailures(
        files, clock=clock, offload=work_offload, free_bytes_min=config.durability.disk_free_bytes_min
    )
    write_failures.start()
    stack.push_async_callback(write_failures.close)
    directory, metadata = _open_metadata(
        config, world, stack, clock=clock, rng=rng, offload=sync_offload, observer=write_failures
    )

    flusher = Flusher(files, sync_offload, config.durability)
    partitions = Partitions(
        node_id=config.broker.node_id,
        files=files,
        metadata=metadata,
        syncer=flusher,
        offload=work_offload,
        clock=clock,
        log_config=replace(config.log, open_files_max=open_files_max(config.log.open_files_max)),
        # No client could have sent a larger batch without compression.
        unpacked_bytes_max=max(config.limits.request_bytes_max, RECORDS_BYTES_MAX),
        observer=write_failures,
    )
    stack.push_async_callback(_close_partitions, partitions, directory)
    # Closed before the partitions: one round for all of them, and nothing is left for each to sync.
    stack.push_async_callback(flusher.close)
    await partitions.start()

    topics = TopicService(
        metadata,
        partitions,
        broker=config.broker,
        log=config.log,
        delivery=config.delivery,
        clock=clock,
        rng=rng,
        on_change=[report_topic_change],
    )
    deduplication = Deduplication(ids_max=config.limits.deduplication_ids_max)
    await deduplication.load(metadata.image, partitions, work_offload, clock.now_ms())
    metadata.subscribe(deduplication.on_delta)
    open_transactions = OpenTransactions()
    way_in = WayIn(
        partitions,
        clock,
        DiskGuard(files, free_bytes_min=config.durability.disk_free_bytes_min, observer=write_failures),
        open_transactions,
        deduplication,
        hooks=[],
    )
    own_batches = way_in.through()
    answers = AnswerBudget(
        config.limits.answer_bytes_max,
        unread_ms_max=config.limits.unread_answer_ms_max,
        wait_ms_max=config.limits.answer_wait_ms_max,
    )
    fetch = FetchService(partitions, offload=work_offload, limits=config.limits, answers=answers)
    queries = PartitionQueries(partitions, metadata, files=files, data_dir=world.data_dir)
    reads = RecordReader(fetch, partitions, offload=work_offload, answers=answers)
    groups = group_feature(
        config=config.groups,
        topics=topics,
        partitions=partitions,
        files=files,
        offload=work_offload,
        clock=clock,
        rng=rng,
        subscribe=metadata.subscribe,
        check_transaction=open_transactions.check_of(CONSUMER_OFFSETS),
        on_failure=partial(report_shard, "group"),
    )
    stack.push_async_callback(groups.close)
    producer_ids = ProducerIds(metadata)

    async def group_settings(group: str) -> GroupSettings:
        settings = await groups.ensure_queue(group)
        wishes = {**settings.policy, "key_ordered": settings.key_ordered}
        return GroupSettings(wishes, Start(settings.start or Start.EARLIEST))

    delivery = delivery_feature(
        config=config.delivery,
        topics=topics,
        partitions=partitions,
        publish=own_batches,
        producer_ids=producer_ids,
        group_settings=group_settings,
        subscribe=metadata.subscribe,
        files=files,
        offload=work_offload,
        clock=clock,
        rng=rng,
        on_failure=partial(report_shard, "delivery"),
        check_transaction=open_transactions.check_of(DELIVERY_STATE),
        on_dead_letter_failure=report_dead_letters,
    )
    stack.push_async_callback(delivery.close)
    groups.attach(delivery, delivery.positions)
    delay = delay_feature(
        config=config.delay,
        topics=topics,
        partitions=partitions,
        publish=own_batches,
        producer_ids=producer_ids,
        files=files,
        index_root=world.index_root,
        offload=work_offload,
        clock=clock,
        on_trouble=report_delay,
    )
    stack.push_async_callback(delay.close)
    staging = Staging(delay, open_transactions.check_of(DELAYED))
    publish = way_in.through(
        HeaderDelay(delay, staging),
    )
    transactions = await transaction_feature(
        catch_up=metadata.catch_up,
        config=config.transactions,
        open_transactions=open_transactions,
        topics=topics,
        partitions=partitions,
        producer_ids=producer_ids,
        group_place=groups.place_of,
        # Whoever may send delayed records may do so at once: the partition that holds them takes part beforehand.
        companion_of=lambda place: staging.place_of(place.topic) if topics.config(place.topic).delay_headers else None,
        enders={
            CONSUMER_OFFSETS: groups.end_transaction,
            DELIVERY_STATE: delivery.end_transaction,
            DELAYED: staging.end_transaction,
        },
        files=files,
        offload=work_offload,
        clock=clock,
        on_failure=partial(report_shard, "transaction"),
        on_retry=report_marker,
    )
    stack.push_async_callback(transactions.close)

    async def is_queue_group(group: str) -> bool:
        return await groups.mode(group) is Mode.QUEUE

    redrives = Redrives(delivery, topics, queries, publish, transactions, is_queue_group, clock)
    stack.push_async_callback(redrives.close)
    housekeeping = Housekeeping(
        partitions, clock=clock, offload=work_offload, log=config.log, durability=config.durability
    )
    housekeeping.start()
    stack.push_async_callback(housekeeping.close)
    request_times = RequestTimes()
    metrics = MetricsPage(
        topics=topics,
        partitions=partitions,
        groups=groups,
        transactions=transactions,
        delivery=delivery,
        delay=delay,
        storage=Storage(topics, partitions, flusher.stats, housekeeping.stats, files.free_bytes, write_failures),
        request_times=request_times,
    )
    health = HealthChecks(files, metadata, partitions, config.durability, write_failures, delay)
    build = build_info()
    services = Services(
        identity=NodeIdentity(
            node_id=config.broker.node_id,
            cluster_id=metadata.cluster_id,
            version=build.version,
            commit=build.commit,
            built=build.built,
            kafka_host=world.advertised.host,
            kafka_port=world.advertised.port,
            started_ms=clock.now_ms(),
        ),
        config=config,
        clock=clock,
        topics=topics,
        defaults=BrokerDefaults(metadata),
        publish=publish,
        fetch=fetch,
        answers=answers,
        queries=queries,
        reads=reads,
        lane_reads=LaneReader(reads, partitions, offload=work_offload, answers=answers),
        producer_ids=producer_ids,
        transactions=transactions,
        delay=delay,
        staging=staging,
        schedules=ScheduleService(delay, topics, config=config.delay, clock=clock),
        groups=groups,
        delivery=delivery,
        redrives=redrives,
        eager_groups=EagerGroups(groups, topics),
        group_polls=GroupPolls(groups, topics, queries, reads, clock),
        group_progress=GroupProgress(groups, topics, queries, reads, clock),
        checks=health,
        metrics=metrics,
        request_times=request_times,
    )
    await _serve(world, services, metrics, stack)
    health.serving = True
    stack.callback(setattr, health, "serving", False)
    return Running(services, world.data_dir, world.kafka, world.http)


def _open_metadata(
    config: Config,
    world: World,
    stack: AsyncExitStack,
    *,
    clock: Clock,
    rng: Rng,
    offload: Offload,
    observer: WriteFailures,
) -> tuple[DataDirectory, LocalMetadata]:
    """The metadata in this directory, if it is this node's; it then leads every partition."""
    directory = DataDirectory(world.files)
    # Left last: a stop is clean when all that is opened from here on was closed in order.
    stack.push(directory.leave)
    node_id = config.broker.node_id
    metadata = LocalMetadata.open(
        world.files,
        clock=clock,
        rng=rng,
        offload=offload,
        was_clean=directory.was_clean,
        observer=observer,
        check=partial(check_node_id, node_id=node_id, data_dir=world.data_dir),
    )
    stack.push_async_callback(metadata.close)
    taken = metadata.take_leadership(node_id)
    if taken:
        # Earlier versions started with any node id, and so left topics that no running node led.
        _log.warning("node %d takes over %d topics of another node id: %s", node_id, len(taken), ", ".join(taken[:20]))
    directory.begin(rng)
    if metadata.owes_epochs:
        directory.spoil()
    return directory, metadata


async def _serve(world: World, services: Services, metrics: MetricsPage, stack: AsyncExitStack) -> None:
    """Accept clients, now that everything behind the front-ends is there."""
    if world.listeners is None:
        return
    kafka_listener, http_listener = world.listeners
    kafka = KafkaServer(services, kafka_listener.socket)
    metrics.connections = lambda: kafka.connection_count
    http = HttpServer(services, http_listener.socket)
    for server, address in ((kafka, world.kafka), (http, world.http)):
        try:
            await server.start()
        except OSError as error:
            # Two processes may bind one address at the same moment; only one of them gets to listen.
            raise CannotListen(f"cannot listen on {address}: {os.strerror(error.errno or 0)}") from error
        stack.push_async_callback(server.stop)


def _threads(name: str, threads_max: int, stack: AsyncExitStack) -> ThreadOffload:
    threads = ThreadOffload(name, threads_max=threads_max)
    stack.callback(threads.close)
    return threads


async def _close_partitions(partitions: Partitions, directory: DataDirectory) -> None:
    if any(place.log.poisoned for place in partitions.all_open()):
        # What could not be synced may be gone at the next start, although nothing crashed.
        directory.spoil()
    for place, error in await partitions.close():
        directory.spoil()
        _log.error("partition %s was not closed in order and will be recovered at the next start: %s", place, error)
