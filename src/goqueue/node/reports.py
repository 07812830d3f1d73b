"""What the features' background work tells the operator: it did not succeed, and will be tried again.

The features know no log: `assemble` hands them these.
"""

from __future__ import annotations

import logging

from goqueue.caller import INTERNAL, Caller
from goqueue.delivery.records import QueueId
from goqueue.metadata.events import Event, PartitionsAdded, TopicConfigChanged, TopicCreated, TopicDeleted
from goqueue.records import TopicPartition

_log = logging.getLogger("goqueue.node")


def report_shard(coordinator: str, partition: int, reason: BaseException) -> None:
    """A coordinator lost a shard."""
    _log.error("shard %d of the %s coordinator was dropped and will be read again: %s", partition, coordinator, reason)


def report_marker(transactional_id: str, place: TopicPartition | None, reason: BaseException) -> None:
    """A decided transaction is not everywhere yet."""
    _log.warning("transaction of %r is not ended in %s yet, and will be: %s", transactional_id, place, reason)


def report_dead_letters(queue_id: QueueId, reason: BaseException) -> None:
    """Failed messages stay where they are for now."""
    _log.warning(
        "dead letters of group %r in partition %d are not moved yet, and will be: %s",
        queue_id.group,
        queue_id.partition,
        reason,
    )


def report_topic_change(caller: Caller, event: Event) -> None:
    """A topic was created, changed or deleted; what the broker does for itself is not told."""
    what = _TOPIC_CHANGES.get(type(event))
    if what is not None and caller.principal != INTERNAL.principal:
        name = event.topic.name if isinstance(event, TopicCreated) else getattr(event, "name", "")
        _log.info("topic %r was %s by %s at %s", name, what, caller.principal, caller.address or "an unknown address")


_TOPIC_CHANGES = {
    TopicCreated: "created",
    TopicDeleted: "deleted",
    PartitionsAdded: "given more partitions",
    TopicConfigChanged: "altered",
}


def report_stories(what: str, reason: BaseException) -> None:
    """Stories are incomplete for a while; messages are not concerned."""
    _log.warning("stories: %s: %s", what, reason)


def report_exporter(name: str, reason: BaseException) -> None:
    """An exporter could not send spans."""
    _log.warning("the %s exporter dropped spans: %s", name, reason)


def report_delay(what: str, reason: BaseException) -> None:
    """Held-back messages are kept waiting."""
    _log.warning("%s, and will be tried again: %s", what, reason)
