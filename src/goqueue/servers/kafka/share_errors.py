"""What ShareFetch says of a partition that gives nothing.

Share consumers know few errors there. Java's takes any other for a bug: `poll` raises IllegalStateException to the
application. Whatever passes is therefore told as an error that it tries again after, with the reason beside it.
"""

from __future__ import annotations

from goqueue.errors import GoQueueError, OffsetNotAvailable, wire_of
from goqueue.servers.kafka.api import error_code

# Corrupt message, unknown topic, not the leader, replica not available, storage, leader epochs, offset not available,
# topic ids.
_KNOWN = frozenset({2, 3, 6, 9, 56, 74, 75, 78, 100, 103})
_PASSES = wire_of(OffsetNotAvailable("")).kafka


def share_error_code(error: GoQueueError | None) -> int:
    """The number of this error in a partition's row of the answer to a ShareFetch."""
    code = error_code(error)
    return _PASSES if error is not None and code not in _KNOWN and wire_of(error).retriable else code
