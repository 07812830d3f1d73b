"""Bodies and replies of the routes under /admin/security."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from goqueue.servers.http.types.common import Body, Reply

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Principal = Annotated[str, Meta(min_length=6, max_length=205, pattern="^User:")]
ResourceName = Literal["topic", "group", "cluster", "transactional_id"]
OperationName = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
]


class WhoAmI(Reply):
    """Who the caller is."""

    principal: str
    address: str


class UserRow(Reply):
    """One user; nothing of its password."""

    name: str
    mechanisms: list[str]
    created_ms: int
    changed_ms: int


class Users(Reply):
    """All users."""

    users: list[UserRow]


class Password(Body):
    """The password of a user."""

    password: Annotated[str, Meta(min_length=8, max_length=1024)]


class KeyRow(Reply):
    """One API key; nothing of its secret."""

    id: str
    principal: str
    label: str
    created_ms: int
    # 0: it does not expire, or was never used.
    expires_ms: int
    last_used_ms: int


class Keys(Reply):
    """All API keys."""

    keys: list[KeyRow]


class NewKeyBody(Body):
    """A key that is asked for."""

    principal: Principal
    label: Annotated[str, Meta(max_length=200)] = ""
    ttl_seconds: Annotated[int, Meta(ge=1, le=10 * 365 * 24 * 3600)] | None = None


class CreatedKey(Reply):
    """The key, shown this once."""

    key: str
    id: str
    principal: str
    expires_ms: int


class GrantRow(Body):
    """Operations on one kind of resource."""

    resource: ResourceName
    operations: Annotated[list[OperationName], Meta(min_length=1, max_length=20)]


class RoleBody(Body):
    """What a role allows."""

    grants: Annotated[list[GrantRow], Meta(max_length=20)]


class RoleRow(Reply):
    """One role."""

    name: str
    built_in: bool
    grants: list[GrantRow]


class Roles(Reply):
    """All roles."""

    roles: list[RoleRow]


class BindingRow(Body):
    """A principal has a role for names that begin with the prefix; empty: for everything."""

    principal: Principal
    role: Name
    prefix: Annotated[str, Meta(max_length=249)] = ""


class Bindings(Reply):
    """Who has which role."""

    bindings: list[BindingRow]


class AclRow(Body):
    """One rule."""

    principal: Principal
    operation: OperationName
    resource: ResourceName
    name: Annotated[str, Meta(min_length=1, max_length=255)] = "kafka-cluster"
    pattern: Literal["literal", "prefixed"] = "literal"
    host: Annotated[str, Meta(min_length=1, max_length=64)] = "*"
    permission: Literal["allow", "deny"] = "allow"


class Acls(Reply):
    """Rules."""

    acls: list[AclRow]


class Done(Reply):
    """It was done."""

    status: str = "ok"
