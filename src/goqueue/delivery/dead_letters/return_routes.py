"""Return routes: which way each dead letter goes back.

By default only the group in which a message died gets it again. An unedited letter whose original still lies in
the log is reopened there; any other is appended as a new record that counts as settled for all other queue groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.delivery.dead_letters.letters import Edits, Letter, way_back
from goqueue.delivery.dead_letters.originals import Original, Originals
from goqueue.delivery.state.records import QueueId
from goqueue.delivery.values import Delivery
from goqueue.errors import Conflict, GoQueueError, TooBusy
from goqueue.partitioner import partition_for_key
from goqueue.records import NewRecord, TopicPartition

IsQueueGroup = Callable[[str], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where letters of one job go. `to` None: to the topic that each came from."""

    topic: str
    to: str | None
    all_groups: bool
    edits: Edits


@dataclass(slots=True)
class Routed:
    """Letters by the way that they go; `refused` ones stay where they are."""

    appends: dict[TopicPartition, list[tuple[Delivery, NewRecord]]] = field(default_factory=dict)
    reopens: dict[QueueId, list[tuple[Delivery, Original]]] = field(default_factory=dict)
    refused: list[tuple[Delivery, GoQueueError]] = field(default_factory=list)


class ReturnRoutes:
    """Chooses the way of letters."""

    def __init__(self, originals: Originals, topics: TopicService, is_queue_group: IsQueueGroup, clock: Clock) -> None:
        self._originals = originals
        self._topics = topics
        self._is_queue_group = is_queue_group
        self._clock = clock

    async def choose(self, where: Destination, letters: Sequence[tuple[Delivery, Letter]]) -> Routed:
        """One way for each letter."""
        routed = Routed()
        reopened: Counter[QueueId] = Counter()
        for one, letter in letters:
            group = None if where.all_groups or where.to is not None else letter.history.get("group")
            if group is None:
                self._append(where, one, letter, None, routed)
                continue
            try:
                original = await self._original(where, letter, group, reopened)
            except (Conflict, TooBusy) as error:
                routed.refused.append((one, error))
                continue
            if original is None:
                self._append(where, one, letter, group, routed)
            else:
                reopened[original.queue] += 1
                routed.reopens.setdefault(original.queue, []).append((one, original))
        return routed

    async def _original(
        self, where: Destination, letter: Letter, group: str, reopened: Counter[QueueId]
    ) -> Original | None:
        if not await self._is_queue_group(group):
            raise Conflict(
                f"group {group!r}, which dead-lettered the message of offset {letter.history.get('offset')}, is not a "
                "queue group any more: redrive it for all groups (all_groups) or to another topic (to)"
            )
        if where.edits.headers:
            return None
        topic, number = self._topics.find(letter.history.get("topic", "")), letter.number("partition")
        on_way = 0 if topic is None or number is None else reopened[QueueId(group, topic.topic_id, number)]
        return await self._originals.find(letter, group, on_way)

    def _append(self, where: Destination, one: Delivery, letter: Letter, group: str | None, routed: Routed) -> None:
        topic = where.to or letter.history.get("topic") or where.topic
        at = TopicPartition(topic, self._partition(topic, letter))
        record = way_back(letter, where.edits, self._clock.now_ms(), group=group)
        routed.appends.setdefault(at, []).append((one, record))

    def _partition(self, topic: str, letter: Letter) -> int:
        """Back into its own partition; elsewhere its key decides, or where it lies."""
        found = self._topics.find(topic)
        if found is None:
            return 0
        count = found.partition_count
        number = letter.number("partition")
        if number is not None and number < count and topic == letter.history.get("topic"):
            return number
        if letter.key is None:
            return letter.partition % count
        return partition_for_key(letter.key, count, self._topics.config(topic).partitioner)
