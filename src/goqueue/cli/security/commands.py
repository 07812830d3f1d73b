"""The commands `goqueue security ...`: init and reset-admin work on a stopped broker, all others on a running one."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.cli.output import Format, show, tell
from goqueue.cli.session import USAGE, ContextName, Output, Server, confirmed, fail, with_client
from goqueue.cli.times import duration, time_text
from goqueue.client.durations import seconds_of
from goqueue.client.transport import quoted
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.node.security.administrators import Administrator

app = typer.Typer(help="Certificates, users, API keys, roles and access rules.", no_args_is_help=True)
user_app = typer.Typer(help="Users with passwords.", no_args_is_help=True)
key_app = typer.Typer(help="API keys.", no_args_is_help=True)
role_app = typer.Typer(help="Roles, and who has them.", no_args_is_help=True)
acl_app = typer.Typer(help="Access rules, as Kafka has them.", no_args_is_help=True)
app.add_typer(user_app, name="user")
app.add_typer(key_app, name="key")
app.add_typer(role_app, name="role")
app.add_typer(acl_app, name="acl")

_BASE = "/admin/security"
DataDir = Annotated[str, typer.Option("--data-dir", help="Data directory of the broker.")]
Principal = Annotated[str, typer.Argument(help="Who, as in User:alice; a name alone means a user.")]


@app.command()
def init(
    folder: Annotated[Path, typer.Option("--dir", help="Where certificates and keys go.")] = Path("security"),
    data_dir: DataDir = "./data",
    host: Annotated[
        list[str] | None, typer.Option("--host", help="Name or address that clients use; may be repeated.")
    ] = None,
    kafka: Annotated[str, typer.Option("--kafka", help="Address of the Kafka listener.")] = "0.0.0.0:9092",
    http: Annotated[str, typer.Option("--http", help="Address of the HTTP listener.")] = "0.0.0.0:8080",
    user: Annotated[str, typer.Option("--user", help="Name of the administrator.")] = "admin",
    config: Annotated[Path, typer.Option("--config", help="Settings file to write.")] = Path("broker.toml"),
) -> None:
    """Make certificates, an administrator and a settings file. Can be repeated: what is there stays valid."""
    from goqueue.cli.security.files import default_hosts, write_certificates, write_settings
    from goqueue.node.security.administrators import make_administrator

    hosts = list(dict.fromkeys([*(host or []), *default_hosts()]))
    try:
        made = make_administrator(data_dir, user, reset=False)
        write_certificates(folder, hosts)
        is_new = write_settings(
            config,
            folder=folder.absolute(),
            data_dir=str(Path(data_dir).absolute()),
            kafka=kafka,
            http=http,
            advertised=f"{hosts[0]}:{kafka.rpartition(':')[2]}",
        )
    except (GoQueueError, OSError, ValueError, TypeError) as error:
        raise fail(str(error), USAGE) from None
    typer.echo(f"certificates   {folder}/ (give ca.pem to clients, keep *.key to yourself)")
    typer.echo(f"settings       {config}" if is_new else f"settings       {config} was there and is unchanged")
    _show_administrator(made.user, made.password, made.api_key)
    typer.echo(f"start          goqueue server --config {config}")


@app.command("reset-admin")
def reset_admin(
    data_dir: DataDir = "./data",
    user: Annotated[str, typer.Option("--user", help="Name of the administrator.")] = "admin",
    config: Annotated[
        str | None,
        typer.Option("--config", help="Settings file of the broker, or of any node of a cluster.", metavar="FILE"),
    ] = None,
) -> None:
    """Give an administrator a new password and API key. A broker on its own must be stopped; a cluster may run."""
    from goqueue.node.security.administrators import make_administrator

    try:
        made = _reset_in(config, user) if config is not None else make_administrator(data_dir, user, reset=True)
    except (GoQueueError, OSError) as error:
        raise fail(str(error), USAGE) from None
    _show_administrator(made.user, made.password, made.api_key)


def _reset_in(config: str, user: str) -> Administrator:
    from goqueue.node.config.cluster_settings import is_clustered
    from goqueue.node.config.load_config import load
    from goqueue.node.security.administrators import make_administrator, make_cluster_administrator

    loaded = load(config, os.environ, {})
    if is_clustered(loaded):
        return make_cluster_administrator(loaded, user)
    return make_administrator(loaded.broker.data_dir, user, reset=True)


@app.command()
def whoami(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Show the principal that the broker has authenticated you as."""
    show(_get("whoami", server, context), output)


