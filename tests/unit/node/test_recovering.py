"""What a recovery of the metadata refuses before anything is changed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from goqueue.config import BrokerConfig, Config
from goqueue.errors import ConfigError
from goqueue.metadata.shared.kv_backup import MetadataBackup
from goqueue.node.cluster.belonging import FILE, Belonging
from goqueue.node.cluster.operations.recovering import check_cluster


def test_the_backup_of_another_cluster_is_refused(tmp_path: Path) -> None:
    config = Config(broker=BrokerConfig(data_dir=str(tmp_path)))
    backup = MetadataBackup(format=1, cluster_id="theirs", revision=7, pairs={})
    check_cluster(config, backup, Path("metadata.json"))  # the directory is new: nobody knows better
    (tmp_path / FILE).write_bytes(msgspec.json.encode(Belonging("ours", 1)))
    with pytest.raises(ConfigError, match=r"metadata.json is a backup of cluster theirs, and .* is of cluster ours"):
        check_cluster(config, backup, Path("metadata.json"))
    check_cluster(config, msgspec.structs.replace(backup, cluster_id="ours"), Path("metadata.json"))
