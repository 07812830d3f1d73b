"""The commands `goqueue schema list|register|show|diff|check|delete|config|infer|lint`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from goqueue.cli.output import Format, show, tell
from goqueue.cli.schemas.schema_files import SchemaFile, TypeName, parse_references, pretty, read_schema
from goqueue.cli.session import (
    REFUSED,
    USAGE,
    ContextName,
    Output,
    Server,
    TopicName,
    confirmed,
    fail,
    with_client,
)
from goqueue.client import Client

app = typer.Typer(help="Register, compare, infer and delete schemas.", no_args_is_help=True)

Subject = Annotated[str, typer.Argument(help="The subject, such as orders-value.")]
References = Annotated[
    list[str] | None,
    typer.Option("--reference", "-r", help="A schema that it uses, as name=subject:version; may be repeated."),
]
VersionOption = Annotated[str, typer.Option("--version", "-v", help="A version, or latest.")]


@app.command("list")
def list_subjects(
    subject: Annotated[str | None, typer.Argument(help="Show the versions of this subject.")] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Show deleted versions too.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """List subjects, or the versions of one."""

    async def work(client: Client) -> list[dict[str, Any]]:
        if subject is None:
            return [msgspec.to_builtins(one) for one in await client.schemas.subjects()]
        rows = []
        for number in await client.schemas.versions(subject, deleted=deleted):
            found = await client.schemas.version(subject, number, deleted=deleted)
            rows.append({"version": number, "id": found.id, "type": found.type.value, "deleted": found.deleted})
        return rows

    show(with_client(work, server, context), output)


@app.command()
def register(
    subject: Subject,
    file: SchemaFile,
    type_name: TypeName = None,
    reference: References = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Store one spelling of equal schemas.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Register a schema as the next version of a subject."""
    text, kind = read_schema(file, type_name)
    references = parse_references(reference)
    registered = with_client(
        lambda client: client.schemas.register(subject, text, type=kind, references=references, normalize=normalize),
        server,
        context,
    )
    facts = {"subject": subject, "version": registered.version, "id": registered.id}
    tell(f"{subject} version {registered.version} is schema {registered.id}", facts, output)


