"""What front-ends get of security: who clients are, what they may do, and what is written down of it."""

from __future__ import annotations

import msgspec

from goqueue.clock import Clock
from goqueue.config import SecurityConfig
from goqueue.security.access import Access
from goqueue.security.admin import SecurityAdmin
from goqueue.security.audit import AuditLog
from goqueue.security.authentication import Authenticator
from goqueue.security.store import SecurityStore


class Security(msgspec.Struct, frozen=True):
    """There when security is on."""

    config: SecurityConfig
    store: SecurityStore
    access: Access
    authenticator: Authenticator
    clock: Clock
    audit: AuditLog
    admin: SecurityAdmin
