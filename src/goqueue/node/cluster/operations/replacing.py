"""A node on new hardware in place of a dead one: what must hold before, and what becomes of its member of etcd.

The new machine starts with an empty directory and the same node id. Registration then takes the node out of every
in-sync set, and its partitions are copied from the others: so these must have them. The dead machine's member of etcd
is removed here, for good: it must not vote again with what it last knew. The first start of the new machine adds it
again as a learner, and promotes it when it has caught up (`rejoining`).
"""

from __future__ import annotations

import asyncio

import msgspec

from goqueue.cluster.control.plan import nodes_of
from goqueue.config import Config
from goqueue.metadata.eligibility import eligible_of
from goqueue.metadata.image import Image
from goqueue.metadata.shared.etcd.connection import Connection
from goqueue.metadata.shared.etcd.servers import Member, members, server_at
from goqueue.metadata.shared.kv import KvError
from goqueue.node.cluster.operations.reachable import answering
from goqueue.node.cluster.voter import member_name
from goqueue.node.config.addresses import Address, parse_address
from goqueue.node.config.cluster_settings import parse_url, peers_of, voters_of

_SHOWN_MAX = 5


class Voters(msgspec.Struct, frozen=True):
    """The members of etcd: the one of the dead node, if it is still there, and the others that vote."""

    dead: Member | None
    others: tuple[Member, ...]
    answering: tuple[int, ...]

    @property
    def has_quorum_without(self) -> bool:
        """Whether changes of metadata go on when the dead one is removed."""
        return len(self.answering) >= len(self.others) // 2 + 1


def partitions_at_risk(image: Image, node_id: int) -> list[str]:
    """Partitions with a copy on this node that no other living node has in sync, each with what is known of it."""
    living = nodes_of(image).electable - {node_id}
    found = []
    for topic in image.topics():
        for number, one in enumerate(image.assignments(topic.topic_id)):
            if node_id not in one.replicas:
                continue
            trusted = {*one.isr, *eligible_of(image, topic, one)} - {node_id}
            if trusted & living:
                continue
            away = f"its other in-sync replicas are on nodes {_ids(trusted)}, which are away" if trusted else ""
            found.append(f"{topic.name}-{number}: {away or f'node {node_id} was its last in-sync replica'}")
    return found


def copies_on(image: Image, node_id: int) -> int:
    """How many partitions have a copy on that node."""
    return sum(node_id in one.replicas for topic in image.topics() for one in image.assignments(topic.topic_id))


async def problems_of_replacement(image: Image, config: Config, node_id: int, voters: Voters | None) -> list[str]:
    """Why that node must not be replaced now; empty if it may be. What would be lost is not among it."""
    if node_id not in peers_of(config) and node_id not in image.nodes():
        known = ", ".join(map(str, sorted({*peers_of(config), *image.nodes()})))
        return [f"there is no node {node_id} in this cluster: it has {known}"]
    problems = []
    if node_id in image.sessions:
        problems.append(
            f"node {node_id} has a session with the metadata store: it is alive. Stop it first; a node that was killed "
            f"keeps its session for {config.cluster.session_ms} ms"
        )
    running = [str(one) for one in await answering(_places(image, config, node_id, voters))]
    if running:
        problems.append(
            f"something answers at {', '.join(running)}, an address of node {node_id}: stop its processes, or cut its "
            "machine off, so that it does not come back beside its replacement"
        )
    if voters is not None and not voters.has_quorum_without:
        problems.append(
            f"only {len(voters.answering)} of the {len(voters.others)} other etcd servers answer: without node "
            f"{node_id}'s there would be no majority. Bring the others back first"
        )
    return problems


async def voters_around(connection: Connection, config: Config, node_id: int) -> Voters | None:
    """The members of a managed etcd; None if that node runs none. Raises `KvError`."""
    if config.metadata.mode != "managed" or node_id not in voters_of(config):
        return None
    url = voters_of(config)[node_id]
    listed = await members(connection)
    dead = next((one for one in listed if one.name == member_name(node_id) or url in one.peer_urls), None)
    others = tuple(one for one in listed if one is not dead and not one.is_learner)
    served = await asyncio.gather(*(_serves(connection, one) for one in others))
    return Voters(dead, others, tuple(one.member_id for one, is_there in zip(others, served, strict=True) if is_there))


def shortened(rows: list[str]) -> str:
    """The first of them, and how many more there are."""
    more = f"; and {len(rows) - _SHOWN_MAX} more" if len(rows) > _SHOWN_MAX else ""
    return "; ".join(rows[:_SHOWN_MAX]) + more


def _places(image: Image, config: Config, node_id: int, voters: Voters | None) -> list[Address]:
    """Every address at which the old machine listened."""
    node = image.nodes().get(node_id)
    found = [] if node is None else [parse_address(one) for one in node.addresses.values()]
    if node_id in peers_of(config):
        found.append(peers_of(config)[node_id])
    if voters is not None and voters.dead is not None:
        found += [parse_url(url) for url in (*voters.dead.peer_urls, *voters.dead.client_urls)]
    return found


async def _serves(connection: Connection, member: Member) -> bool:
    for url in member.client_urls:
        try:
            await server_at(connection, url)
        except KvError:
            continue
        return True
    return False


def _ids(nodes: set[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))
