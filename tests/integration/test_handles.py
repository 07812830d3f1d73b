"""Open files: bounded while running, given back when done."""

from __future__ import annotations

from pathlib import Path

from tests.integration.conftest import OpenStack

from goqueue.config import Config, LogConfig
from goqueue.records import Acks


def open_files(data_dir: Path) -> int:
    """Handles on partitions, deleted ones included."""
    count = 0
    for handle in Path("/proc/self/fd").iterdir():
        try:
            path = str(handle.readlink()).removeprefix(str(data_dir))
            count += path.startswith(("/logs/", "/deleted/"))
        except FileNotFoundError:
            # The listing's own handle, which is gone by now.
            continue
    return count


async def test_segments_of_all_partitions_share_one_bound(open_stack: OpenStack, data_dir: Path) -> None:
    stack = await open_stack(config=Config(log=LogConfig(open_files_max=8)))
    partitions = 6
    await stack.topic("t", partitions, segment_bytes="1024")
    for partition in range(partitions):
        for _ in range(12):
            stack.publish.append("t", partition, stack.batch(bytes(600)), acks=Acks.LEADER)
        # What is not yet synced stays open for the sync.
        await stack.flusher.flush()
    for partition in range(partitions):
        assert len(await stack.read_all("t", partition)) == 12
    # The segment opened last may have opened its indexes since: it has five files at most, the log and four indexes.
    assert open_files(data_dir) <= 8 + 4
    await stack.stop()
    assert open_files(data_dir) == 0


async def test_a_deleted_topic_gives_its_files_back(open_stack: OpenStack, data_dir: Path) -> None:
    stack = await open_stack()
    for number in range(5):
        await stack.topic(f"t{number}", 2)
        for partition in (0, 1):
            await stack.write(b"v", topic=f"t{number}", partition=partition)
            assert len(await stack.read_all(f"t{number}", partition)) == 1
        assert open_files(data_dir) > 0
        await stack.topics.delete(f"t{number}")
    await stack.stop()
    assert open_files(data_dir) == 0
