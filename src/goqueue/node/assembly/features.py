"""Features: delivery, groups, delay and transactions, over the partitions and beside each other."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, cast

from goqueue.anywhere.asking import Asking
from goqueue.anywhere.queues.group_settings import GroupSettingsAnywhere
from goqueue.anywhere.queues.memberships import MembersAnywhere
from goqueue.anywhere.reading.synced import synced_anywhere
from goqueue.anywhere.registry import ChangesAnywhere
from goqueue.anywhere.transactions.own_transactions import OwnTransactionsAnywhere
from goqueue.anywhere.transactions.transactions import EndAnywhere, Verification
from goqueue.broker.arrivals.append_anywhere import AppendAnywhere, LocalAppends
from goqueue.broker.arrivals.publish import PublishService
from goqueue.delay.feature import feature as delay_feature
from goqueue.delay.holding.headers import HeaderDelay
from goqueue.delay.holding.staging import Staging
from goqueue.delay.service import DelayService
from goqueue.delivery.dead_letters.dead_letter_moves import HEADER_PREFIX
from goqueue.delivery.dead_letters.redrive import Redrives
from goqueue.delivery.feature import feature as delivery_feature
from goqueue.delivery.service import DeliveryService
from goqueue.delivery.values import GroupSettings, Start
from goqueue.groups.feature import feature as group_feature
from goqueue.groups.queue.settings import Mode
from goqueue.groups.service import CONSUMER_OFFSETS, GroupService
from goqueue.metadata.events import GroupSettings as StoredGroupSettings
from goqueue.node.assembly.anywhere import QueuesAnywhere, appends_anywhere, queues_anywhere
from goqueue.node.assembly.paths import Paths
from goqueue.node.assembly.storage import Storage
from goqueue.node.assembly.tools import Tools
from goqueue.node.reports import report_dead_letters, report_delay, report_marker, report_shard
from goqueue.node.stories.wiring import Stories
from goqueue.records import TopicPartition
from goqueue.schemas.feature import Schemas
from goqueue.schemas.feature import feature as schema_feature
from goqueue.transactions.ending import Ending
from goqueue.transactions.feature import feature as transaction_feature
from goqueue.transactions.service import TransactionService


class Features(NamedTuple):
    """What the node can do beyond storing batches, and the way in that they complete."""

    publish: PublishService
    delivery: DeliveryService
    groups: GroupService
    delay: DelayService
    staging: Staging
    transactions: TransactionService
    redrives: Redrives
    schemas: Schemas
    # Of a cluster.
    queues: QueuesAnywhere | None


async def open_features(
    tools: Tools, storage: Storage, paths: Paths, stories: Stories, asking: Asking | None
) -> Features:
    """Each loads in the background what its log says; only schemas and transactions are waited for."""
    own_batches = paths.way_in.through()
    # What the broker moves or ends itself was accepted before; what a redrive sends is checked like a client's.
    append_own = appends_anywhere(
        "own", LocalAppends(storage.partitions, own_batches, tools.clock, stories.hooks.ended), asking, tools
    )
    schemas = await schema_feature(
        config=tools.config.schemas,
        topics=storage.topics,
        partitions=storage.partitions,
        append_own=append_own,
        history_prefix=HEADER_PREFIX,
        files=tools.world.files,
        offload=tools.work_offload,
        clock=tools.clock,
        on_failure=partial(report_shard, "schema"),
        on_quarantined=stories.hooks.quarantined,
    )
    tools.stack.push_async_callback(schemas.close)
    if asking is not None:
        schemas.follow(
            ChangesAnywhere(schemas.changes, asking),
            storage.metadata.catch_up,
            storage.topics,
            tools.clock,
            age_ms_max=tools.config.schemas.copy_age_ms_max,
        )
    delivery, groups, queues = _queues_and_groups(tools, storage, paths, stories, append_own, asking)
    delay = delay_feature(
        config=tools.config.delay,
        topics=storage.topics,
        partitions=storage.partitions,
        publish=own_batches,
        producer_ids=storage.producer_ids,
        subscribe=storage.metadata.subscribe,
        files=tools.world.files,
        index_root=tools.world.index_root,
        offload=tools.work_offload,
        clock=tools.clock,
        on_trouble=report_delay,
        on_hold=[stories.delays.held],
        observer=stories.delays,
    )
    tools.stack.push_async_callback(delay.close)
    staging = Staging(delay, paths.open_transactions.check)
    delay.check_values = schemas.refusals
    publish = paths.way_in.through(
        schemas.step,
        HeaderDelay(delay, staging),
        values=schemas.step,
    )
    transactions = await _transactions(tools, storage, paths, append_own, delivery, groups, staging, asking)
    schemas.quarantine.transactions = transactions

    async def is_queue_group(group: str) -> bool:
        members = groups if queues is None or queues.members is None else queues.members
        return await members.mode(group) is Mode.QUEUE

    redrives = Redrives(
        delivery if queues is None else cast("DeliveryService", queues.delivery),
        storage.topics,
        paths.facts,
        appends_anywhere("redriven", LocalAppends(storage.partitions, publish, tools.clock), asking, tools),
        transactions if asking is None else OwnTransactionsAnywhere(transactions, asking),
        is_queue_group,
        tools.clock,
        stories.queues.sent_back,
    )
    tools.stack.push_async_callback(redrives.close)
    return Features(publish, delivery, groups, delay, staging, transactions, redrives, schemas, queues)


def _queues_and_groups(
    tools: Tools,
    storage: Storage,
    paths: Paths,
    stories: Stories,
    append_own: AppendAnywhere,
    asking: Asking | None,
) -> tuple[DeliveryService, GroupService, QueuesAnywhere | None]:
    """Each needs the other: delivery asks for a group's settings when a message is received, and not before."""

    def stored(group: str) -> StoredGroupSettings | None:
        return storage.metadata.image.group_settings.get(group)

    async def group_settings(group: str) -> GroupSettings:
        settings = await groups.ensure_queue(group)
        wishes = {**settings.policy, "key_ordered": settings.key_ordered}
        return GroupSettings(wishes, Start(settings.start or Start.EARLIEST), settings.incarnation)

    settings = None if asking is None else GroupSettingsAnywhere(group_settings, asking, tools.clock, stored)
    delivery = delivery_feature(
        config=tools.config.delivery,
        topics=storage.topics,
        partitions=storage.partitions,
        append_anywhere=append_own,
        producer_ids=storage.producer_ids,
        group_settings=settings or group_settings,
        subscribe=storage.metadata.subscribe,
        files=tools.world.files,
        offload=tools.work_offload,
        clock=tools.clock,
        rng=tools.rng,
        on_failure=partial(report_shard, "delivery"),
        check_transaction=paths.open_transactions.check,
        verify_transaction=paths.open_transactions.verify,
        on_dead_letter_failure=report_dead_letters,
        on_moved=stories.queues.moved,
        queue_observer=stories.queues,
        session_problem=None if storage.cluster is None else storage.cluster.problem,
    )
    tools.stack.push_async_callback(delivery.close)
    queues = None if asking is None or settings is None else queues_anywhere(asking, delivery, settings, tools, storage)
    groups = group_feature(
        config=tools.config.groups,
        delivery=delivery if queues is None else queues.releases,
        positions=delivery.positions if queues is None else queues.positions,
        synced_of=None if asking is None else partial(synced_anywhere, asking=asking),
        topics=storage.topics,
        partitions=storage.partitions,
        files=tools.world.files,
        offload=tools.work_offload,
        clock=tools.clock,
        rng=tools.rng,
        metadata=storage.metadata,
        check_transaction=lambda transaction, shard: paths.open_transactions.check(
            transaction, TopicPartition(CONSUMER_OFFSETS, shard)
        ),
        verify_transaction=paths.open_transactions.verify,
        on_failure=partial(report_shard, "group"),
        on_moved=stories.hooks.committed,
        session_problem=None if storage.cluster is None else storage.cluster.problem,
    )
    tools.stack.push_async_callback(groups.close)
    if asking is not None and queues is not None:
        queues = queues._replace(members=MembersAnywhere(groups, asking))
    return delivery, groups, queues


