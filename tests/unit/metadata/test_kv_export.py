"""The metadata of a node on its own arrives whole in the store of a cluster, with higher epochs."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from goqueue.errors import Conflict, InvalidRequest
from goqueue.metadata.events import (
    Assignment,
    BrokerDefaultsChanged,
    FeatureFinalised,
    GroupSettings,
    GroupSettingsChanged,
    ProducerIdsReserved,
    ScheduleHome,
    ScheduleHomed,
    SecurityChanged,
    Topic,
    TopicCreated,
)
from goqueue.metadata.features import DELAY_VERSION, METADATA_VERSION, SECURITY_VERSION
from goqueue.metadata.local import LocalMetadata
from goqueue.metadata.shared.kv_backup import decode_backup, restore_backup, take_backup
from goqueue.metadata.shared.kv_export import exported
from goqueue.metadata.shared.kv_snapshot import read_image
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.testing.clock import ManualClock
from goqueue.testing.kv_model import KvModel
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload

ONE = Assignment(leader=1, leader_epoch=4, replicas=(1,), isr=(1,))


async def alone() -> LocalMetadata:
    metadata = LocalMetadata.open(MemoryFiles(), clock=ManualClock(), rng=Random(1), offload=InlineOffload())
    topics = [Topic("a", UUID(int=1), 250, config={"retention.ms": "5"}), Topic("__b", UUID(int=2), 1, internal=True)]
    await metadata.commit([FeatureFinalised(METADATA_VERSION, 3), FeatureFinalised(SECURITY_VERSION, 1)])
    await metadata.commit([TopicCreated(topic, (ONE,) * topic.partition_count) for topic in topics])
    await metadata.commit([ProducerIdsReserved(3000), BrokerDefaultsChanged({"log.retention.ms": "9"})])
    await metadata.commit([SecurityChanged("user", "ann", b"{}")])
    await metadata.commit([FeatureFinalised(DELAY_VERSION, 1), ScheduleHomed("daily", ScheduleHome(UUID(int=1), 7))])
    await metadata.commit([GroupSettingsChanged("work", GroupSettings(session_timeout_ms=6_000, policy={"ttl_ms": 5}))])
    return metadata


async def test_everything_arrives_and_nobody_leads_until_the_controller_says_so() -> None:
    metadata, model = await alone(), KvModel()
    backup = decode_backup(exported(metadata.image).encoded())
    await restore_backup(model.client(), "/q", backup)
    store = await KvMetadata.open(model.client(), prefix="/q", rng=Random(2))
    before, after = metadata.image, store.image
    assert after.cluster_id == before.cluster_id
    assert after.topics() == before.topics()
    assert after.next_producer_id == 3000
    assert after.broker_defaults == before.broker_defaults
    assert after.security_values() == before.security_values()
    assert after.schedule_homes == before.schedule_homes == {"daily": ScheduleHome(UUID(int=1), 7)}
    assert after.group_settings == before.group_settings
    assert after.group_settings["work"] == GroupSettings(session_timeout_ms=6_000, policy={"ttl_ms": 5})
    assert after.feature_levels() == before.feature_levels()
    found = after.assignments(UUID(int=1))
    assert {(one.leader, one.replicas, one.isr) for one in found} == {(-1, (1,), (1,))}
    assert {one.leader_epoch for one in found} == {1_000_004}
    await store.close()
    await metadata.close()


async def test_a_store_with_a_cluster_takes_no_other() -> None:
    metadata, model = await alone(), KvModel()
    backup = exported(metadata.image)
    await restore_backup(model.client(), "/q", backup)
    with pytest.raises(Conflict, match="empty store"):
        await restore_backup(model.client(), "/q", backup)
    await restore_backup(model.client(), "/other", backup)
    await metadata.close()


async def test_each_restore_begins_a_new_generation() -> None:
    metadata, model = await alone(), KvModel()
    await restore_backup(model.client(), "/first", exported(metadata.image))
    await restore_backup(model.client(), "/second", await take_backup(model.client(), "/first"))
    assert model.pairs["/second/generation"].value == b"2"
    image = await read_image(model.client(), "/second")
    assert image.assignments(UUID(int=2))[0].leader_epoch == 2_000_004
    await metadata.close()


def test_what_is_no_backup_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="not a backup"):
        decode_backup(b"{}")
