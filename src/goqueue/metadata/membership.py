"""Membership: which nodes there are, which of them have a session, and which one is the controller.

Sessions and the controller are written by whoever holds their lease, and never by a commit: an image learns of them
from its store. A broker epoch, as a controller epoch, is the revision at which its key was created, with the
generation of the cluster in front: revisions go back when metadata is restored from a backup, epochs do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from goqueue.metadata import keys
from goqueue.metadata.events import ControllerChanged, Node, NodeChanged, SessionChanged

MembershipEvent = NodeChanged | SessionChanged | ControllerChanged

_REVISION_BITS = 40


def epoch_of(generation: int, revision: int) -> int:
    """The epoch of a key that was created at this revision; 0 if there is no such key."""
    return generation << _REVISION_BITS | revision if revision else 0


def created_at(epoch: int) -> int:
    """The revision at which the key of this epoch was created."""
    return epoch & ((1 << _REVISION_BITS) - 1)


def generation_of(epoch: int) -> int:
    """The generation in which an epoch was given out."""
    return epoch >> _REVISION_BITS


class Membership:
    """The nodes of the cluster, as the image has them."""

    __slots__ = ("_nodes", "_sessions", "controller")

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._sessions: dict[int, int] = {}
        # Node id and controller epoch.
        self.controller: tuple[int, int] | None = None

    @property
    def nodes(self) -> Mapping[int, Node]:
        """All that registered, living or not, by id."""
        return MappingProxyType(self._nodes)

    @property
    def sessions(self) -> Mapping[int, int]:
        """The broker epoch of every node that has a session, by id."""
        return MappingProxyType(self._sessions)

    def copy(self) -> Membership:
        """One on which events can be tried."""
        copied = Membership()
        copied._nodes = self._nodes.copy()
        copied._sessions = self._sessions.copy()
        copied.controller = self.controller
        return copied

    def take(self, event: MembershipEvent) -> Iterable[str]:
        """Change it; returns the keys that were written."""
        match event:
            case NodeChanged(node_id, node):
                self._nodes.pop(node_id, None)
                if node is None:
                    return ()
                self._nodes[node_id] = node
                return (keys.node_key(node_id),)
            case SessionChanged(node_id, epoch):
                self._sessions.pop(node_id, None)
                if epoch:
                    self._sessions[node_id] = epoch
                return ()
            case ControllerChanged(node_id, epoch):
                self.controller = (node_id, epoch) if epoch else None
                return ()
