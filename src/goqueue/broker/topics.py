"""Topics: create, change, delete, and make them on first use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from goqueue.broker.assigning import Assigning, OneNode
from goqueue.broker.replicas.partitions import Partitions
from goqueue.caller import ANONYMOUS, INTERNAL, Caller
from goqueue.clock import Clock, Rng
from goqueue.config import BrokerConfig, DeliveryConfig, LogConfig
from goqueue.errors import (
    GuardFailed,
    InternalTopic,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopicName,
    NotFound,
    TooBusy,
    TopicExists,
    TopicIdNotFound,
    TopicNotFound,
)
from goqueue.ids import is_internal, parse_new_topic_name, parse_topic_name, parse_user_topic_name
from goqueue.metadata.events import (
    Assignment,
    Event,
    PartitionsAdded,
    Topic,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from goqueue.metadata.keys import settings_key, topic_key
from goqueue.metadata.settings.topic_config import (
    ConfigEntry,
    TopicConfig,
    canonical_config,
    canonical_name,
    describe,
    parse_topic_config,
    warnings_of,
)
from goqueue.metadata.store import Guard, MetadataStore

_log = logging.getLogger(__name__)

# Named here because inside the service `list` is its method.
Topics = list[Topic]
ConfigEntries = list[ConfigEntry]
_T = TypeVar("_T")

PARTITIONS_MAX = 10_000

# Kafka's way to say "the broker's default".
BROKER_DEFAULT = -1

# Whoever is refused by a guard was overtaken by a change that succeeded, so this many had to come in between.
ATTEMPTS_MAX = 1000


# Told of every change that was made, and in whose name; it must not raise.
OnTopicChange = Callable[[Caller, Event], None]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that is asked for. None (or -1) leaves a choice to the broker.

    `assignments` names the replicas of every partition instead of counting them.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class _Change:
    """What is to become of a topic (None: it is so already), worked out from what is under `key`.

    `warn_about` holds settings that were given: those without an effect are told in the log.
    """

    topic: Topic
    event: Event | None
    key: str
    warn_about: Mapping[str, str | None] = field(default_factory=dict)


class TopicService:
    """The topics of the node, for everyone who asks."""

    def __init__(
        self,
        metadata: MetadataStore,
        partitions: Partitions,
        *,
        broker: BrokerConfig,
        log: LogConfig,
        delivery: DeliveryConfig,
        clock: Clock,
        rng: Rng,
        on_change: Sequence[OnTopicChange] = (),
        assigning: Assigning | None = None,
    ) -> None:
        """`assigning` puts partitions on the nodes of a cluster; None: this node is on its own."""
        self._on_change = tuple(on_change)
        self._metadata = metadata
        self._partitions = partitions
        self._broker = broker
        self._assigning = assigning or OneNode(broker.node_id, broker.default_replication_factor)
        self._log = log
        self._delivery = delivery
        self._clock = clock
        self._rng = rng
        self._creating: dict[str, asyncio.Task[Topic]] = {}

    def get(self, name: str) -> Topic:
        """The topic of that name, or TopicNotFound."""
        topic = self._metadata.image.topic(name)
        if topic is None:
            raise TopicNotFound(name)
        return topic

    def find(self, name: str) -> Topic | None:
        """The topic of that name, if there is one."""
        return self._metadata.image.topic(name)

    def find_by_id(self, topic_id: UUID) -> Topic | None:
        """The topic of that id, if there is one."""
        return self._metadata.image.topic_by_id(topic_id)

    def by_id(self, topic_id: UUID) -> Topic:
        """The topic of that id, or TopicIdNotFound."""
        topic = self._metadata.image.topic_by_id(topic_id)
        if topic is None:
            raise TopicIdNotFound(f"there is no topic with id {topic_id}")
        return topic

    def list(self) -> Topics:
        """All topics by name, the broker's own included."""
        return self._metadata.image.topics()

    def assignments(self, topic: Topic) -> tuple[Assignment, ...]:
        """Where its partitions live, by number; empty once it is deleted."""
        return self._metadata.image.assignments(topic.topic_id)

    def config(self, name: str) -> TopicConfig:
        """What the topic obeys."""
        return self._partitions.config(self.get(name))

    def describe_config(self, name: str) -> ConfigEntries:
        """Every setting of the topic, and where its value comes from."""
        topic = self.get(name)
        altered = {} if topic.internal else self._metadata.image.broker_defaults
        return describe(topic.config, self._log, self._delivery, altered)

    async def create(
        self, new: NewTopic, *, validate_only: bool = False, internal: bool = False, caller: Caller = ANONYMOUS
    ) -> Topic:
        """Make a topic, durably. With `validate_only`, only say what would become of it."""
        topic, assignments = await self._sure(lambda: self._planned(new, internal=internal))
        if not validate_only:
            created = TopicCreated(topic, assignments)
            await self._metadata.commit([created])
            self._tell(caller, created)
            _tell_warnings(topic.name, topic.config)
        return self.find(topic.name) or topic

    async def delete(self, name: str, *, caller: Caller = ANONYMOUS) -> Topic:
        """Remove a topic and all its records; the name is free again at once. Returns what it was."""
        for _ in range(ATTEMPTS_MAX):
            topic = await self._sure(lambda: self._changeable(name))
            # The event names the topic's id, so it never deletes a topic that was created under the name since.
            deleted = TopicDeleted(name, topic.topic_id)
            try:
                await self._metadata.commit([deleted])
            except NotFound:
                # It was created anew before this was asked for, and this node had not heard of it.
                now = self.find(name)
                if now is None or now.topic_id == topic.topic_id:
                    raise
                continue
            self._tell(caller, deleted)
            return topic
        raise TooBusy(f"metadata changed {ATTEMPTS_MAX} times while the change was being made; nothing was changed")

    async def add_partitions(
        self,
        name: str,
        total: int,
        *,
        validate_only: bool = False,
        assignments: Sequence[Sequence[int]] | None = None,
        caller: Caller = ANONYMOUS,
    ) -> Topic:
        """Raise the number of partitions to `total`; `assignments` names the replicas of the new ones."""

        def plan() -> _Change:
            topic = self._changeable(name)
            first = topic.partition_count
            _check_growth(name, first, total)
            if assignments is not None:
                if len(assignments) != total - first:
                    raise InvalidReplicaAssignment(
                        f"{total - first} partitions are added, but {len(assignments)} are assigned",
                        field="assignments",
                    )
                placed = self._given(dict(enumerate(assignments)))
            else:
                placed = self._assigning.place(total - first, len(self.assignments(topic)[0].replicas))
            added = PartitionsAdded(name, topic.topic_id, first, placed)
            return _Change(topic, added, topic_key(name))

        return await self._changed(plan, caller, validate_only=validate_only)

    async def alter_config(
        self,
        name: str,
        changes: Mapping[str, str | None],
        /,
        *,
        replace: bool = False,
        validate_only: bool = False,
        caller: Caller = ANONYMOUS,
    ) -> Topic:
        """Set settings, or with None put them back to the default; `replace` drops all that is not named."""

        def plan() -> _Change:
            topic = self._changeable(name)
            config = {} if replace else dict(topic.config)
            for setting in [one for one, text in changes.items() if text is None]:
                config.pop(canonical_name(setting), None)
            config |= canonical_config({one: text for one, text in changes.items() if text is not None})
            parse_topic_config(config, self._log)
            changed = TopicConfigChanged(name, topic.topic_id, config) if config != topic.config else None
            return _Change(topic, changed, settings_key(topic.topic_id), warn_about=changes)

        return await self._changed(plan, caller, validate_only=validate_only)

    async def ensure(self, name: str, *, caller: Caller = ANONYMOUS) -> Topic:
        """The topic of that name, made with defaults if a client may do so by naming it."""
        topic = self.find(name)
        if topic is not None:
            return topic
        try:
            parse_user_topic_name(name)
        except InvalidTopicName as refused:
            # Whoever names a topic in passing has a field of that name; only who creates one has a `name`.
            refused.field = "topic"
            raise
        if not self._broker.auto_create_topics:
            raise TopicNotFound(name, hint="create it first, or switch on broker.auto_create_topics")
        return await self._made_once(name, lambda: self.create(NewTopic(name), caller=caller))

    async def ensure_as(self, new: NewTopic) -> Topic:
        """The topic of that name; if there is none, it is made as `new` says."""
        return self.find(new.name) or await self._made_once(new.name, lambda: self.create(new, caller=INTERNAL))

    async def ensure_internal(self, name: str, partitions: int, config: Mapping[str, str]) -> Topic:
        """One of the broker's own topics, made on first use."""
        topic = self.find(name)
        if topic is not None:
            return topic
        new = NewTopic(name, partitions, config=config)
        return await self._made_once(name, lambda: self.create(new, internal=True, caller=INTERNAL))

    async def _made_once(self, name: str, create: Callable[[], Awaitable[Topic]]) -> Topic:
        """Create unless somebody else is at it; then wait for theirs."""
        task = self._creating.get(name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._create_or_find(name, create))
            self._creating[name] = task
            task.add_done_callback(lambda _: self._creating.pop(name, None))
        # Whoever gives up waiting must not stop the others' topic from being made.
        return await asyncio.shield(task)

    async def _create_or_find(self, name: str, create: Callable[[], Awaitable[Topic]]) -> Topic:
        try:
            return await create()
        except TopicExists:
            # Somebody else was faster, and the store refuses only by what its image shows.
            return self.get(name)

    async def _changed(self, plan: Callable[[], _Change], caller: Caller, *, validate_only: bool) -> Topic:
        """Commit a change under the guard that it was worked out from, anew each time that another came first."""
        for _ in range(ATTEMPTS_MAX):
            change = await self._sure(plan)
            if validate_only or change.event is None:
                return change.topic
            guard = Guard(change.key, self._metadata.image.revision_of(change.key))
            try:
                await self._metadata.commit([change.event], [guard])
            except GuardFailed:
                continue
            self._tell(caller, change.event)
            _tell_warnings(change.topic.name, change.warn_about)
            # It may be deleted again by now; then this is what it was.
            return self.find(change.topic.name) or change.topic
        raise TooBusy(f"metadata changed {ATTEMPTS_MAX} times while the change was being made; nothing was changed")

    async def _sure(self, plan: Callable[[], _T]) -> _T:
        """What is planned by the image. A refusal is believed only if the image is not behind what others changed."""
        try:
            return plan()
        except (NotFound, TopicExists, InvalidPartitions):
            await self._metadata.catch_up()
            return plan()

    def _tell(self, caller: Caller, event: Event) -> None:
        for tell in self._on_change:
            tell(caller, event)

    def _planned(self, new: NewTopic, *, internal: bool) -> tuple[Topic, tuple[Assignment, ...]]:
        name = parse_topic_name(new.name) if internal else parse_new_topic_name(new.name)
        if self.find(name) is not None:
            raise TopicExists(name)
        assignments, copies = self._placed(new)
        config = canonical_config(new.config)
        parse_topic_config(config, self._log)
        topic = Topic(
            name=name,
            topic_id=UUID(int=self._rng.getrandbits(128), version=4),
            partition_count=len(assignments),
            replication_factor=copies,
            config={**self._assigning.settings(copies), **config},
            internal=internal,
            created_ms=self._clock.now_ms(),
        )
        return topic, assignments

    def _placed(self, new: NewTopic) -> tuple[tuple[Assignment, ...], int]:
        """The assignments of a new topic, and its replication factor."""
        count = None if new.partitions == BROKER_DEFAULT else new.partitions
        copies = None if new.replication_factor == BROKER_DEFAULT else new.replication_factor
        if new.assignments is not None:
            if count is not None or copies is not None:
                raise InvalidRequest("give either assignments or numbers, not both", field="assignments")
            assignments = self._given(new.assignments)
            return assignments, len(assignments[0].replicas)
        copies = self._assigning.copies(copies)
        count = self._broker.default_partitions if count is None else count
        if not 1 <= count <= PARTITIONS_MAX:
            raise InvalidPartitions(
                f"a topic cannot have {count} partitions", field="partitions", hint=f"use 1 to {PARTITIONS_MAX}"
            )
        return self._assigning.place(count, copies), copies

    def _given(self, assignments: Mapping[int, Sequence[int]]) -> tuple[Assignment, ...]:
        if not 1 <= len(assignments) <= PARTITIONS_MAX:
            raise InvalidReplicaAssignment(f"{len(assignments)} partitions are assigned", field="assignments")
        if sorted(assignments) != list(range(len(assignments))):
            raise InvalidReplicaAssignment("partitions are not numbered from 0 without gaps", field="assignments")
        return self._assigning.given(assignments)

    def _changeable(self, name: str) -> Topic:
        topic = self.get(name)
        if topic.internal or is_internal(name):
            raise InternalTopic(name)
        return topic


def _tell_warnings(topic: str, given: Mapping[str, str | None]) -> None:
    for warning in warnings_of(given):
        _log.warning("topic %s: %s", topic, warning)


def _check_growth(name: str, current: int, total: int) -> None:
    if total <= current:
        raise InvalidPartitions(
            f"topic {name!r} has {current} partitions, and {total} is not more",
            field="partitions",
            hint="the number of partitions can only be increased",
        )
    if total > PARTITIONS_MAX:
        raise InvalidPartitions(
            f"a topic cannot have {total} partitions", field="partitions", hint=f"use at most {PARTITIONS_MAX}"
        )
