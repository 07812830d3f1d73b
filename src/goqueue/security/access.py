"""Whether a principal may do something: Kafka's rules and the roles that are bound to it.

A deny rule wins over every allow, whatever it is spelled like. Without a rule or a role nothing is allowed. A rule for
all topics covers those of the broker itself only if it allows all operations.
Decisions are remembered per principal and address until a rule, role or binding changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

from goqueue.ids import is_internal
from goqueue.security.model import (
    ANY_HOST,
    ANY_PRINCIPAL,
    BUILT_IN_ROLES,
    CLUSTER_NAME,
    OPERATIONS,
    Acl,
    Binding,
    Operation,
    Pattern,
    Permission,
    Resource,
    Role,
)

Row = TypeVar("Row", Acl, Binding)
_DECISIONS_MAX = 10_000
_RECENT_MAX = 1_000

# An allowed operation of these allows the other too.
_IMPLIES: Mapping[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}


class Grants:
    """What one principal may do from one address. Stays the same object while rules change."""

    __slots__ = ("__weakref__", "_access", "_decisions", "_rules", "host", "is_super", "principal")

    def __init__(self, access: Access, principal: str, host: str) -> None:
        self.principal = principal
        self.host = host
        self._access = access
        self._decisions: dict[tuple[Operation, Resource, str], bool] = {}
        self.is_super = False
        self._rules: dict[Resource, list[Acl]] = {}
        self.renew()

    def may(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """Whether this operation on this resource is allowed."""
        asked = (operation, resource, name)
        decided = self._decisions.get(asked)
        if decided is None:
            if len(self._decisions) >= _DECISIONS_MAX:
                self._decisions.clear()
            decided = self._decisions[asked] = self.is_super or self._decide(operation, resource, name)
        return decided

    def may_any(self, operation: Operation, resource: Resource) -> bool:
        """Whether the operation is allowed on some resource of the kind, whatever its name."""
        if self.is_super:
            return True
        wanted = {operation, Operation.ALL, *_IMPLIES.get(operation, ())}
        return any(
            one.permission is Permission.ALLOW and one.operation in wanted and self.may(operation, resource, one.name)
            for one in self._rules.get(resource, ())
        )

    def operations(self, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """The allowed operations as the bits of Kafka's answers."""
        return sum(1 << one for one in OPERATIONS[resource] if self.may(one, resource, name))

    def renew(self) -> None:
        """Forget all decisions: the rules have changed."""
        self._decisions = {}
        self.is_super = self.principal in self._access.super_users
        self._rules = {}
        for one in self._access.rules_of(self.principal, self.host):
            self._rules.setdefault(one.resource, []).append(one)

    def _decide(self, operation: Operation, resource: Resource, name: str) -> bool:
        allowed = False
        sufficient = _IMPLIES.get(operation, frozenset())
        for one in self._rules.get(resource, ()):
            if not _matches(one, name):
                continue
            is_this = one.operation in (operation, Operation.ALL)
            if one.permission is Permission.DENY and is_this:
                return False
            if one.permission is Permission.ALLOW and (is_this or one.operation in sufficient):
                allowed = True
        return allowed


class Access:
    """All rules, roles and bindings of the node."""

    def __init__(self, super_users: Collection[str] = ()) -> None:
        self.super_users = frozenset(super_users)
        # By principal: there may be many thousands of rules, and each connection looks for its own.
        self._acls: Mapping[str, Sequence[Acl]] = {}
        self._bindings: Mapping[str, Sequence[Binding]] = {}
        self._roles: Mapping[str, Role] = BUILT_IN_ROLES
        # All that somebody holds, so that they can be told of changes.
        self._grants: WeakValueDictionary[tuple[str, str], Grants] = WeakValueDictionary()
        # A caller over HTTP holds them for one request only.
        self._recent: list[Grants] = []

    def set(self, acls: Iterable[Acl], bindings: Iterable[Binding], roles: Mapping[str, Role]) -> None:
        """Replace everything. Open connections follow at once."""
        self._acls, self._bindings = _by_principal(acls), _by_principal(bindings)
        self._roles = {**roles, **BUILT_IN_ROLES}
        for grants in list(self._grants.values()):
            grants.renew()

    def of(self, principal: str, host: str) -> Grants:
        """What this principal may do from this address."""
        grants = self._grants.get((principal, host))
        if grants is None:
            grants = self._grants[principal, host] = Grants(self, principal, host)
            if len(self._recent) >= _RECENT_MAX:
                self._recent.clear()
            self._recent.append(grants)
        return grants

    def rules_of(self, principal: str, host: str) -> list[Acl]:
        """Rules that concern this principal at this address; roles are rules too."""
        concerned = (*self._acls.get(principal, ()), *self._acls.get(ANY_PRINCIPAL, ()))
        rules = [one for one in concerned if one.host in (host, ANY_HOST)]
        for binding in self._bindings.get(principal, ()):
            rules += self._rules_of_role(binding)
        return rules

    def _rules_of_role(self, binding: Binding) -> Iterable[Acl]:
        role = self._roles.get(binding.role)
        for grant in role.grants if role is not None else ():
            resource = Resource[grant.resource.upper()]
            if resource is Resource.CLUSTER:
                # A role for a prefix says nothing about the cluster, but its producers need what comes with writing.
                names = [(CLUSTER_NAME, Pattern.LITERAL)] if not binding.prefix else []
            else:
                names = [(binding.prefix, Pattern.PREFIXED)] if binding.prefix else [("*", Pattern.LITERAL)]
            for name, pattern in names:
                for operation in grant.operations:
                    yield Acl(
                        resource,
                        name,
                        pattern,
                        binding.principal,
                        ANY_HOST,
                        Operation[operation.upper()],
                        Permission.ALLOW,
                    )


def _by_principal(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.principal, []).append(row)
    return found


def _matches(acl: Acl, name: str) -> bool:
    if acl.pattern is Pattern.PREFIXED:
        return name.startswith(acl.name)
    if acl.name == name:
        return True
    if acl.name != "*":
        return False
    # The broker's own topics: to read all topics does not mean to read who logged in when.
    is_internal_topic = acl.resource is Resource.TOPIC and is_internal(name)
    return not is_internal_topic or acl.permission is Permission.DENY or acl.operation is Operation.ALL
