"""DeliveryPolicy: how a queue treats its messages. Node's settings < topic's options < the group's wishes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from goqueue.errors import InvalidRequest
from goqueue.ids import DEAD_LETTER_SUFFIX

if TYPE_CHECKING:
    from goqueue.config import DeliveryConfig
    from goqueue.metadata.settings.topic_config import TopicConfig

LANE_WEIGHTS = (50, 25, 15, 7, 3)

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """What one group gets on one topic."""

    visibility_ms: int = 30_000
    # Redeliveries after the first delivery; then the dead-letter topic.
    retries_max: int = 3
    backoff_ms: int = 1_000
    backoff_multiplier: float = 2.0
    backoff_ms_max: int = 60_000
    # Share of a back-off that chance may add: 0.2 makes 1 s to at most 1.2 s.
    backoff_jitter: float = 0.0
    # Messages that one consumer may hold, and that one group may have unsettled in one partition.
    in_flight_max: int = 1_000
    outstanding_max: int = 100_000
    key_ordered: bool = False
    dead_letters: bool = True
    # Messages older than this are not delivered any more; None: they never get too old.
    ttl_ms: int | None = None
    strict_priority: bool = False
    lane_weights: tuple[int, int, int, int, int] = LANE_WEIGHTS
    starvation_ms: int = 30_000


class Policies:
    """What groups get on topics: worked out once for the same settings, since every receive and every poll asks."""

    _KNOWN_MAX = 1_000

    def __init__(self, config: DeliveryConfig) -> None:
        self._node = node_policy(config)
        # By topic and wishes; good as long as the topic has the same settings.
        self._known: dict[tuple[str, tuple[tuple[str, Any], ...]], tuple[TopicConfig, DeliveryPolicy]] = {}

    def of(self, topic: str, config: TopicConfig, wishes: Mapping[str, Any]) -> DeliveryPolicy:
        """The policy of a group with these wishes."""
        key = topic, tuple(wishes.items())
        known = self._known.get(key)
        if known is None or known[0] is not config:
            known = config, group_policy(topic_policy(self._node, topic, config), wishes)
            if len(self._known) >= self._KNOWN_MAX:
                self._known.clear()
            self._known[key] = known
        return known[1]


def node_policy(config: DeliveryConfig) -> DeliveryPolicy:
    """What a group gets where neither it nor the topic says anything."""
    return DeliveryPolicy(
        visibility_ms=config.visibility_ms,
        retries_max=config.retries_max,
        backoff_ms=config.backoff_ms,
        backoff_multiplier=config.backoff_multiplier,
        backoff_ms_max=config.backoff_ms_max,
        backoff_jitter=config.backoff_jitter,
        in_flight_max=config.in_flight_max,
        outstanding_max=config.outstanding_max,
        starvation_ms=config.starvation_ms,
    )


def topic_policy(policy: DeliveryPolicy, topic: str, config: TopicConfig) -> DeliveryPolicy:
    """The policy with a topic's own options over it. Dead letters have no dead letters."""
    given: dict[str, Any] = {
        "visibility_ms": config.delivery_visibility_ms,
        "retries_max": config.delivery_retries_max,
        "backoff_ms": config.delivery_backoff_ms,
        "backoff_multiplier": config.delivery_backoff_multiplier,
        "backoff_ms_max": config.delivery_backoff_ms_max,
        "ttl_ms": config.message_ttl_ms if config.message_ttl_ms >= 0 else None,
    }
    return replace(
        policy,
        **{name: value for name, value in given.items() if value is not None},
        dead_letters=config.delivery_dead_letters and not topic.endswith(DEAD_LETTER_SUFFIX),
        strict_priority=config.strict_priority,
        lane_weights=config.lane_weights,
    )


def group_policy(policy: DeliveryPolicy, wishes: Mapping[str, Any]) -> DeliveryPolicy:
    """The policy with a group's wishes over it. A topic that has no dead letters gets none by a wish."""
    if not wishes:
        return policy
    changed = replace(policy, **checked_wishes(wishes))
    return changed if policy.dead_letters or not changed.dead_letters else replace(changed, dead_letters=False)


# What a group may wish: the least and the most of a number; flags have no bounds.
_BOUNDS: Mapping[str, tuple[float, float] | None] = {
    "visibility_ms": (0, _DAY_MS / 2),
    "retries_max": (0, 1_000_000),
    "backoff_ms": (0, 365 * _DAY_MS),
    "backoff_multiplier": (1.0, 1000.0),
    "backoff_ms_max": (0, 365 * _DAY_MS),
    "backoff_jitter": (0.0, 1.0),
    "in_flight_max": (1, 1_000_000),
    "outstanding_max": (1, 10_000_000),
    "ttl_ms": (1, 2**62),
    "starvation_ms": (0, 365 * _DAY_MS),
    "key_ordered": None,
    "dead_letters": None,
    "strict_priority": None,
}
WISHES = tuple(one.name for one in fields(DeliveryPolicy) if one.name in _BOUNDS)


def checked_wishes(wishes: Mapping[str, Any]) -> dict[str, Any]:
    """The wishes, each of its own type and within its bounds; InvalidRequest names the one that is not."""
    checked: dict[str, Any] = {}
    for name, value in wishes.items():
        if name not in _BOUNDS:
            raise InvalidRequest(
                f"a policy has no field {name!r}", field=name, hint=f"the fields are {', '.join(WISHES)}"
            )
        bounds = _BOUNDS[name]
        if value is None:
            continue
        if bounds is None:
            if not isinstance(value, bool):
                raise InvalidRequest(f"{name} is {value!r}", field=name, hint="use true or false")
            checked[name] = value
            continue
        least, most = bounds
        whole = isinstance(least, int)
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise InvalidRequest(f"{name} is {value!r}", field=name, hint="use a number")
        if not least <= value <= most:
            raise InvalidRequest(f"{name} is {value}", field=name, hint=f"use {least:g} to {most:g}")
        checked[name] = value
    return checked
