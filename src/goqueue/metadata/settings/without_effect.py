"""Topic settings of Kafka's that mean nothing here.

They are taken, so that what creates topics on Kafka creates them here: the value is checked, it is shown like any
other, and whoever sets it is warned that it has no effect.
"""

from __future__ import annotations

from goqueue.metadata.settings.rules import (
    INT_MAX,
    boolean,
    compression_level,
    integer,
    one_of,
    throttled_replicas,
)
from goqueue.metadata.settings.topic_setting import TopicSetting

_NEVER_COMPRESSED = "the broker does not compress batches again"
_NOT_TIERED = "segments are not moved to remote storage"
_NOT_REPLICATED = "there are no replicas whose traffic could be throttled"

SETTINGS_WITHOUT_EFFECT = (
    TopicSetting(
        "compression.type",
        "compression_type",
        one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "producer",
        "Compression of stored batches; they keep what the producer chose.",
        no_effect="batches are stored with the compression that their producer chose",
    ),
    TopicSetting(
        "compression.gzip.level",
        None,
        compression_level(1, 9),
        "-1",
        "Level of gzip, where the broker compresses; it never does.",
        no_effect=_NEVER_COMPRESSED,
    ),
    TopicSetting(
        "compression.lz4.level",
        None,
        integer(1, 17),
        "9",
        "Level of lz4, where the broker compresses; it never does.",
        no_effect=_NEVER_COMPRESSED,
    ),
    TopicSetting(
        "compression.zstd.level",
        None,
        integer(-131_072, 22),
        "3",
        "Level of zstd, where the broker compresses; it never does.",
        no_effect=_NEVER_COMPRESSED,
    ),
    TopicSetting(
        "file.delete.delay.ms",
        None,
        integer(0),
        "60000",
        "Wait before the files of a deleted segment are removed; they are removed when their last reader is done.",
        no_effect="files of deleted segments are removed when their last reader is done",
    ),
    TopicSetting(
        "follower.replication.throttled.replicas",
        None,
        throttled_replicas(),
        "",
        "Replicas whose traffic is throttled at the follower.",
        no_effect=_NOT_REPLICATED,
    ),
    TopicSetting(
        "leader.replication.throttled.replicas",
        None,
        throttled_replicas(),
        "",
        "Replicas whose traffic is throttled at the leader.",
        no_effect=_NOT_REPLICATED,
    ),
    TopicSetting(
        "local.retention.bytes",
        None,
        integer(-2),
        "-2",
        "Size up to which segments that are in remote storage too are kept on the disk.",
        no_effect=_NOT_TIERED,
    ),
    TopicSetting(
        "local.retention.ms",
        None,
        integer(-2),
        "-2",
        "Age up to which segments that are in remote storage too are kept on the disk.",
        no_effect=_NOT_TIERED,
    ),
    TopicSetting(
        "remote.log.copy.disable",
        None,
        boolean(),
        "false",
        "Whether no further segments are copied to remote storage.",
        no_effect=_NOT_TIERED,
    ),
    TopicSetting(
        "remote.log.delete.on.disable",
        None,
        boolean(),
        "false",
        "Whether remote segments are deleted when remote storage is switched off.",
        no_effect=_NOT_TIERED,
    ),
    TopicSetting(
        "remote.storage.enable",
        None,
        boolean(),
        "false",
        "Whether segments are copied to remote storage.",
        no_effect=_NOT_TIERED,
    ),
    TopicSetting(
        "segment.index.bytes",
        None,
        integer(4, INT_MAX),
        "10485760",
        "Size of the offset index of a segment; indexes grow as they are needed.",
        no_effect="indexes grow as they are needed",
    ),
)
