"""Feature levels: what may be written, now that every node of the cluster understands it.

A version knows each feature up to a level. A kind of value that is new with a level is written only
once that level is finalised, and a node that does not know a finalised level does not start. So an
older version never reads what it would misunderstand, and a downgrade is possible until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from goqueue.errors import UnsupportedFeatureLevel
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    BrokerDefaultsChanged,
    Event,
    FeatureFinalised,
    GroupSettingsChanged,
    Node,
    PartitionsAdded,
    ScheduleHomed,
    SecurityChanged,
    TopicCreated,
)

# 0: as ever. 1: assignments with replicas that are eligible, being added or being removed.
# 2: defaults of topic settings that are changed at run time. 3: settings of groups.
METADATA_VERSION = "metadata.version"
MOVING_REPLICAS_LEVEL = 1
BROKER_DEFAULTS_LEVEL = 2
GROUP_SETTINGS_LEVEL = 3

# 1: users, keys, roles, bindings and access rules.
SECURITY_VERSION = "security.version"
_SECURITY_VALUES = 1

# 1: recurring messages have a home partition; queues and delayed messages lie in logs of their partitions.
# A node on its own finalises it at its first start: an older version would not see these logs.
DELAY_VERSION = "delay.version"
SCHEDULE_HOMES_LEVEL = 1

KNOWN_LEVELS: Mapping[str, int] = MappingProxyType(
    {METADATA_VERSION: GROUP_SETTINGS_LEVEL, SECURITY_VERSION: _SECURITY_VALUES, DELAY_VERSION: SCHEDULE_HOMES_LEVEL}
)


def agreed_levels(metadata_level_max: int) -> dict[str, int]:
    """The levels that a node agrees to: all that this version knows, or with a limit (not -1) fewer."""
    levels = dict(KNOWN_LEVELS)
    if metadata_level_max >= 0:
        levels[METADATA_VERSION] = min(levels[METADATA_VERSION], metadata_level_max)
    return levels


def is_agreed(name: str, level: int, nodes: Iterable[Node]) -> bool:
    """Whether every registered node, living or not, agrees to a level."""
    return all(node.features.get(name, 0) >= level for node in nodes)


def check_allowed(event: Event, levels: Mapping[str, int]) -> None:
    """Raise `UnsupportedFeatureLevel` if the event needs a level that is unknown, or not finalised."""
    if isinstance(event, FeatureFinalised):
        known = KNOWN_LEVELS.get(event.name, 0)
        if event.level > known:
            raise UnsupportedFeatureLevel(
                f"feature {event.name!r} is finalised at level {event.level}, but this version knows level {known}",
                hint="use a version of GoQueue that knows the level",
            )
    elif isinstance(event, SecurityChanged):
        if levels.get(SECURITY_VERSION, 0) < _SECURITY_VALUES:
            raise UnsupportedFeatureLevel(
                f"users, keys and access rules are stored from level {_SECURITY_VALUES} of {SECURITY_VERSION!r} on",
                hint="finalise that level first, when every node runs this version",
            )
    elif isinstance(event, ScheduleHomed):
        if levels.get(DELAY_VERSION, 0) < SCHEDULE_HOMES_LEVEL:
            raise UnsupportedFeatureLevel(
                f"recurring messages have homes from level {SCHEDULE_HOMES_LEVEL} of {DELAY_VERSION!r} on",
                hint="finalise that level first, when every node runs this version",
            )
    elif levels.get(METADATA_VERSION, 0) < MOVING_REPLICAS_LEVEL and any(map(is_moving, distinct(_assignments(event)))):
        raise UnsupportedFeatureLevel(
            f"replicas can be eligible, added or removed from level {MOVING_REPLICAS_LEVEL} of {METADATA_VERSION!r} on",
            hint="finalise that level first, when every node runs this version",
        )
    elif isinstance(event, BrokerDefaultsChanged) and levels.get(METADATA_VERSION, 0) < BROKER_DEFAULTS_LEVEL:
        raise UnsupportedFeatureLevel(
            f"broker settings can be altered from level {BROKER_DEFAULTS_LEVEL} of {METADATA_VERSION!r} on",
            hint="finalise that level first, when every node runs this version",
        )
    elif isinstance(event, GroupSettingsChanged) and levels.get(METADATA_VERSION, 0) < GROUP_SETTINGS_LEVEL:
        raise UnsupportedFeatureLevel(
            f"settings of groups are metadata from level {GROUP_SETTINGS_LEVEL} of {METADATA_VERSION!r} on",
            hint="finalise that level first, when every node runs this version",
        )


def _assignments(event: Event) -> tuple[Assignment, ...]:
    if isinstance(event, AssignmentsChanged):
        return tuple(event.assignments.values())
    return event.assignments if isinstance(event, TopicCreated | PartitionsAdded) else ()


def distinct(assignments: Sequence[Assignment]) -> Sequence[Assignment]:
    """Each object once: thousands of partitions of a topic usually share one."""
    if assignments and assignments.count(assignments[0]) == len(assignments):
        # Counting what is one object takes no time, however many there are.
        return assignments[:1]
    return tuple({id(one): one for one in assignments}.values())


def is_moving(assignment: Assignment) -> bool:
    """Whether it has replicas that a version without the level would forget."""
    return bool(assignment.eligible or assignment.adding or assignment.removing)
