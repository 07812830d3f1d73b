"""The series of security: logins that failed, and the audit log."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from goqueue.node.metrics.series import Series
from goqueue.security.service import Security

FAILED_LOGINS = Series("security_failed_logins", "Logins that failed, over all addresses.")
AUDIT_EVENTS = Series("security_audit_events", "Events that were written to the audit log.")
AUDIT_DROPPED = Series("security_audit_events_dropped", "Events of the audit log that were lost.")


def security_metrics(security: Security) -> Iterator[Metric]:
    """Every series of security, with its rows."""
    yield FAILED_LOGINS.counter([((), security.authenticator.failures.total)])
    yield AUDIT_EVENTS.counter([((), security.audit.written)])
    yield AUDIT_DROPPED.counter([((), security.audit.dropped)])
