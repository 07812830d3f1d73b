"""Nodes, sessions and the controller as pairs of the shared store.

A session key and the controller's key are written once, under a lease, by a transaction that finds them absent. So the
revision of such a pair is the one at which it was created, and makes its epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from goqueue.errors import InvalidRequest
from goqueue.metadata import keys
from goqueue.metadata.events import ControllerChanged, Event, Node, NodeChanged, SessionChanged
from goqueue.metadata.image import Image
from goqueue.metadata.membership import epoch_of

Pairs = Mapping[str, tuple[bytes, int]]


def encode_node(node: Node) -> bytes:
    """A node's value."""
    return msgspec.json.encode(node)


def decode_node(value: bytes) -> Node:
    """The node of such a value; raises `msgspec.DecodeError`."""
    return msgspec.json.decode(value, type=Node)


def member_changes(image: Image, pairs: Pairs, touched: Iterable[str]) -> Iterator[Event]:
    """What became of nodes, sessions and the controller when these keys changed."""
    generation = generation_in(pairs)
    for key in touched:
        held = pairs.get(key)
        if key.startswith(keys.NODES):
            node_id = int(key.removeprefix(keys.NODES))
            node = None if held is None else decode_node(held[0])
            if node is not None or node_id in image.nodes():
                yield NodeChanged(node_id, node)
        elif key.startswith(keys.SESSIONS):
            node_id = int(key.removeprefix(keys.SESSIONS))
            epoch = 0 if held is None else epoch_of(generation, held[1])
            if epoch != image.sessions.get(node_id, 0):
                yield SessionChanged(node_id, epoch)
        elif key == keys.CONTROLLER:
            before = image.controller
            after = None if held is None else (int(held[0]), epoch_of(generation, held[1]))
            if after != before:
                yield ControllerChanged(*(after or (-1 if before is None else before[0], 0)))


def generation_in(pairs: Pairs) -> int:
    """How often the cluster's metadata was restored from a backup."""
    held = pairs.get(keys.GENERATION)
    return 0 if held is None else int(held[0])


def not_committed(event: Event) -> InvalidRequest:
    """The refusal of an event that only a lease may bring about."""
    return InvalidRequest(f"{type(event).__name__} follows from a lease, and cannot be committed")
