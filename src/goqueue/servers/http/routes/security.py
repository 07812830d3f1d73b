"""Users, API keys, roles, bindings and rules. All need alter or describe on the cluster, which admins have."""

from __future__ import annotations

from goqueue.errors import Conflict
from goqueue.security.admin import SecurityAdmin
from goqueue.security.model import Acl, Binding, Grant, Operation, Pattern, Permission, Resource, Role
from goqueue.servers.http.route import Answer, Call, Route
from goqueue.servers.http.types.security import (
    AclRow,
    Acls,
    BindingRow,
    Bindings,
    CreatedKey,
    Done,
    GrantRow,
    KeyRow,
    Keys,
    NewKeyBody,
    Password,
    RoleBody,
    RoleRow,
    Roles,
    UserRow,
    Users,
    WhoAmI,
)
from goqueue.servers.services import Services

_SECRET = {"Cache-Control": "no-store"}


def _admin(services: Services) -> SecurityAdmin:
    if services.security is None:
        error = Conflict("security is not enabled on this broker")
        error.hint = "run 'goqueue security init' and start the broker with the settings that it writes"
        raise error
    return services.security


async def whoami(services: Services, _call: Call) -> WhoAmI:
    """Who the caller is."""
    return WhoAmI(principal=services.caller.principal, address=services.caller.address)


async def users(services: Services, _call: Call) -> Users:
    """All users."""
    return Users(
        users=[
            UserRow(
                name=one.name,
                mechanisms=sorted(one.scram),
                created_ms=one.created_ms,
                changed_ms=one.changed_ms,
            )
            for one in _admin(services).users()
        ]
    )


async def put_user(services: Services, call: Call) -> Done:
    """Create a user, or change its password."""
    await _admin(services).put_user(call.path["name"], call.body.password)
    return Done()


async def delete_user(services: Services, call: Call) -> Done:
    """Delete a user."""
    await _admin(services).delete_user(call.path["name"])
    return Done()


async def keys(services: Services, _call: Call) -> Keys:
    """All API keys."""
    return Keys(
        keys=[
            KeyRow(
                id=one.id,
                principal=one.principal,
                label=one.label,
                created_ms=one.created_ms,
                expires_ms=one.expires_ms,
                last_used_ms=one.last_used_ms,
            )
            for one in _admin(services).all_keys()
        ]
    )


async def create_key(services: Services, call: Call) -> Answer:
    """Make an API key; it is shown this once."""
    body: NewKeyBody = call.body
    ttl_ms = None if body.ttl_seconds is None else body.ttl_seconds * 1000
    made = await _admin(services).create_key(body.principal, label=body.label, ttl_ms=ttl_ms)
    reply = CreatedKey(key=made.text, id=made.key.id, principal=made.key.principal, expires_ms=made.key.expires_ms)
    return Answer(201, reply, _SECRET)


async def delete_key(services: Services, call: Call) -> Done:
    """Delete an API key; it stops working at once."""
    await _admin(services).delete_key(call.path["key_id"])
    return Done()


async def roles(services: Services, _call: Call) -> Roles:
    """The built-in roles and one's own."""
    return Roles(
        roles=[
            RoleRow(
                name=one.name,
                built_in=one.is_built_in,
                grants=[
                    GrantRow(resource=grant.resource, operations=list(grant.operations))  # type: ignore[arg-type]
                    for grant in one.grants
                ],
            )
            for one in _admin(services).roles()
        ]
    )


async def put_role(services: Services, call: Call) -> Done:
    """Create or change a role."""
    grants = tuple(Grant(one.resource, tuple(one.operations)) for one in call.body.grants)
    await _admin(services).put_role(Role(call.path["name"], grants))
    return Done()


async def delete_role(services: Services, call: Call) -> Done:
    """Delete a role that is bound to nobody."""
    await _admin(services).delete_role(call.path["name"])
    return Done()


async def bindings(services: Services, _call: Call) -> Bindings:
    """Who has which role."""
    found = _admin(services).bindings()
    return Bindings(bindings=[BindingRow(principal=one[0], role=one[1], prefix=one[2]) for one in found])


