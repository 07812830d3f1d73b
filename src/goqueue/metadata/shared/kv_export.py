"""The metadata of a node on its own as a backup of a cluster's: how one node becomes the first of several."""

from __future__ import annotations

from collections.abc import Iterator

from goqueue.metadata import keys
from goqueue.metadata.events import (
    BrokerDefaultsChanged,
    Event,
    FeatureFinalised,
    GroupSettingsChanged,
    ProducerIdsReserved,
    ScheduleHomed,
    SecurityChanged,
    TopicCreated,
)
from goqueue.metadata.image import Image
from goqueue.metadata.shared.kv import Put
from goqueue.metadata.shared.kv_backup import FORMAT, MetadataBackup
from goqueue.metadata.shared.kv_values import writes_of


def exported(image: Image) -> MetadataBackup:
    """Everything in the image, as it is stored in a cluster. Deletions under way are left to the node's own disk."""
    pairs = {keys.CLUSTER: image.cluster_id.encode()}
    for event in _events(image):
        for write in writes_of(event, image):
            if isinstance(write, Put):
                pairs[write.key] = write.value
    return MetadataBackup(FORMAT, image.cluster_id, image.revision, pairs)


def _events(image: Image) -> Iterator[Event]:
    for name, level in image.feature_levels().items():
        yield FeatureFinalised(name, level)
    if image.next_producer_id:
        yield ProducerIdsReserved(image.next_producer_id)
    if image.broker_defaults:
        yield BrokerDefaultsChanged(image.broker_defaults)
    for (kind, name), value in image.security_values().items():
        yield SecurityChanged(kind, name, value)
    for name, home in image.schedule_homes.items():
        yield ScheduleHomed(name, home)
    for group, settings in image.group_settings.items():
        yield GroupSettingsChanged(group, settings)
    for topic in image.topics():
        yield TopicCreated(topic, image.assignments(topic.topic_id))
