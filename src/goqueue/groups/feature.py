"""Groups, put together: what the composition root calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock, Rng
from goqueue.config import GroupsConfig
from goqueue.coordinator.runtime import Coordinator, OnFailure
from goqueue.coordinator.topic import CoordinatorTopic
from goqueue.errors import CoordinatorUnavailable, NotLeader
from goqueue.groups.commands import CheckTransaction
from goqueue.groups.machine import GroupMachine, OnMoved, refuse_transactions
from goqueue.groups.offsets.commits import Commits, DataSynced
from goqueue.groups.queue.delivery_port import QueueDelivery, QueuePositions, Releases
from goqueue.groups.service import CONSUMER_OFFSETS, GroupService, OnCommit, SessionProblem, VerifyTransaction
from goqueue.groups.settings.former_settings import FormerSettings
from goqueue.groups.settings.requests import SettingsRequests
from goqueue.groups.settings.stored_settings import StoredSettings
from goqueue.groups.statistics import Rebalances
from goqueue.groups.subscription.topic_catalog import NodeTopics
from goqueue.metadata.keys import partition_key
from goqueue.metadata.store import Guard, MetadataStore
from goqueue.ports import Files, Offload
from goqueue.records import Acks

# Small segments: only sealed ones are compacted, and replay reads what is not.
_TOPIC_CONFIG: Mapping[str, str] = MappingProxyType(
    {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
)

# Enough that a group never gets the id of an earlier one, and few enough for JSON.
_INCARNATION_BITS = 52


def feature(
    *,
    config: GroupsConfig,
    delivery: QueueDelivery,
    positions: QueuePositions,
    topics: TopicService,
    partitions: Partitions,
    files: Files,
    offload: Offload,
    clock: Clock,
    rng: Rng,
    metadata: MetadataStore,
    check_transaction: CheckTransaction = refuse_transactions,
    on_failure: OnFailure[int] | None = None,
    verify_transaction: VerifyTransaction | None = None,
    on_commit: Sequence[OnCommit] = (),
    on_moved: OnMoved | None = None,
    synced_of: Callable[[DataSynced], DataSynced] | None = None,
    session_problem: SessionProblem | None = None,
) -> GroupService:
    """The group service over `__consumer_offsets`.

    Queue groups stand where `positions` says; `delivery` is told of members that are gone. `synced_of` makes, of the
    question whether records are safe here, one that can be asked of any partition's leader. `session_problem` says, in
    a cluster, why this node may not speak for what it leads.
    """
    catalog = NodeTopics(topics)
    metadata.subscribe(catalog.on_delta)
    rebalances, releases = Rebalances(), Releases(delivery)
    topic = CoordinatorTopic(
        topics,
        partitions,
        CONSUMER_OFFSETS,
        partition_count=config.offsets_partitions,
        config=_TOPIC_CONFIG,
    )

    def term_of(shard: int) -> Guard | None:
        found = topics.find(CONSUMER_OFFSETS)
        if found is None:
            return None
        key = partition_key(found.topic_id, shard)
        return Guard(key, metadata.image.revision_of(key))

    stored = StoredSettings(metadata)
    former = FormerSettings(stored, term_of)
    coordinator = Coordinator(
        CONSUMER_OFFSETS,
        topic.partition_count,
        lambda: GroupMachine(
            config,
            catalog,
            rebalances,
            check_transaction,
            releases.departed,
            on_moved,
            lambda: rng.getrandbits(_INCARNATION_BITS) or 1,
            stored.of,
        ),
        open_partition=topic,
        files=files,
        offload=offload,
        clock=clock,
        on_failure=on_failure,
        on_loaded=former.shard_loaded,
        refusal=topic.refusal,
    )
    metadata.subscribe(former.of(coordinator).on_delta)
    topic.follow_roles(coordinator)

    def synced(topic: str, partition: int, offset: int) -> Awaitable[None] | None:
        try:
            place = partitions.leader(topic, partition)
            return place.writer.reached(min(offset, place.log.end_offset), Acks.ALL)
        except NotLeader as error:
            # A log of ours, empty or old, knows nothing about what the leader has on its disk.
            raise CoordinatorUnavailable(f"it is not known whether the records are safe: {error}") from error

    return GroupService(
        coordinator,
        topics,
        rebalances,
        releases=releases,
        positions=positions,
        commits=Commits(topics, synced if synced_of is None else synced_of(synced)),
        settings=SettingsRequests(config, stored, former),
        rng=rng,
        on_commit=on_commit,
        verify_transaction=verify_transaction,
        session_problem=session_problem,
    )
