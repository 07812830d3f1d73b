"""Damage to the files of one replica, with real processes: not served, not led by, made whole from others, counted.

Files of every kind have a bit flipped, are cut or deleted, and a directory is replaced by an old copy of itself.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.campaign.readers import read_kafka, verify_files
from tests.e2e.cluster.loads.one_of_everything import TOPIC, Everything
from tests.e2e.cluster.real_nodes import RealNode, real_cluster
from tests.e2e.http import Http

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

KINDS = ("log", "index", "timeindex", "laneindex", "txnindex", "snapshot", "ckpt")
# A damaged leader hands over within a second; who leads is asked a few times in each.
LED_SECONDS_MAX = 2.0
WHOLE_SECONDS_MAX = 90.0


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOQUEUE_CLUSTER_LEADER_RETURN_MS", "1000")
        with real_cluster(tmp_path_factory.mktemp("damaged")) as cluster:
            found = Everything(cluster)
            found.fill()
            yield found


def victim_of(everything: Everything) -> RealNode:
    """The node to which leadership returns: it serves what was made whole."""
    number = everything.preferred()
    return next(node for node in everything.cluster.nodes if node.number == number)


def folders(node: RealNode) -> list[Path]:
    """Of the partition's data log, delay log and delivery log."""
    found = [node.data_dir / "logs" / TOPIC / name for name in ("0", "0.delay", "0.delivery")]
    assert all(one.is_dir() for one in found), found
    return found


def files_of(node: RealNode, kind: str, *, is_last: bool = False) -> list[Path]:
    """One file of that kind of each log of the family, as far as there is one."""
    found = [sorted(folder.glob(f"*.{kind}")) for folder in folders(node)]
    return [some[-1 if is_last else 0] for some in found if some]


