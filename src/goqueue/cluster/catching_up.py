"""Whether the replicas of this node have caught up since its session began.

Once they have, the node counts as caught up for as long as the session lasts: a replica that falls behind later is
shown as under-replicated, and the node serves all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from goqueue.cluster.control.plan import is_electable

if TYPE_CHECKING:
    from goqueue.metadata.image import Image

_SHOWN_MAX = 5


class CatchingUp:
    """Of one node, through one session after the other."""

    def __init__(self, node_id: int, image: Callable[[], Image]) -> None:
        self._node_id = node_id
        self._image = image
        # The session in which it was seen to have caught up.
        self._done_in = 0

    def problem(self) -> str | None:
        """Which replicas are not in sync yet; None if none is, or none can be because nobody leads it."""
        image = self._image()
        epoch = image.sessions.get(self._node_id, 0)
        if epoch and epoch == self._done_in:
            return None
        behind = self._behind(image)
        if behind:
            more = ", ..." if len(behind) > _SHOWN_MAX else ""
            return f"{len(behind)} replicas have not caught up since the start: {', '.join(behind[:_SHOWN_MAX])}{more}"
        self._done_in = epoch
        return None

    def _behind(self, image: Image) -> list[str]:
        nodes = image.nodes()
        leaders = {node_id for node_id, node in nodes.items() if is_electable(image, node)}
        return [
            f"{topic.name}-{number}"
            for topic in image.topics()
            for number, one in enumerate(image.assignments(topic.topic_id))
            if self._node_id in one.replicas and self._node_id not in one.isr and one.leader in leaders
        ]
