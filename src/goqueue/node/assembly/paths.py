"""Paths: the way in that every batch takes, and the ways in which records are read."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.broker.answer_budget import AnswerBudget
from goqueue.broker.deduplication import Deduplication
from goqueue.broker.disk_guard import DiskGuard
from goqueue.broker.fetch import FetchService
from goqueue.broker.queries import PartitionQueries
from goqueue.broker.record_reads import RecordReader
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
    reads: RecordReader


async def open_paths(tools: Tools, storage: Storage, stories: Stories) -> Paths:
    """Ready to be used once the features are there."""
    config, files, clock, offload = tools.config, tools.world.files, tools.clock, tools.work_offload
    partitions, metadata = storage.partitions, storage.metadata
    deduplication = Deduplication(ids_max=config.limits.deduplication_ids_max)
    await deduplication.load(metadata.image, partitions, offload, clock.now_ms())
    metadata.subscribe(deduplication.on_delta)
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
    return Paths(
        WayIn(partitions, clock, guard, open_transactions, deduplication, hooks=[hooks.appended]),
        open_transactions,
        answers,
        fetch,
        PartitionQueries(partitions, metadata, files=files, data_dir=tools.world.data_dir, on_removed=hooks.removed),
        RecordReader(fetch, partitions, offload=offload, answers=answers),
    )
