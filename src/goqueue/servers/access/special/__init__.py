"""Calls whose check is more than a name: lists that leave out what a caller may not see, and answers per item.

Each function takes the real method and the caller's guard and returns the method that the caller gets. `rules` names
them by `special.<function>`, whichever file here holds it.
"""

from __future__ import annotations

from goqueue.servers.access.special.groups import (
    committed,
    fetched_offsets,
    group_progress,
    listed_groups,
    polled,
    rebalances,
    reset_offsets,
)
from goqueue.servers.access.special.inspection import altered_scope, found_traces, one_trace, recent_traces
from goqueue.servers.access.special.producing import (
    added_partitions,
    admitted,
    allocated_id,
    joined,
    listed_transactions,
    listed_writers,
)
from goqueue.servers.access.special.queues import (
    deleted_schedule,
    figures_of,
    listed_schedules,
    one_schedule,
    redriven,
    topics_of_receipts,
    topics_of_settlements,
)
from goqueue.servers.access.special.topics import (
    created_topic,
    ensured_topic,
    fetched,
    fetched_now,
    listed_topics,
    topic_by_id,
)

__all__ = [
    "added_partitions",
    "admitted",
    "allocated_id",
    "altered_scope",
    "committed",
    "created_topic",
    "deleted_schedule",
    "ensured_topic",
    "fetched",
    "fetched_now",
    "fetched_offsets",
    "figures_of",
    "found_traces",
    "group_progress",
    "joined",
    "listed_groups",
    "listed_schedules",
    "listed_topics",
    "listed_transactions",
    "listed_writers",
    "one_schedule",
    "one_trace",
    "polled",
    "rebalances",
    "recent_traces",
    "redriven",
    "reset_offsets",
    "topic_by_id",
    "topics_of_receipts",
    "topics_of_settlements",
]
