"""MetadataStore: the port through which all parts of the broker read and change metadata.

Two engines: `local` keeps a log on the node's own disk; `kv_store` stands on a key-value store that
several nodes share. A change is worked out from the image and committed with guards, which name
the revisions that it was worked out from. A guard that no longer holds is `GuardFailed`; the image
then shows what refuted it, so the caller works the change out anew and tries again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

import msgspec

from goqueue.log.state.log_end import LogEnd
from goqueue.metadata.events import Delta, Event
from goqueue.metadata.image import Image

Listener = Callable[[Delta], None]


class Guard(msgspec.Struct, frozen=True):
    """A commit is made only while this key has this revision; `ABSENT` while the key is not there."""

    key: str
    revision: int

    def compared(self, image: Image) -> tuple[int, int]:
        """What is expected, and what the image has."""
        return self.revision, image.revision_of(self.key)


class SessionGuard(msgspec.Struct, frozen=True):
    """A commit is made only while the session that holds this key is the one that began with this epoch.

    The key is that of a node's session or that of the controller, and the epoch is as the image has it.
    """

    key: str
    epoch: int

    def compared(self, image: Image) -> tuple[int, int]:
        """What is expected, and what the image has."""
        return self.epoch, image.session_epoch(self.key)


class RevisionCompacted(Exception):
    """The deltas after that revision are no longer kept: read the image, and watch from its revision."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"deltas after revision {asked} are gone, those after {oldest} are kept")
        self.oldest = oldest


class MetadataStore(Protocol):
    """The image, guarded commits, and a delta per committed transaction."""

    @property
    def image(self) -> Image:
        """What is durable and known to this node. It changes in place, one whole transaction at a time."""
        ...

    @property
    def cluster_id(self) -> str:
        """The id that the cluster got at its first start."""
        ...

    async def commit(self, events: Sequence[Event], guards: Sequence[Guard | SessionGuard] = ()) -> int:
        """Make the events durable as one transaction, all or none, and return its revision.

        On return the image has the events and every listener has the delta. A refusal (`GuardFailed`, or
        the error of an event that contradicts the image) is raised once the image shows its reason.
        """
        ...

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every delta, in order, right after the image took it in."""
        ...

    def watch(self, after: int) -> AsyncIterator[Delta]:
        """Every delta after that revision, once and in order; raises `RevisionCompacted` if one is gone."""
        ...

    async def catch_up(self) -> None:
        """Wait until the image shows every transaction that was committed before this call."""
        ...

    def problem(self) -> str | None:
        """Why no change can be made at present; None if it can."""
        ...

    def log_ends(self) -> list[LogEnd]:
        """Up to where a copy of this node's own metadata files is whole; empty if it has none."""
        ...

    async def close(self) -> None:
        """Finish what is under way. A second close does no harm."""
        ...
