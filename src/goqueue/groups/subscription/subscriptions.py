"""Subscriptions: which topics, by id, a member wants, by name and by pattern."""

from __future__ import annotations

from uuid import UUID

from goqueue.groups.records import MemberRecord
from goqueue.groups.subscription.topic_partitions import TopicCatalog, TopicShape
from goqueue.groups.subscription.topic_pattern import TopicPattern

# Patterns come from clients; their results are cheap to compute again.
_PATTERNS_MAX = 1_000


class Subscriptions:
    """Looks subscriptions up in the topics there are, and patterns only once per change of those."""

    def __init__(self, catalog: TopicCatalog) -> None:
        self._catalog = catalog
        self._matched: dict[str, tuple[int, TopicPattern, frozenset[str]]] = {}

    @property
    def version(self) -> int:
        """The version of the topics that answers are about."""
        return self._catalog.version

    def check_pattern(self, pattern: str) -> None:
        """Raise `InvalidRegex` unless the pattern can be used."""
        if pattern and pattern not in self._matched:
            TopicPattern(pattern)

    def exists(self, topic_id: UUID) -> bool:
        """Whether there is a topic of that id."""
        return self._catalog.name_of(topic_id) is not None

    def topics_of(self, subscription: MemberRecord) -> dict[UUID, int]:
        """Partition counts of the topics that a member wants and that exist, by topic id."""
        names = frozenset(subscription.topics)
        if subscription.regex:
            names |= self._matching(subscription.regex)
        shapes = filter(None, map(self._catalog.shape, names))
        return dict[UUID, int](map(_as_item, shapes))

    def names_of(self, subscription: MemberRecord) -> frozenset[str]:
        """The names that a subscription stands for now."""
        matching = self._matching(subscription.regex) if subscription.regex else frozenset[str]()
        return matching | frozenset(subscription.topics)

    def _matching(self, text: str) -> frozenset[str]:
        version = self._catalog.version
        known = self._matched.get(text)
        if known is not None and known[0] == version:
            return known[2]
        pattern = TopicPattern(text) if known is None else known[1]
        names = frozenset(filter(pattern.matches, self._catalog.names()))
        if len(self._matched) >= _PATTERNS_MAX:
            self._matched.clear()
        self._matched[text] = (version, pattern, names)
        return names


def _as_item(shape: TopicShape) -> tuple[UUID, int]:
    return shape.topic_id, shape.partitions
