"""What happens to one node at a time. Each fault is over, and its node ready, when its function returns."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from tests.e2e.cluster.network import Network
from tests.e2e.cluster.real_nodes import RealCluster, RealNode

Fault = Callable[[RealCluster, RealNode, Random], None]

# Shorter than a session, or longer, or longer than a replica may lag.
_SECONDS = (0.5, 14.0)


def possible_faults(cluster: RealCluster) -> list[Fault]:
    """Those that this process may cause."""
    found: list[Fault] = [kill_machine, kill_broker, freeze, restart, lose_data, lose_etcd]
    if cluster.network is not None:
        found += [cut_off, deafen, mute]
    disks = [node.disk for node in cluster.nodes if node.disk is not None]
    if disks and all(one.can_fill_up for one in disks):
        found.append(fill_disk)
    if disks and all(one.can_be_slow for one in disks):
        found.append(slow_disk)
    return found


def kill_machine(cluster: RealCluster, node: RealNode, rng: Random) -> None:
    """Broker, supervisor and etcd at once."""
    node.kill()
    time.sleep(rng.uniform(*_SECONDS))
    node.start()
    cluster.wait_ready([node])


def kill_broker(cluster: RealCluster, node: RealNode, _rng: Random) -> None:
    """The broker alone; its supervisor starts it again."""
    node.kill_broker()
    time.sleep(1)
    cluster.wait_ready([node])


def freeze(cluster: RealCluster, node: RealNode, rng: Random) -> None:
    """SIGSTOP: longer than a session, or shorter."""
    node.freeze()
    time.sleep(rng.uniform(*_SECONDS))
    node.thaw()
    cluster.wait_ready([node])


def restart(cluster: RealCluster, node: RealNode, _rng: Random) -> None:
    """A clean stop and a start."""
    node.stop()
    node.start()
    cluster.wait_ready([node])


def cut_off(cluster: RealCluster, node: RealNode, rng: Random) -> None:
    """Nobody reaches it, and it reaches nobody."""
    with _broken_network(cluster, node, rng) as network:
        network.isolate(node.number)


def deafen(cluster: RealCluster, node: RealNode, rng: Random) -> None:
    """What is sent to it is lost; what it sends arrives."""
    with _broken_network(cluster, node, rng) as network:
        network.deafen(node.number)


def mute(cluster: RealCluster, node: RealNode, rng: Random) -> None:
    """What it sends is lost; what is sent to it arrives."""
    with _broken_network(cluster, node, rng) as network:
        network.mute(node.number)


def fill_disk(cluster: RealCluster, node: RealNode, rng: Random) -> None:
    """No room on the disk of its data."""
    assert node.disk is not None
    node.disk.fill()
    time.sleep(rng.uniform(*_SECONDS))
    node.disk.make_room()
    cluster.wait_ready([node])


def slow_disk(cluster: RealCluster, node: RealNode, rng: Random) -> None:
    """Every sync of its broker takes much longer."""
    assert node.disk is not None
    node.disk.slow_down()
    time.sleep(rng.uniform(*_SECONDS))
    node.disk.speed_up()
    cluster.wait_ready([node])


def lose_data(cluster: RealCluster, node: RealNode, rng: Random) -> None:
    """Its machine dies and gets a new disk; the others have a copy of everything."""
    cluster.wait_whole()
    node.kill()
    for one in node.data_dir.iterdir():
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink()
    time.sleep(rng.uniform(0, 3))
    node.start()
    cluster.wait_ready([node])
    cluster.wait_whole()


def lose_etcd(cluster: RealCluster, node: RealNode, rng: Random) -> None:
    """Its machine dies, and what its etcd stored is gone: it joins the others again as a learner."""
    cluster.wait_whole()
    node.kill()
    shutil.rmtree(node.etcd_dir)
    time.sleep(rng.uniform(0, 3))
    node.start()
    cluster.wait_ready([node])
    cluster.wait_whole()


# Another copy must be whole while these last, and is made whole before the next fault.
LOSSES: tuple[Fault, ...] = (lose_data, lose_etcd)


@contextmanager
def _broken_network(cluster: RealCluster, node: RealNode, rng: Random) -> Iterator[Network]:
    assert cluster.network is not None
    yield cluster.network
    time.sleep(rng.uniform(*_SECONDS))
    cluster.network.mend(node.number)
    cluster.wait_ready([node])
