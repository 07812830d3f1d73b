"""Users, keys, roles, bindings and rules: read from the metadata, changed through it.

The tables here follow the image with every delta. Listeners are told which principals have lost something, so that
their connections can be closed.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from goqueue.errors import Conflict, InvalidRequest, NotFound, UnsupportedFeatureLevel
from goqueue.metadata.events import Delta, Event, FeatureFinalised, SecurityChanged
from goqueue.metadata.features import SECURITY_VERSION, is_agreed
from goqueue.metadata.store import MetadataStore
from goqueue.security.access import Access
from goqueue.security.model import (
    ANY_PRINCIPAL,
    BUILT_IN_ROLES,
    Acl,
    ApiKey,
    Binding,
    Operation,
    Pattern,
    Permission,
    Resource,
    Role,
    User,
)

USER, KEY, ROLE, BINDING, ACL, SECRET = "user", "key", "role", "binding", "acl", "secret"
_DECOYS = "decoys"

# Principals that may have lost an access or a credential; None: everybody.
Losers = frozenset[str] | None


class SecurityStore:
    """All that is stored about who may do what."""

    def __init__(self, metadata: MetadataStore, access: Access) -> None:
        self._metadata = metadata
        self._access = access
        self._listeners: list[Callable[[Losers], None]] = []
        self.users: dict[str, User] = {}
        self.keys: dict[str, ApiKey] = {}
        self.roles: dict[str, Role] = {}
        self.bindings: set[Binding] = set()
        self.acls: set[Acl] = set()
        # From which the salts of users who do not exist are made; until one is stored, that of this process.
        self.decoy_secret = secrets.token_bytes(32)
        self._has_secret = False
        for (kind, name), value in metadata.image.security_values().items():
            self._take(kind, name, value)
        self._publish()
        metadata.subscribe(self._on_delta)

    @property
    def is_empty(self) -> bool:
        """Whether nobody could log in."""
        return not self.users and not self.keys

    def subscribe(self, listener: Callable[[Losers], None]) -> None:
        """Call `listener` with the principals that have lost something, right after it took effect."""
        self._listeners.append(listener)

    # --- changes ------------------------------------------------------------------------

    async def put_user(self, user: User) -> None:
        """Store a user."""
        await self.commit([SecurityChanged(USER, user.name, msgspec.json.encode(user))])

    async def delete_user(self, name: str) -> None:
        """Remove a user. Rules and roles of the principal stay: a certificate or a token may have the same name."""
        if name not in self.users:
            raise NotFound(f"there is no user {name[:200]!r}")
        await self.commit([SecurityChanged(USER, name, None)])

    async def put_key(self, key: ApiKey) -> None:
        """Store an API key."""
        await self.commit([SecurityChanged(KEY, key.id, msgspec.json.encode(key))])

    async def delete_key(self, key_id: str) -> None:
        """Remove an API key: it stops working at once."""
        if key_id not in self.keys:
            raise NotFound(f"there is no API key {key_id[:80]!r}")
        await self.commit([SecurityChanged(KEY, key_id, None)])

    async def put_role(self, role: Role) -> None:
        """Store a role of one's own."""
        if role.name in BUILT_IN_ROLES:
            raise Conflict(f"role {role.name!r} is built in and cannot be changed")
        _check_role(role)
        await self.commit([SecurityChanged(ROLE, role.name, msgspec.json.encode(role))])

    async def delete_role(self, name: str) -> None:
        """Remove a role; refused while it is bound."""
        if name in BUILT_IN_ROLES:
            raise Conflict(f"role {name!r} is built in and cannot be deleted")
        if name not in self.roles:
            raise NotFound(f"there is no role {name[:200]!r}")
        if any(one.role == name for one in self.bindings):
            raise Conflict(f"role {name!r} is bound to principals: remove the bindings first")
        await self.commit([SecurityChanged(ROLE, name, None)])

    async def bind(self, binding: Binding) -> None:
        """Give a principal a role."""
        if binding.role not in self.roles and binding.role not in BUILT_IN_ROLES:
            known = ", ".join(sorted({*self.roles, *BUILT_IN_ROLES}))
            raise InvalidRequest(f"there is no role {binding.role[:200]!r}", field="role", hint=f"known: {known}")
        await self.commit([SecurityChanged(BINDING, binding_name(binding), b"{}")])

    async def unbind(self, binding: Binding) -> None:
        """Take a role away."""
        if binding not in self.bindings:
            raise NotFound(f"{binding.principal[:200]} does not have role {binding.role[:200]!r} for that prefix")
        await self.commit([SecurityChanged(BINDING, binding_name(binding), None)])

    async def add_acls(self, acls: Collection[Acl]) -> None:
        """Add rules; those that are there already do no harm."""
        await self.commit([SecurityChanged(ACL, _acl_name(one), b"{}") for one in acls if one not in self.acls])

    async def delete_acls(self, acls: Collection[Acl]) -> None:
        """Remove rules."""
        await self.commit([SecurityChanged(ACL, _acl_name(one), None) for one in acls if one in self.acls])

    async def keep_secrets(self) -> None:
        """Store the secrets that nodes share, unless they are stored. Of two nodes that do so at once, one wins."""
        if self._has_secret:
            return
        # During an upgrade the level may not be agreed on yet: the next start stores it.
        with suppress(UnsupportedFeatureLevel):
            await self.commit([SecurityChanged(SECRET, _DECOYS, self.decoy_secret.hex().encode())])

    async def commit(self, events: Sequence[Event]) -> None:
        """Make changes durable; the first of all also finalises the feature level that stores them."""
        if not events:
            return
        image = self._metadata.image
        is_final = bool(image.feature_levels().get(SECURITY_VERSION))
        if not is_final and is_agreed(SECURITY_VERSION, 1, image.nodes().values()):
            events = [FeatureFinalised(SECURITY_VERSION, 1), *events]
        await self._metadata.commit(events)

    # --- following the image ------------------------------------------------------------

    def _on_delta(self, delta: Delta) -> None:
        changes = [event for event in delta.events if isinstance(event, SecurityChanged)]
        if not changes:
            return
        losers: set[str] = set()
        for event in changes:
            losers |= self._losers(event)
            self._take(event.kind, event.name, event.value)
        self._publish()
        told = None if ANY_PRINCIPAL in losers else frozenset(losers)
        if told is None or told:
            for listener in self._listeners:
                listener(told)

    def _losers(self, event: SecurityChanged) -> set[str]:
        """Who loses something by the event; worked out before it is applied."""
        match event.kind:
            case "user":
                return {f"User:{event.name}"} if event.name in self.users else set()
            case "key":
                held = self.keys.get(event.name)
                if held is None:
                    return set()
                is_same = event.value is not None and (
                    msgspec.json.decode(event.value, type=ApiKey).sha256 == held.sha256
                )
                return set() if is_same else {held.principal}
            case "role":
                return {one.principal for one in self.bindings if one.role == event.name}
            case "binding":
                return {Binding(*json.loads(event.name)).principal} if event.value is None else set()
            case "acl":
                acl = _acl(event.name)
                is_loss = event.value is None if acl.permission is Permission.ALLOW else event.value is not None
                return {acl.principal} if is_loss else set()
        return set()

    def _take(self, kind: str, name: str, value: bytes | None) -> None:
        match kind:
            case "user":
                _put(self.users, name, value, User)
            case "key":
                _put(self.keys, name, value, ApiKey)
            case "role":
                _put(self.roles, name, value, Role)
            case "binding":
                _include(self.bindings, Binding(*json.loads(name)), wanted=value is not None)
            case "acl":
                _include(self.acls, _acl(name), wanted=value is not None)
            case "secret" if name == _DECOYS and value is not None:
                self.decoy_secret, self._has_secret = bytes.fromhex(value.decode()), True

    def _publish(self) -> None:
        self._access.set(self.acls, self.bindings, self.roles)


