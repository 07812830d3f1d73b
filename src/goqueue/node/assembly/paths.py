"""Paths: the way in that every batch takes, and the ways in which records are read."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.anywhere.asking import Asking
from goqueue.broker.arrivals.deduplication.following import WindowFeed
from goqueue.broker.arrivals.deduplication.windows import Deduplication
from goqueue.broker.arrivals.disk_guard import DiskGuard
from goqueue.broker.reading.answer_budget import AnswerBudget
from goqueue.broker.reading.fetch import FetchService
from goqueue.broker.reading.queries import PartitionQueries
from goqueue.broker.reading.record_reads import ReadsRecords, RecordReader
from goqueue.broker.replicas.partition_facts import LocalFacts, PartitionFacts
from goqueue.delivery.lanes.lane_reads import LaneReader
from goqueue.node.assembly.anywhere import reading_anywhere
from goqueue.node.assembly.storage import Storage
from goqueue.node.assembly.tools import Tools
from goqueue.node.stories.wiring import Stories
from goqueue.node.ways_in import WayIn
from goqueue.transactions.open_transactions import OpenTransactions


class Paths(NamedTuple):
    """In and out of the partitions."""

    way_in: WayIn
    open_transactions: OpenTransactions
    answers: AnswerBudget
    fetch: FetchService
    queries: PartitionQueries
    facts: PartitionFacts
    reads: ReadsRecords
    lane_reads: LaneReader


async def open_paths(tools: Tools, storage: Storage, stories: Stories, asking: Asking | None) -> Paths:
    """Ready to be used once the features are there."""
    config, files, clock, offload = tools.config, tools.world.files, tools.clock, tools.work_offload
    partitions, metadata = storage.partitions, storage.metadata
    deduplication = Deduplication(offload, ids_max=config.limits.deduplication_ids_max)
    await deduplication.load(metadata.image, partitions, clock.now_ms())
    metadata.subscribe(deduplication.on_delta)
    if storage.cluster is not None:
        feed = WindowFeed(deduplication, partitions, clock)
        feed.start()
        tools.stack.push_async_callback(feed.close)
    free_bytes_min = config.durability.disk_free_bytes_min
    guard = DiskGuard(files, free_bytes_min=free_bytes_min, observer=storage.write_failures)
    open_transactions = OpenTransactions()
    answers = AnswerBudget(
        config.limits.answer_bytes_max,
        unread_ms_max=config.limits.unread_answer_ms_max,
        wait_ms_max=config.limits.answer_wait_ms_max,
    )
    hooks = stories.hooks
    fetch = FetchService(partitions, offload=offload, limits=config.limits, answers=answers, on_given=hooks.given)
    queries = PartitionQueries(
        partitions, metadata, files=files, data_dir=tools.world.data_dir, on_removed=hooks.removed
    )
    reads = RecordReader(fetch, partitions, offload=offload, answers=answers)
    facts_anywhere, reads_anywhere = reading_anywhere(asking, LocalFacts(queries), reads)
    return Paths(
        WayIn(partitions, clock, guard, open_transactions, deduplication, hooks=[hooks.appended]),
        open_transactions,
        answers,
        fetch,
        queries,
        facts_anywhere,
        reads_anywhere,
        LaneReader(reads, partitions, offload=offload, answers=answers),
    )
