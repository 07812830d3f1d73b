"""What all commands of pipelines take: the file, its environment and parameters; and how a file is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.cli.session import USAGE, fail
from goqueue.errors import ConfigError

if TYPE_CHECKING:
    from goqueue.pipeline.declared.form.spec import Pipeline

File = Annotated[Path, typer.Argument(help="The pipeline's YAML file.", show_default=False)]
Env = Annotated[
    str | None,
    typer.Option("--env", envvar="GOQUEUE_PIPELINE_ENV", help="The environment of the file whose parameters count."),
]
Set = Annotated[list[str] | None, typer.Option("--set", help="A parameter of the file, as name=value; several times.")]


def loaded(file: Path, env: str | None, given: list[str] | None, *, asks: bool = False) -> Pipeline:
    """The pipeline of a file; with `asks`, the registry must have the subjects that it names."""
    from goqueue.pipeline.declared.checks.subjects import registry_problems
    from goqueue.pipeline.declared.load import load_file

    try:
        return load_file(file, environment=env, given=given_values(given), last=registry_problems if asks else None)
    except ConfigError as invalid:
        raise refused_file(invalid) from None


def given_values(words: list[str] | None) -> dict[str, str]:
    """Parameters out of words such as name=value."""
    found = {}
    for word in words or ():
        name, is_value, value = word.partition("=")
        if not is_value:
            raise fail(f"--set {word}: write name=value", USAGE)
        found[name] = value
    return found


def refused_file(invalid: ConfigError) -> typer.Exit:
    """Tell all that is wrong with a file."""
    problems: list[Any] = invalid.problems
    for problem in problems:
        typer.secho(f"  - {problem}", err=True)
    return fail(f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in the pipeline", USAGE)
