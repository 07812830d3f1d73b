"""Changing who may do what: users, keys, roles, bindings and rules, each change written to the audit log first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from goqueue.caller import ANONYMOUS, Caller
from goqueue.clock import Clock
from goqueue.errors import InvalidRequest, NotFound
from goqueue.ports import Offload
from goqueue.security.audit import AuditLog
from goqueue.security.authentication import Authenticator, new_key
from goqueue.security.model import BUILT_IN_ROLES, Acl, ApiKey, Binding, Role, ScramCredential, User
from goqueue.security.scram import ITERATIONS, MECHANISMS, credential_of
from goqueue.security.store import SecurityStore

PASSWORD_CHARS_MIN = 8
_NAME_CHARS_MAX = 200
_USERS_MAX = _KEYS_MAX = _ACLS_MAX = 100_000


class NewKey(NamedTuple):
    """A key that was just made; `text` is shown once and stored nowhere."""

    text: str
    key: ApiKey


class SecurityAdmin:
    """What administrators do. Callers are checked before they get here."""

    def __init__(
        self, store: SecurityStore, authenticator: Authenticator, audit: AuditLog, offload: Offload, clock: Clock
    ) -> None:
        self._store = store
        self._authenticator = authenticator
        self._audit = audit
        self._offload = offload
        self._clock = clock

    # --- users --------------------------------------------------------------------------

    def users(self) -> list[User]:
        """All users, by name."""
        return [self._store.users[name] for name in sorted(self._store.users)]

    async def put_user(
        self, name: str, password: str, *, iterations: int = ITERATIONS, caller: Caller = ANONYMOUS
    ) -> User:
        """Create a user or change its password. Connections that used the old password are closed."""
        check_name(name, "name")
        if len(password) < PASSWORD_CHARS_MIN:
            raise InvalidRequest(
                f"the password is shorter than {PASSWORD_CHARS_MIN} characters",
                field="password",
                hint="use a longer one",
            )
        made = await self._offload(
            lambda: {mechanism: credential_of(mechanism, password, iterations) for mechanism in MECHANISMS}
        )
        return await self._put(name, made, caller)

    async def alter_scram(
        self,
        name: str,
        *,
        put: Mapping[str, ScramCredential] | None = None,
        delete: Collection[str] = (),
        caller: Caller = ANONYMOUS,
    ) -> None:
        """Change credentials of single mechanisms, as Kafka's tools do. A user without any is gone."""
        check_name(name, "user")
        known = self._store.users.get(name)
        held = dict(known.scram) if known is not None else {}
        for mechanism in delete:
            if mechanism not in held:
                raise NotFound(f"user {name[:200]!r} has no credential for {mechanism}")
            del held[mechanism]
        held |= put or {}
        if held:
            await self._put(name, held, caller)
        else:
            await self.delete_user(name, caller=caller)

    async def delete_user(self, name: str, *, caller: Caller = ANONYMOUS) -> None:
        """Remove a user: it cannot log in any more, and its connections are closed."""
        await self._audit.changed(caller, "delete_user", name)
        await self._store.delete_user(name)

    async def _put(self, name: str, scram: dict[str, ScramCredential], caller: Caller) -> User:
        if name not in self._store.users and len(self._store.users) >= _USERS_MAX:
            raise InvalidRequest(f"there are {_USERS_MAX} users, as many as there may be", field="name")
        now_ms = self._clock.now_ms()
        known = self._store.users.get(name)
        user = User(name, scram, now_ms if known is None else known.created_ms, now_ms)
        await self._audit.changed(caller, "put_user", name)
        await self._store.put_user(user)
        return user

    # --- keys ---------------------------------------------------------------------------

    def all_keys(self) -> list[ApiKey]:
        """All API keys, the oldest first, with when each was last used."""
        found = [
            structs.replace(one, last_used_ms=self._authenticator.last_used_ms(one))
            for one in self._store.keys.values()
        ]
        return sorted(found, key=lambda one: (one.created_ms, one.id))

    async def create_key(
        self, principal: str, *, label: str = "", ttl_ms: int | None = None, caller: Caller = ANONYMOUS
    ) -> NewKey:
        """A new key of a principal. Older keys of the principal stay valid, so that clients can change over."""
        check_principal(principal)
        if len(self._store.keys) >= _KEYS_MAX:
            raise InvalidRequest(f"there are {_KEYS_MAX} API keys, as many as there may be", field="principal")
        now_ms = self._clock.now_ms()
        text, key = new_key(
            principal, label=label[:_NAME_CHARS_MAX], now_ms=now_ms, expires_ms=0 if ttl_ms is None else now_ms + ttl_ms
        )
        await self._audit.changed(caller, "create_key", f"{key.id} of {principal}")
        await self._store.put_key(key)
        return NewKey(text, key)

    async def delete_key(self, key_id: str, *, caller: Caller = ANONYMOUS) -> None:
        """Remove a key: it stops working at once."""
        await self._audit.changed(caller, "delete_key", key_id)
        await self._store.delete_key(key_id)

    # --- roles and bindings -------------------------------------------------------------

    def roles(self) -> list[Role]:
        """The built-in roles, then one's own."""
        return [*BUILT_IN_ROLES.values(), *(self._store.roles[name] for name in sorted(self._store.roles))]

    async def put_role(self, role: Role, *, caller: Caller = ANONYMOUS) -> None:
        """Create or change a role of one's own."""
        check_name(role.name, "name")
        await self._audit.changed(caller, "put_role", role.name)
        await self._store.put_role(role)

    async def delete_role(self, name: str, *, caller: Caller = ANONYMOUS) -> None:
        """Remove a role that is bound to nobody."""
        await self._audit.changed(caller, "delete_role", name)
        await self._store.delete_role(name)

    def bindings(self) -> list[Binding]:
        """Who has which role for which prefix."""
        return sorted(self._store.bindings)

    async def bind(self, binding: Binding, *, caller: Caller = ANONYMOUS) -> None:
        """Give a principal a role."""
        check_principal(binding.principal)
        await self._audit.changed(caller, "bind", _shown(binding))
        await self._store.bind(binding)

    async def unbind(self, binding: Binding, *, caller: Caller = ANONYMOUS) -> None:
        """Take a role away."""
        await self._audit.changed(caller, "unbind", _shown(binding))
        await self._store.unbind(binding)

    # --- rules --------------------------------------------------------------------------

    def acls(self) -> Collection[Acl]:
        """All rules."""
        return self._store.acls

    async def add_acls(self, acls: Sequence[Acl], *, caller: Caller = ANONYMOUS) -> None:
        """Add rules."""
        if len(self._store.acls) + len(acls) > _ACLS_MAX:
            raise InvalidRequest(f"there may be at most {_ACLS_MAX} rules", field="acls")
        for one in acls:
            check_principal(one.principal)
        await self._audit.changed(caller, "add_acl", *map(acl_text, acls))
        await self._store.add_acls(acls)

    async def delete_acls(self, acls: Sequence[Acl], *, caller: Caller = ANONYMOUS) -> None:
        """Remove rules."""
        await self._audit.changed(caller, "delete_acl", *map(acl_text, acls))
        await self._store.delete_acls(acls)

    def whoami(self, *, caller: Caller = ANONYMOUS) -> Caller:
        """Who the caller is."""
        return caller


def check_name(name: str, field: str) -> None:
    """Refuse names that cannot be told apart or shown."""
    if not 1 <= len(name) <= _NAME_CHARS_MAX or not name.isprintable() or name != name.strip():
        raise InvalidRequest(
            f"{repr(name)[:80]} is not a name", field=field, hint=f"use 1 to {_NAME_CHARS_MAX} printable characters"
        )


def check_principal(principal: str) -> None:
    """Principals are written User:name."""
    kind, colon, name = principal.partition(":")
    if kind != "User" or not colon:
        raise InvalidRequest(f"{repr(principal)[:80]} is not a principal", field="principal", hint="write User:name")
    check_name(name, "principal")


def acl_text(acl: Acl) -> str:
    """A rule in words."""
    pattern = "" if acl.pattern.name == "LITERAL" else " (prefix)"
    return (
        f"{acl.permission.name.lower()} {acl.principal} from {acl.host}: {acl.operation.name.lower()} on "
        f"{acl.resource.name.lower()} {acl.name!r}{pattern}"
    )


def _shown(binding: Binding) -> str:
    return f"{binding.principal} has {binding.role} for {binding.prefix or 'everything'}"
