"""What the features' background work tells the operator: it did not succeed, and will be tried again.

The features know no log: `assemble` hands them these.
"""

from __future__ import annotations

import logging

from goqueue.caller import INTERNAL, Caller
from goqueue.cluster.cluster_events import ClusterEvent
from goqueue.delivery.state.records import QueueId
from goqueue.errors import NotLeader
from goqueue.metadata.events import Event, PartitionsAdded, TopicConfigChanged, TopicCreated, TopicDeleted
from goqueue.records import TopicPartition

_log = logging.getLogger("goqueue.node")


def report_shard(coordinator: str, shard: object, reason: BaseException) -> None:
    """A coordinator lost a shard."""
    if isinstance(reason, NotLeader):
        # Leadership moves in every failover and every clean stop, fifty shards at once: nothing is wrong here.
        _log.debug("shard %s of the %s coordinator is led elsewhere now: %s", shard, coordinator, reason)
        return
    _log.error("shard %s of the %s coordinator was dropped and will be read again: %s", shard, coordinator, reason)


def report_marker(transactional_id: str, place: TopicPartition | None, reason: BaseException) -> None:
    """A decided transaction is not everywhere yet."""
    _log.warning("transaction of %r is not ended in %s yet, retrying: %s", transactional_id, place, reason)


def report_dead_letters(queue_id: QueueId, reason: BaseException) -> None:
    """Failed messages stay where they are for now."""
    _log.warning(
        "dead letters of group %r in partition %d are not moved yet, retrying: %s",
        queue_id.group,
        queue_id.partition,
        reason,
    )


def report_cluster_event(event: ClusterEvent) -> None:
    """Something happened to a node, the controller or the leader of a partition."""
    level = _LEVELS.get(event.kind)
    if level is not None:
        detail = f": {event.detail}" if event.detail else ""
        _log.log(level, "cluster: %s, node %d%s", event.kind, event.node_id, detail)
    elif event.kind == "RecordsLost":
        _log.error("cluster: %s-%d: %s", event.topic, event.partition, event.detail)
    elif event.kind == "UncleanLeaderElected":
        _log.error("cluster: node %d leads %s-%d: %s", event.node_id, event.topic, event.partition, event.detail)


# What happens to nodes and the controller. Leaders change by the thousand: the events and the metrics have them.
_LEVELS = {
    "BootstrapStarted": logging.INFO,
    "BootstrapComplete": logging.INFO,
    "BootstrapFailed": logging.ERROR,
    "JoinedCluster": logging.INFO,
    "LeftCluster": logging.INFO,
    "QuorumLost": logging.ERROR,
    "QuorumRestored": logging.WARNING,
    "NodeJoined": logging.INFO,
    "NodeLeft": logging.WARNING,
    "NodeDied": logging.WARNING,
    "NodeSuspect": logging.INFO,
    "NodeRecovered": logging.WARNING,
    "NodeRemoved": logging.WARNING,
    "ControllerChanged": logging.INFO,
    "BecameController": logging.WARNING,
    "LostController": logging.WARNING,
}


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
    _log.warning("%s, retrying: %s", what, reason)