# --- users --------------------------------------------------------------------------------


@user_app.command("list")
def list_users(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """List users."""
    show(_get("users", server, context)["users"], output, ["name", "mechanisms", "created_ms", "changed_ms"])


@user_app.command("put")
def put_user(name: str, output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Create a user or change its password, which is read from GOQUEUE_NEW_PASSWORD or the standard input."""
    password = os.environ.get("GOQUEUE_NEW_PASSWORD")
    if password is None:
        is_terminal = sys.stdin.isatty()
        password = typer.prompt("Password", hide_input=True) if is_terminal else sys.stdin.readline().rstrip("\n")
    tell(
        f"user {name} has its password",
        _send("PUT", f"users/{quoted(name)}", {"password": password}, server, context),
        output,
    )


@user_app.command("delete")
def delete_user(
    name: str,
    force: Annotated[bool, typer.Option("--force", help="Do not ask.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Delete a user. Its connections are closed."""
    confirmed(f"Delete user {name}?", force=force)
    reply = _send("DELETE", f"users/{quoted(name)}", None, server, context)
    tell(f"deleted user {name}", reply, output)


# --- keys ---------------------------------------------------------------------------------


@key_app.command("list")
def list_keys(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """List API keys, without their secrets, which are not stored."""
    keys = _get("keys", server, context)["keys"]
    if output is not Format.table:
        show(keys, output)
        return
    times = ("created", "expires", "last_used")
    rows = [{**key, **{name: time_text(key.get(f"{name}_ms") or None) for name in times}} for key in keys]
    show(rows, output, ["id", "principal", "label", *times])


@key_app.command("create")
def create_key(
    principal: Principal,
    label: Annotated[str, typer.Option("--label", help="What the key is for.")] = "",
    ttl: Annotated[
        str | None,
        typer.Option("--ttl", help="Time until it expires, such as 30d.", callback=duration),
    ] = None,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Create an API key and show it once. Older keys stay valid until they are deleted."""
    ttl_s = None if ttl is None else math.ceil(seconds_of(ttl, "--ttl"))
    body = {"principal": _principal(principal), "label": label, "ttl_seconds": ttl_s}
    made = _send("POST", "keys", body, server, context)
    if output is Format.table:
        typer.echo(made["key"])
    else:
        show(made, output)


@key_app.command("delete")
def delete_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `key list` shows it.")],
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Delete an API key. It stops working at once."""
    reply = _send("DELETE", f"keys/{quoted(key_id)}", None, server, context)
    tell(f"deleted key {key_id}", reply, output)


# --- roles --------------------------------------------------------------------------------

Prefix = Annotated[str, typer.Option("--prefix", help="Only for names with this prefix; empty: for all names.")]


@role_app.command("list")
def list_roles(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """List roles."""
    rows = _get("roles", server, context)["roles"]
    if output is Format.table:
        for row in rows:
            row["grants"] = "; ".join(f"{one['resource']}: {', '.join(one['operations'])}" for one in row["grants"])
    show(rows, output, ["name", "built_in", "grants"])


@role_app.command("put")
def put_role(
    name: str,
    allow: Annotated[list[str], typer.Option("--allow", help="As in topic:read,describe; may be repeated.")],
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Create or change a role."""
    grants = []
    for text in allow:
        resource, colon, operations = text.partition(":")
        if not colon:
            raise fail(f"--allow {text}: write it as resource:operation,operation", USAGE)
        grants.append({"resource": resource, "operations": operations.split(",")})
    tell(
        f"role {name} allows what was given",
        _send("PUT", f"roles/{quoted(name)}", {"grants": grants}, server, context),
        output,
    )


@role_app.command("delete")
def delete_role(name: str, output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Delete a role that no principal has."""
    reply = _send("DELETE", f"roles/{quoted(name)}", None, server, context)
    tell(f"deleted role {name}", reply, output)


@role_app.command("bindings")
def bindings(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """List who has which role."""
    show(_get("bindings", server, context)["bindings"], output, ["principal", "role", "prefix"])


@role_app.command("bind")
def bind(
    principal: Principal,
    role: str,
    prefix: Prefix = "",
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Give a principal a role."""
    body = {"principal": _principal(principal), "role": role, "prefix": prefix}
    reply = _send("POST", "bindings", body, server, context)
    tell(f"{_principal(principal)} has role {role}", reply, output)


@role_app.command("unbind")
def unbind(
    principal: Principal,
    role: str,
    prefix: Prefix = "",
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Remove a role from a principal."""
    body = {"principal": _principal(principal), "role": role, "prefix": prefix}
    tell(
        f"{_principal(principal)} no longer has role {role}", _send("DELETE", "bindings", body, server, context), output
    )


# --- rules --------------------------------------------------------------------------------

Operation = Annotated[str, typer.Argument(help="read, write, create, delete, alter, describe, all, ...")]
Resource = Annotated[str, typer.Argument(help="topic, group, cluster or transactional_id.")]
Name = Annotated[str, typer.Argument(help="Name of the resource; * means all.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The name is a prefix.")]
Deny = Annotated[bool, typer.Option("--deny", help="Deny instead of allow.")]
Host = Annotated[str, typer.Option("--from", help="Address of the client; * means any.")]


@acl_app.command("list")
def list_acls(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """List access rules."""
    columns = ["permission", "principal", "host", "operation", "resource", "name", "pattern"]
    show(_get("acls", server, context)["acls"], output, columns)


@acl_app.command("add")
def add_acl(
    principal: Principal,
    operation: Operation,
    resource: Resource,
    name: Name = "kafka-cluster",
    prefixed: Prefixed = False,
    deny: Deny = False,
    host: Host = "*",
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Add an access rule."""
    body = _acl(principal, operation, resource, name, host, prefixed=prefixed, deny=deny)
    reply = _send("POST", "acls", body, server, context)
    tell("added", reply, output)


@acl_app.command("delete")
def delete_acl(
    principal: Principal,
    operation: Operation,
    resource: Resource,
    name: Name = "kafka-cluster",
    prefixed: Prefixed = False,
    deny: Deny = False,
    host: Host = "*",
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Delete an access rule."""
    body = _acl(principal, operation, resource, name, host, prefixed=prefixed, deny=deny)
    reply = _send("DELETE", "acls", body, server, context)
    tell("deleted", reply, output)


def _acl(
    principal: str, operation: str, resource: str, name: str, host: str, *, prefixed: bool, deny: bool
) -> dict[str, str]:
    return {
        "principal": _principal(principal),
        "operation": operation,
        "resource": resource,
        "name": name,
        "host": host,
        "pattern": "prefixed" if prefixed else "literal",
        "permission": "deny" if deny else "allow",
    }


def _principal(text: str) -> str:
    return text if ":" in text else f"User:{text}"


def _get(path: str, server: str | None, context: str | None) -> dict[str, Any]:
    return with_client(lambda client: client.get(f"{_BASE}/{path}"), server, context)


def _send(
    method: str, path: str, body: dict[str, Any] | None, server: str | None, context: str | None
) -> dict[str, Any]:
    return with_client(lambda client: client.request(method, f"{_BASE}/{path}", body), server, context)


def _show_administrator(user: str, password: str, api_key: str) -> None:
    if not password:
        typer.echo(
            f"administrator  {user} was there and keeps its password (goqueue security reset-admin makes a new one)"
        )
        return
    typer.echo(f"administrator  {user}")
    typer.echo(f"password       {password}")
    typer.echo(f"API key        {api_key}")
    typer.echo("               shown this once: store them now")
