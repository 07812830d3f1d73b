"""Whether an assignment that was made on this side still covers the topics of its group.

Kafka's clients watch the metadata themselves and join again when a topic changes. Members of eager
groups over HTTP see no metadata, so their coordinator compares for them.
"""

from __future__ import annotations

from goqueue.groups.classic.client_metadata import assigned_partitions
from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.subscription.topic_partitions import TopicCatalog
from goqueue.records import TopicPartition


def covers_topics(group: ClassicGroup, catalog: TopicCatalog) -> bool:
    """Whether the members own exactly the partitions that their topics have now."""
    wanted: set[TopicPartition] = set()
    for name in group.subscribed_topics() or ():
        if (shape := catalog.shape(name)) is not None:
            wanted.update(TopicPartition(name, partition) for partition in range(shape.partitions))
    owned = frozenset[TopicPartition]().union(*(assigned_partitions(one.assignment) for one in group.members.values()))
    return owned == wanted
