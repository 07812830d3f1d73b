"""Keys: the name of every piece of metadata that has a revision of its own.

Guards name what they compare by these keys, in every engine. The engine over a key-value store
keeps the values under exactly these keys, below one prefix of the cluster; the embedded engine
keeps only the revisions by them.
"""

from __future__ import annotations

from uuid import UUID

TOPICS = "/t/"
SETTINGS = "/s/"
PARTITIONS = "/p/"
DELETIONS = "/d/"
FEATURES = "/f/"
SECURITY = "/x/"
SCHEDULES = "/r/"
GROUP_SETTINGS = "/g/"
NODES = "/n/"
SESSIONS = "/b/"
CONTROLLER = "/ctl"
GENERATION = "/generation"
CLUSTER = "/cluster"
PRODUCER_IDS = "/producer-ids"
BROKER_DEFAULTS = "/broker-defaults"


def topic_key(name: str) -> str:
    """A topic: its id, its partition count and what never changes."""
    return f"{TOPICS}{name}"


def settings_key(topic_id: UUID) -> str:
    """The settings of a topic."""
    return f"{SETTINGS}{topic_id}"


def partition_key(topic_id: UUID, partition: int) -> str:
    """The assignment of one partition. Its revision is the partition epoch."""
    return f"{PARTITIONS}{topic_id}-{partition}"


def partitions_of(topic_id: UUID) -> str:
    """What the keys of all partitions of a topic begin with."""
    return f"{PARTITIONS}{topic_id}-"


def deletion_key(topic_id: UUID) -> str:
    """A deleted topic whose files may still be there."""
    return f"{DELETIONS}{topic_id}"


def feature_key(name: str) -> str:
    """The finalised level of a feature."""
    return f"{FEATURES}{name}"


def schedule_key(name: str) -> str:
    """The home of a recurring message."""
    return f"{SCHEDULES}{name}"


def group_settings_key(group: str) -> str:
    """What was set for a group."""
    return f"{GROUP_SETTINGS}{group}"


def security_key(kind: str, name: str) -> str:
    """A user, key, role, binding or access rule. A kind has no slash."""
    return f"{SECURITY}{kind}/{name}"


def node_key(node_id: int) -> str:
    """A node as it registered, for good."""
    return f"{NODES}{node_id}"


def session_key(node_id: int) -> str:
    """The session of a node. The revision at which it was created makes the broker epoch."""
    return f"{SESSIONS}{node_id}"


def parse_security_key(key: str) -> tuple[str, str]:
    """Kind and name of such a key."""
    kind, _, name = key.removeprefix(SECURITY).partition("/")
    return kind, name


def parse_partition_key(key: str) -> tuple[UUID, int]:
    """Topic id and number of a partition; raises ValueError for any other key."""
    if not key.startswith(PARTITIONS):
        raise ValueError(f"{key!r} does not name a partition")
    topic_id, _, partition = key.removeprefix(PARTITIONS).rpartition("-")
    return UUID(topic_id), int(partition)