def matching_acls(
    acls: Iterable[Acl],
    *,
    resource: Resource = Resource.ANY,
    name: str | None = None,
    pattern: Pattern = Pattern.ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: Operation = Operation.ANY,
    permission: Permission = Permission.ANY,
) -> list[Acl]:
    """The rules that a filter of Kafka's tools means. `MATCH` means all rules that concern the name."""
    found = [
        one
        for one in acls
        if resource in (Resource.ANY, one.resource)
        and principal in (None, one.principal)
        and host in (None, one.host)
        and operation in (Operation.ANY, one.operation)
        and permission in (Permission.ANY, one.permission)
        and _is_meant(one, name, pattern)
    ]
    return sorted(found)


def _is_meant(acl: Acl, name: str | None, pattern: Pattern) -> bool:
    if pattern is Pattern.MATCH:
        if name is None:
            return True
        return name.startswith(acl.name) if acl.pattern is Pattern.PREFIXED else acl.name in (name, "*")
    return pattern in (Pattern.ANY, acl.pattern) and name in (None, acl.name)


def _check_role(role: Role) -> None:
    for grant in role.grants:
        if grant.resource.upper() not in Resource.__members__ or grant.resource == "any":
            raise InvalidRequest(
                f"{grant.resource[:80]!r} is not a resource",
                field="grants",
                hint="use topic, group, cluster or transactional_id",
            )
        for operation in grant.operations:
            if operation.upper() not in Operation.__members__ or operation == "any":
                known = ", ".join(one.name.lower() for one in Operation if one is not Operation.ANY)
                raise InvalidRequest(f"{operation[:80]!r} is not an operation", field="grants", hint=f"use {known}")


def _put(table: dict[str, object] | Mapping[str, object], name: str, value: bytes | None, kind: type) -> None:
    assert isinstance(table, dict)  # noqa: S101 - tells the checker what our own callers pass
    if value is None:
        table.pop(name, None)
    else:
        table[name] = msgspec.json.decode(value, type=kind)


def _include(table: set[object] | Collection[object], value: object, *, wanted: bool) -> None:
    assert isinstance(table, set)  # noqa: S101 - tells the checker what our own callers pass
    if wanted:
        table.add(value)
    else:
        table.discard(value)


def _acl_name(acl: Acl) -> str:
    return json.dumps(list(acl))


def binding_name(binding: Binding) -> str:
    """What a binding is stored under."""
    return json.dumps(list(binding))


def _acl(name: str) -> Acl:
    resource, resource_name, pattern, principal, host, operation, permission = json.loads(name)
    return Acl(
        Resource(resource),
        resource_name,
        Pattern(pattern),
        principal,
        host,
        Operation(operation),
        Permission(permission),
    )