@app.command("show")
def show_schema(
    subject: Annotated[str | None, typer.Argument(help="The subject.")] = None,
    version: VersionOption = "latest",
    schema_id: Annotated[int | None, typer.Option("--id", help="A schema by its id.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The schema alone, as it was registered.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Show a schema by subject and version, or by id."""
    if (subject is None) == (schema_id is None):
        raise fail("give a subject or --id", USAGE)

    async def work(client: Client) -> Any:
        if schema_id is not None:
            return await client.schemas.by_id(schema_id)
        return await client.schemas.version(str(subject), version)

    found = with_client(work, server, context)
    if raw:
        typer.echo(found.text)
        return
    if output is not Format.table:
        show(msgspec.to_builtins(found), output)
        return
    place = f"{found.subject} version {found.version}, " if found.subject else ""
    typer.echo(f"# {place}schema {found.id}, {found.type.value}")
    typer.echo(pretty(found.text, found.type))


@app.command()
def diff(
    subject: Subject,
    old: Annotated[str, typer.Argument(help="A version, or latest.")],
    new: Annotated[str, typer.Argument(help="A version, latest, or a file.")],
    type_name: TypeName = None,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Show what changed between two versions, or a version and a file, and what that means for readers."""
    from goqueue.cli.schemas.schema_work import differences

    found = with_client(lambda client: differences(client, subject, old, new, type_name), server, context)
    if output is not Format.table:
        show(found, output)
        return
    for line in found["diff"] or ["no difference"]:
        typer.echo(line)
    for name, who in (("backward", "the new reads the old"), ("forward", "the old reads the new")):
        problems = found[name]
        typer.echo(f"{name.upper()} ({who}): {'not compatible' if problems else 'compatible'}")
        for problem in problems:
            typer.echo(f"  {problem}")


@app.command()
def check(
    subject: Subject,
    file: SchemaFile,
    type_name: TypeName = None,
    reference: References = None,
    version: Annotated[
        str | None, typer.Option("--version", "-v", help="Compare with this version instead of those the level names.")
    ] = None,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Ask whether a schema could be the next version of a subject; exit code 1 if not."""
    text, kind = read_schema(file, type_name)
    references = parse_references(reference)
    verdict = with_client(
        lambda client: client.schemas.check(subject, text, type=kind, references=references, version=version),
        server,
        context,
    )
    facts = {"is_compatible": verdict.is_compatible, "messages": list(verdict.messages)}
    tell("compatible" if verdict.is_compatible else "not compatible:", facts, output)
    if not verdict.is_compatible:
        if output is Format.table:
            for message in verdict.messages:
                typer.echo(f"  {message}")
        raise typer.Exit(REFUSED)


@app.command()
def delete(
    subject: Subject,
    version: Annotated[str | None, typer.Option("--version", "-v", help="Only this version.")] = None,
    permanent: Annotated[
        bool,
        typer.Option(
            "--permanent", help="What was deleted before, permanently. Its messages can no longer be decoded."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Do not ask.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Delete a subject, or one version of it."""
    what = f"version {version} of {subject}" if version else f"subject {subject}"
    confirmed(f"Delete {what}{' for good' if permanent else ''}?", force=force)
    gone = with_client(lambda client: client.schemas.delete(subject, version, permanent=permanent), server, context)
    numbers = ", ".join(str(one) for one in gone)
    tell(f"deleted versions {numbers} of {subject}", {"subject": subject, "versions": gone}, output)


@app.command()
def config(
    subject: Annotated[str | None, typer.Argument(help="The subject; all of them without it.")] = None,
    compatibility: Annotated[
        str | None,
        typer.Option("--compatibility", help="NONE, BACKWARD, FORWARD or FULL, or one of them with _TRANSITIVE."),
    ] = None,
    normalize: Annotated[
        bool | None, typer.Option("--normalize/--no-normalize", help="Store one spelling of equal schemas.")
    ] = None,
    validation: Annotated[
        bool | None,
        typer.Option("--validation/--no-validation", help="Check messages of the subject, whatever their topic says."),
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Remove the settings; those of the wider scope apply.")
    ] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Show or change the settings of a subject, or of all."""
    named = {"compatibility": compatibility, "normalize": normalize, "validationEnabled": validation}
    changes = {name: value for name, value in named.items() if value is not None}
    if reset and changes:
        raise fail("--reset and settings exclude each other", USAGE)

    async def work(client: Client) -> dict[str, Any]:
        if reset:
            await client.schemas.reset_config(subject)
        elif changes:
            await client.schemas.set_config(subject, **changes)
        return await client.schemas.config(subject)

    show(with_client(work, server, context), output)


@app.command()
def infer(
    topic: TopicName,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Number of messages to read from each partition.")] = 1000,
    closed: Annotated[bool, typer.Option("--closed", help="Refuse properties that were not seen.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Propose a JSON Schema from the messages of a topic, and count those that it would have refused."""
    from goqueue.cli.schemas.schema_infer import propose

    found = with_client(lambda client: propose(client, topic, limit, closed=closed), server, context)
    if output is not Format.table:
        show(found, output)
        return
    typer.echo(msgspec.json.format(msgspec.json.encode(found["schema"]), indent=2).decode())
    typer.echo(
        f"{found['seen']} messages: {found['learned']} to learn from, {found['tested']} to test; "
        f"{found['failed']} would have been refused, {found['not_json']} are not JSON",
        err=True,
    )
    for example in found["examples"]:
        typer.echo(f"  {example}", err=True)


@app.command()
def lint(
    file: SchemaFile,
    type_name: TypeName = None,
    output: Output = Format.table,
) -> None:
    """Check a schema without a broker: is it valid, and what will make it hard to change? Exit code 1 if invalid."""
    from goqueue.cli.schemas.schema_work import findings

    text, kind = read_schema(file, type_name)
    problem, found = findings(text, kind)
    facts = {"valid": problem is None, "problem": problem, "advice": found}
    if output is not Format.table:
        show(facts, output)
    else:
        typer.echo(f"{file}: {'valid' if problem is None else problem}")
        for line in found:
            typer.echo(f"  {line}")
    if problem is not None:
        raise typer.Exit(REFUSED)