def harm(path: Path, how: str) -> None:
    if how == "deleted":
        path.unlink()
        return
    content = bytearray(path.read_bytes())
    if how == "cut":
        del content[len(content) // 2 :]
    elif content:
        content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def metric(node: RealNode, name: str) -> float:
    """The sum over all rows of a series; 0 if it does not answer."""
    try:
        answer = Http(node.http.removeprefix("http://")).ask("GET", "/metrics")
    except (OSError, ValueError):
        return 0.0
    if answer.status != 200:
        return 0.0
    text = answer.body.decode()
    lines = [one for one in text.splitlines() if one.startswith((f"goqueue_{name} ", f"goqueue_{name}{{"))]
    return sum(float(one.rpartition(" ")[2]) for one in lines)


class Watch(threading.Thread):
    """Reads the topic again and again, and notes for how long a damaged replica leads."""

    def __init__(self, everything: Everything, victim: RealNode) -> None:
        super().__init__(daemon=True)
        self._everything = everything
        self._victim = victim
        self._known = list(everything.rows)
        self._done = threading.Event()
        self.wrong: list[str] = []

    def run(self) -> None:
        led_since = None
        while not self._done.is_set():
            is_damaged = metric(self._victim, "storage_damaged_frames") > 0
            leads = is_damaged and self._everything.leader() == self._victim.number
            led_since = (led_since or time.monotonic()) if leads else None
            if led_since is not None and time.monotonic() - led_since > LED_SECONDS_MAX:
                self.wrong.append("a damaged replica leads although others are healthy")
            self._read()
            self._done.wait(0.2)

    def _read(self) -> None:
        try:
            rows = read_kafka(self._everything.cluster.bootstrap_servers, TOPIC)
        except AssertionError as problem:
            if "no end of" not in str(problem):
                self.wrong.append(f"a reader was refused: {problem}")
            return
        if rows[: len(self._known)] != self._known:
            self.wrong.append("readers saw something else than was written")

    def end(self) -> None:
        self._done.set()
        self.join(150)
        assert not self.wrong, set(self.wrong)


def wait_whole(everything: Everything, victim: RealNode) -> None:
    """Until nothing is damaged, all replicas are in sync, and the victim leads again."""
    deadline = time.monotonic() + WHOLE_SECONDS_MAX
    everything.cluster.wait_whole()
    while metric(victim, "storage_damaged_frames") > 0 or everything.leader() != victim.number:
        assert time.monotonic() < deadline, (
            f"leader {everything.leader()}, victim {victim.number}, "
            f"{metric(victim, 'storage_damaged_frames')} damaged\n{victim.log.read_text()[-2000:]}"
        )
        time.sleep(0.3)
    everything.cluster.wait_whole()


def repairs(victim: RealNode) -> float:
    return metric(victim, "storage_repaired_segments_total") + metric(victim, "storage_replicas_copied_anew_total")


def play(everything: Everything, what: str, *, is_counted: bool = False, harmed: list[Path] | None = None) -> None:
    """One node dies, its files are harmed, and it comes back."""
    victim = victim_of(everything)
    wait_whole(everything, victim)
    everything.add()
    victim.kill()
    watch = Watch(everything, victim)
    watch.start()
    how = what.split(maxsplit=1)[0]
    assert harmed, f"there is no file to be {what}"
    for path in harmed:
        harm(path, how)
    victim.start()
    everything.cluster.wait_ready([victim])
    if is_counted:
        deadline = time.monotonic() + WHOLE_SECONDS_MAX
        while not repairs(victim) and time.monotonic() < deadline:
            time.sleep(0.3)
        assert repairs(victim), f"{what}: no repair was counted"
    wait_whole(everything, victim)
    watch.end()
    everything.check()
    print(f"{what}: {len(harmed)} files, {repairs(victim):.0f} repairs counted", flush=True)


@pytest.mark.parametrize("how", ["flipped", "deleted", "cut"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_one_kind_harmed_while_their_node_is_down(everything: Everything, kind: str, how: str) -> None:
    victim = victim_of(everything)
    play(everything, f"{how} {kind}", is_counted=kind == "log", harmed=files_of(victim, kind))


@pytest.mark.parametrize("how", ["flipped", "cut"])
def test_the_last_segments_harmed_while_their_node_is_down(everything: Everything, how: str) -> None:
    play(everything, f"{how} last log", harmed=files_of(victim_of(everything), "log", is_last=True))


@pytest.mark.parametrize("how", ["flipped", "deleted", "cut"])
def test_the_due_index_harmed_while_its_node_is_down(everything: Everything, how: str) -> None:
    victim = victim_of(everything)
    # What was written last is in the write-ahead log of the index, the rest in the file.
    harmed = [one for one in (victim.data_dir / "delay").glob("due-*.index*") if not one.name.endswith("-shm")]
    play(everything, f"{how} due index", harmed=harmed)


def test_segments_harmed_while_their_node_leads(everything: Everything) -> None:
    victim = victim_of(everything)
    wait_whole(everything, victim)
    everything.add()
    before = repairs(victim)
    watch = Watch(everything, victim)
    watch.start()
    for folder in folders(victim):
        for path in sorted(folder.glob("*.log"))[:-1][:3]:
            with path.open("r+b") as file:
                file.seek(path.stat().st_size // 2)
                byte = file.read(1)
                file.seek(-1, 1)
                file.write(bytes([byte[0] ^ 0x10]))
    deadline = time.monotonic() + WHOLE_SECONDS_MAX
    while repairs(victim) == before and time.monotonic() < deadline:
        time.sleep(0.3)
    assert repairs(victim) > before, "no repair was counted"
    wait_whole(everything, victim)
    watch.end()
    everything.check()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_directory_replaced_by_an_old_copy_of_itself(everything: Everything, is_clean: bool) -> None:
    victim = victim_of(everything)
    wait_whole(everything, victim)
    copy = victim.data_dir.with_name("old-copy")
    victim.stop() if is_clean else victim.kill()
    shutil.copytree(victim.data_dir, copy)
    victim.start()
    everything.cluster.wait_ready([victim])
    wait_whole(everything, victim)
    for _ in range(4):
        everything.add()
    victim.kill()
    shutil.rmtree(victim.data_dir)
    copy.rename(victim.data_dir)
    watch = Watch(everything, victim)
    watch.start()
    victim.start()
    everything.cluster.wait_ready([victim])
    wait_whole(everything, victim)
    watch.end()
    everything.check()
    # The copy has the data of its etcd as well, which must not vote by what it knew then.
    deadline = time.monotonic() + WHOLE_SECONDS_MAX
    while not is_etcd_healthy(victim):
        assert time.monotonic() < deadline, victim.log.read_text()[-2000:]
        time.sleep(0.5)


def is_etcd_healthy(node: RealNode) -> bool:
    try:
        with urllib.request.urlopen(f"{node.etcd}/health", timeout=5) as response:
            return bool(json.loads(response.read())["health"] == "true")
    except OSError:
        return False


def test_all_replicas_are_the_same_and_sound_in_the_end(everything: Everything) -> None:
    cluster = everything.cluster
    cluster.wait_whole()
    everything.check()
    for node in cluster.nodes:
        node.stop()
    assert [one for node in cluster.nodes for one in verify_files(node.data_dir)] == []
    assert len({content(node) for node in cluster.nodes}) == 1, "the replicas differ"


def content(node: RealNode) -> bytes:
    """The frames of the data log. Segments may begin elsewhere after a repair."""
    return b"".join(path.read_bytes() for path in sorted(folders(node)[0].glob("*.log")))
