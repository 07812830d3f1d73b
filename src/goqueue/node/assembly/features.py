"""Features: delivery, groups, delay and transactions, over the partitions and beside each other."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from goqueue.broker.publish import PublishService
from goqueue.delay.feature import feature as delay_feature
from goqueue.delay.headers import HeaderDelay
from goqueue.delay.service import DelayService
from goqueue.delay.shards import DELAYED
from goqueue.delay.staging import Staging
from goqueue.delivery.dead_letters.dead_letter_moves import HEADER_PREFIX
from goqueue.delivery.dead_letters.redrive import Redrives
from goqueue.delivery.feature import feature as delivery_feature
from goqueue.delivery.service import DeliveryService
from goqueue.delivery.shards import DELIVERY_STATE
from goqueue.delivery.values import GroupSettings, Start
from goqueue.groups.feature import feature as group_feature
from goqueue.groups.queue.settings import Mode
from goqueue.groups.service import CONSUMER_OFFSETS, GroupService
from goqueue.node.assembly.paths import Paths
from goqueue.node.assembly.storage import Storage
from goqueue.node.assembly.tools import Tools
from goqueue.node.reports import report_dead_letters, report_delay, report_marker, report_shard
from goqueue.node.stories.wiring import Stories
from goqueue.schemas.feature import feature as schema_feature
from goqueue.schemas.service import SchemaService
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
    schemas: SchemaService


async def open_features(tools: Tools, storage: Storage, paths: Paths, stories: Stories) -> Features:
    """Each loads in the background what its log says; only schemas and transactions are waited for."""
    own_batches = paths.way_in.through()
    schemas = await schema_feature(
        config=tools.config.schemas,
        topics=storage.topics,
        partitions=storage.partitions,
        own_batches=own_batches,
        history_prefix=HEADER_PREFIX,
        files=tools.world.files,
        offload=tools.work_offload,
        clock=tools.clock,
        on_failure=partial(report_shard, "schema"),
    )
    tools.stack.push_async_callback(schemas.close)
    delivery, groups = _queues_and_groups(tools, storage, paths, stories, own_batches)
    delay = delay_feature(
        config=tools.config.delay,
        topics=storage.topics,
        partitions=storage.partitions,
        publish=own_batches,
        producer_ids=storage.producer_ids,
        files=tools.world.files,
        index_root=tools.world.index_root,
        offload=tools.work_offload,
        clock=tools.clock,
        on_trouble=report_delay,
        on_hold=[stories.delays.held],
        observer=stories.delays,
    )
    tools.stack.push_async_callback(delay.close)
    staging = Staging(delay, paths.open_transactions.check_of(DELAYED))
    delay.check_values = schemas.refusals
    publish = paths.way_in.through(
        schemas.step,
        HeaderDelay(delay, staging),
        values=schemas.step,
    )
    transactions = await _transactions(tools, storage, paths, stories, delivery, groups, staging)

    async def is_queue_group(group: str) -> bool:
        return await groups.mode(group) is Mode.QUEUE

    redrives = Redrives(
        delivery,
        storage.topics,
        paths.queries,
        publish,
        transactions,
        is_queue_group,
        tools.clock,
        stories.queues.sent_back,
    )
    tools.stack.push_async_callback(redrives.close)
    return Features(publish, delivery, groups, delay, staging, transactions, redrives, schemas.service)


def _queues_and_groups(
    tools: Tools, storage: Storage, paths: Paths, stories: Stories, own_batches: PublishService
) -> tuple[DeliveryService, GroupService]:
    """Each needs the other: delivery asks for a group's settings when a message is received, and not before."""

    async def group_settings(group: str) -> GroupSettings:
        settings = await groups.ensure_queue(group)
        wishes = {**settings.policy, "key_ordered": settings.key_ordered}
        return GroupSettings(wishes, Start(settings.start or Start.EARLIEST))

    delivery = delivery_feature(
        config=tools.config.delivery,
        topics=storage.topics,
        partitions=storage.partitions,
        publish=own_batches,
        producer_ids=storage.producer_ids,
        group_settings=group_settings,
        subscribe=storage.metadata.subscribe,
        files=tools.world.files,
        offload=tools.work_offload,
        clock=tools.clock,
        rng=tools.rng,
        on_failure=partial(report_shard, "delivery"),
        check_transaction=paths.open_transactions.check_of(DELIVERY_STATE),
        on_dead_letter_failure=report_dead_letters,
        on_moved=stories.queues.moved,
        queue_observer=stories.queues,
    )
    tools.stack.push_async_callback(delivery.close)
    groups = group_feature(
        config=tools.config.groups,
        delivery=delivery,
        positions=delivery.positions,
        topics=storage.topics,
        partitions=storage.partitions,
        files=tools.world.files,
        offload=tools.work_offload,
        clock=tools.clock,
        rng=tools.rng,
        subscribe=storage.metadata.subscribe,
        check_transaction=paths.open_transactions.check_of(CONSUMER_OFFSETS),
        on_failure=partial(report_shard, "group"),
        on_moved=stories.hooks.committed,
    )
    tools.stack.push_async_callback(groups.close)
    return delivery, groups


async def _transactions(
    tools: Tools,
    storage: Storage,
    paths: Paths,
    stories: Stories,
    delivery: DeliveryService,
    groups: GroupService,
    staging: Staging,
) -> TransactionService:
    topics = storage.topics
    transactions = await transaction_feature(
        catch_up=storage.metadata.catch_up,
        config=tools.config.transactions,
        open_transactions=paths.open_transactions,
        topics=topics,
        partitions=storage.partitions,
        producer_ids=storage.producer_ids,
        group_place=groups.place_of,
        # Whoever may send delayed records may do so at once: the partition that holds them takes part beforehand.
        companion_of=lambda place: staging.place_of(place.topic) if topics.config(place.topic).delay_headers else None,
        enders={
            CONSUMER_OFFSETS: groups.end_transaction,
            DELIVERY_STATE: delivery.end_transaction,
            DELAYED: staging.end_transaction,
        },
        files=tools.world.files,
        offload=tools.work_offload,
        clock=tools.clock,
        on_failure=partial(report_shard, "transaction"),
        on_retry=report_marker,
        on_ended=stories.hooks.ended,
    )
    tools.stack.push_async_callback(transactions.close)
    return transactions
