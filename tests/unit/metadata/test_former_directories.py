"""Data directories written before metadata had guards and deltas open with all they hold.

`data/directory-without-a-mark.json` was written by that version: one directory after a clean stop
and one as a kill left it. Both have three topics made, one of them deleted, a reserved block of
producer ids, a partition added and one raised leader epoch.
"""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.unit.broker.stack import at_once

from goqueue.metadata.events import ProducerIdsReserved
from goqueue.metadata.image import ABSENT
from goqueue.metadata.keys import PRODUCER_IDS, topic_key
from goqueue.metadata.local import LocalMetadata
from goqueue.metadata.store import Guard
from goqueue.testing.clock import ManualClock
from goqueue.testing.memory_files import MemoryFiles

WRITTEN = json.loads((Path(__file__).parent / "data" / "directory-without-a-mark.json").read_text())


def former_directory(end: str) -> MemoryFiles:
    files = MemoryFiles()
    for path, content in WRITTEN[end]["files"].items():
        files.make_dirs(path.rpartition("/")[0])
        files.replace(path, b64decode(content))
    return files


def opened(files: MemoryFiles) -> LocalMetadata:
    return LocalMetadata.open(files, clock=ManualClock(), rng=Random(9), offload=at_once)


@pytest.mark.parametrize(("end", "epoch"), [("clean", 1), ("killed", 2)])
async def test_a_former_directory_opens_with_all_it_holds(end: str, epoch: int) -> None:
    metadata = opened(former_directory(end))
    image = metadata.image
    assert metadata.cluster_id == WRITTEN[end]["cluster_id"]
    orders, offsets = image.topic("orders"), image.topic("__consumer_offsets")
    assert orders is not None
    assert offsets is not None
    assert (orders.topic_id, orders.partition_count, dict(orders.config)) == (UUID(int=1), 4, {"retention.ms": "5"})
    assert (orders.created_ms, orders.internal, offsets.internal) == (1_700_000_000_000, False, True)
    # A kill raises every leader epoch once more, as it did before.
    assert [one.leader_epoch for one in image.assignments(UUID(int=1))] == [epoch] * 4
    assert [one.leader_epoch for one in image.assignments(UUID(int=3))] == [epoch - 1] * 2
    assert image.deletions() == {UUID(int=2): "old"}
    assert image.next_producer_id == 2000


async def test_a_former_directory_takes_guarded_commits_whose_revisions_outlast_a_restart() -> None:
    files = former_directory("clean")
    metadata = opened(files)
    known = metadata.image.revision_of(PRODUCER_IDS)
    assert ABSENT < known < metadata.image.revision_of(topic_key("orders")) <= metadata.image.revision
    revision = await metadata.commit([ProducerIdsReserved(3000)], [Guard(PRODUCER_IDS, known)])
    await metadata.close()
    again = opened(files)
    assert again.image.revision_of(PRODUCER_IDS) == revision
    assert again.image.next_producer_id == 3000