async def bind(services: Services, call: Call) -> Done:
    """Give a principal a role."""
    await _admin(services).bind(Binding(call.body.principal, call.body.role, call.body.prefix))
    return Done()


async def unbind(services: Services, call: Call) -> Done:
    """Take a role away."""
    await _admin(services).unbind(Binding(call.body.principal, call.body.role, call.body.prefix))
    return Done()


async def acls(services: Services, _call: Call) -> Acls:
    """All rules."""
    return Acls(acls=[_row(one) for one in sorted(_admin(services).acls())])


async def add_acl(services: Services, call: Call) -> Done:
    """Add a rule."""
    await _admin(services).add_acls([_acl(call.body)])
    return Done()


async def delete_acl(services: Services, call: Call) -> Done:
    """Delete a rule."""
    await _admin(services).delete_acls([_acl(call.body)])
    return Done()


def _acl(body: AclRow) -> Acl:
    return Acl(
        Resource[body.resource.upper()],
        body.name,
        Pattern[body.pattern.upper()],
        body.principal,
        body.host,
        Operation[body.operation.upper()],
        Permission[body.permission.upper()],
    )


def _row(acl: Acl) -> AclRow:
    return AclRow(
        principal=acl.principal,
        operation=acl.operation.name.lower(),  # type: ignore[arg-type]
        resource=acl.resource.name.lower(),  # type: ignore[arg-type]
        name=acl.name,
        pattern=acl.pattern.name.lower(),  # type: ignore[arg-type]
        host=acl.host,
        permission=acl.permission.name.lower(),  # type: ignore[arg-type]
    )


_BASE = "/admin/security"
_ERRORS = (400, 401, 403, 404, 409)
ROUTES = (
    Route("GET", f"{_BASE}/whoami", whoami, "Show the caller's identity", {200: WhoAmI}),
    Route("GET", f"{_BASE}/users", users, "List users", {200: Users}, errors=_ERRORS),
    Route("PUT", f"{_BASE}/users/{{name}}", put_user, "Create a user", {200: Done}, body=Password, errors=_ERRORS),
    Route("DELETE", f"{_BASE}/users/{{name}}", delete_user, "Delete a user", {200: Done}, errors=_ERRORS),
    Route("GET", f"{_BASE}/keys", keys, "List API keys", {200: Keys}, errors=_ERRORS),
    Route("POST", f"{_BASE}/keys", create_key, "Create an API key", {201: CreatedKey}, body=NewKeyBody, errors=_ERRORS),
    Route("DELETE", f"{_BASE}/keys/{{key_id}}", delete_key, "Delete an API key", {200: Done}, errors=_ERRORS),
    Route("GET", f"{_BASE}/roles", roles, "List roles", {200: Roles}, errors=_ERRORS),
    Route("PUT", f"{_BASE}/roles/{{name}}", put_role, "Create a role", {200: Done}, body=RoleBody, errors=_ERRORS),
    Route("DELETE", f"{_BASE}/roles/{{name}}", delete_role, "Delete a role", {200: Done}, errors=_ERRORS),
    Route("GET", f"{_BASE}/bindings", bindings, "List role bindings", {200: Bindings}, errors=_ERRORS),
    Route("POST", f"{_BASE}/bindings", bind, "Bind a role", {200: Done}, body=BindingRow, errors=_ERRORS),
    Route("DELETE", f"{_BASE}/bindings", unbind, "Remove a role binding", {200: Done}, body=BindingRow, errors=_ERRORS),
    Route("GET", f"{_BASE}/acls", acls, "List access rules", {200: Acls}, errors=_ERRORS),
    Route("POST", f"{_BASE}/acls", add_acl, "Add an access rule", {200: Done}, body=AclRow, errors=_ERRORS),
    Route("DELETE", f"{_BASE}/acls", delete_acl, "Delete an access rule", {200: Done}, body=AclRow, errors=_ERRORS),
)
