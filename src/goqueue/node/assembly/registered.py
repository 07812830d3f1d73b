"""This node as others find it in the metadata: its addresses, version and the feature levels that it knows."""

from __future__ import annotations

from uuid import UUID

from goqueue.build_info import build_info
from goqueue.metadata.events import Node
from goqueue.metadata.features import agreed_levels
from goqueue.node.assembly.tools import Tools


def this_node(tools: Tools, directory_id: UUID, *, fenced: bool = False, peer: str = "") -> Node:
    """The value that is registered. `peer` is the address for traffic between nodes, of a node in a cluster."""
    world, config = tools.world, tools.config
    addresses = {one.spec.name: str(one.advertised) for one in world.listeners or ()}
    if not addresses:
        # Listens nowhere: known by what its settings say.
        addresses = {"kafka": str(world.advertised), "http": str(world.http)}
    if peer:
        addresses["peer"] = peer
    return Node(
        node_id=config.broker.node_id,
        directory_id=directory_id,
        broker_epoch=0 if fenced else 1,
        fenced=fenced,
        addresses=addresses,
        rack=config.cluster.rack,
        version=build_info().version,
        features=agreed_levels(config.cluster.metadata_level_max),
        clean_token="",
    )
