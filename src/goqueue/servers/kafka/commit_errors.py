"""What OffsetCommit and TxnOffsetCommit say of an error.

Clients know few errors there, and take any other for the end: Kafka's own raises it to the application, and a
transactional one cannot go on. A commit waits for the partition that was read and for the group's log, so whatever
passes with them is told as Kafka tells it, as a coordinator that is not available for the moment.
"""

from __future__ import annotations

from goqueue.errors import CoordinatorUnavailable, wire_of
from goqueue.servers.kafka.api import error_code

# Leader not available or not the leader, network, too few replicas before and after the append, storage, leader epochs,
# offset not available, throttled.
_OF_LEADERS = frozenset({5, 6, 13, 19, 20, 56, 74, 75, 78, 89})
_UNAVAILABLE = wire_of(CoordinatorUnavailable("")).kafka


def commit_error_code(error: BaseException | None) -> int:
    """The number of this error in the answer to a commit."""
    code = error_code(error)
    return _UNAVAILABLE if code in _OF_LEADERS else code