async def _transactions(
    tools: Tools,
    storage: Storage,
    paths: Paths,
    append_own: AppendAnywhere,
    delivery: DeliveryService,
    groups: GroupService,
    staging: Staging,
    asking: Asking | None,
) -> TransactionService:
    ending = Ending(
        storage.partitions,
        append_own,
        tools.clock,
        paths.open_transactions,
        offsets_topic=CONSUMER_OFFSETS,
        end_offsets=groups.end_transaction,
        end_staged=staging.end_staged,
        end_promises=delivery.end_promises,
    )
    transactions = await transaction_feature(
        catch_up=storage.metadata.catch_up,
        config=tools.config.transactions,
        open_transactions=paths.open_transactions,
        topics=storage.topics,
        partitions=storage.partitions,
        end_at=ending if asking is None else EndAnywhere(ending, asking, paths.open_transactions),
        producer_ids=storage.producer_ids,
        group_place=groups.place_of,
        files=tools.world.files,
        offload=tools.work_offload,
        clock=tools.clock,
        on_failure=partial(report_shard, "transaction"),
        on_retry=report_marker,
    )
    tools.stack.push_async_callback(transactions.close)
    if asking is not None:
        verification = Verification(transactions, paths.open_transactions, asking)
        transactions.elsewhere = verification
        paths.open_transactions.ask = verification.verify
        storage.partitions.on_role(lambda place, _role: paths.open_transactions.forget_term(place))
    return transactions
