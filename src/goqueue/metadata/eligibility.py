"""Which replicas outside the in-sync set still hold all that acks=all promised.

A replica becomes eligible when it leaves in the write that takes the in-sync set below the minimum: nothing has been
promised since. That ends when the set is back at the minimum, or when the minimum changes. Since the minimum is a
setting of the topic, a list that was written before the topic's settings last changed counts as empty. Whoever writes
an assignment takes the list from `eligible_of`, and guards the topic's settings if the list is not empty.
"""

from __future__ import annotations

from msgspec import structs

from goqueue.metadata.events import Assignment, Topic
from goqueue.metadata.features import METADATA_VERSION, MOVING_REPLICAS_LEVEL
from goqueue.metadata.image import Image
from goqueue.metadata.keys import settings_key

MIN_INSYNC = "min.insync.replicas"


def eligible_of(image: Image, topic: Topic, assignment: Assignment) -> tuple[int, ...]:
    """The eligible replicas of a partition that may be believed."""
    if assignment.eligible and image.revision_of(settings_key(topic.topic_id)) > assignment.partition_epoch:
        return ()
    return assignment.eligible


def storable(image: Image, assignment: Assignment) -> Assignment:
    """The assignment as the finalised level allows it: without eligible replicas while a node may not know them.

    Forgetting them is safe, only less available: the replica that leads next must then be an in-sync one.
    """
    if not assignment.eligible or image.feature_levels().get(METADATA_VERSION, 0) >= MOVING_REPLICAS_LEVEL:
        return assignment
    return structs.replace(assignment, eligible=())


def min_insync_of(topic: Topic, assignment: Assignment) -> int:
    """Below how many in-sync replicas those that leave become eligible; never more than there are replicas."""
    return min(min_insync_asked(topic), len(assignment.replicas))


def min_insync_asked(topic: Topic) -> int:
    """How many replicas must be in sync for acks=all. It is always refused where there are fewer replicas."""
    return int(topic.config.get(MIN_INSYNC, "1"))
