"""goqueue version: what is installed here."""

from __future__ import annotations

import platform

import typer

from goqueue.node.version import version as goqueue_version


def version() -> None:
    """Show the version."""
    typer.echo(f"goqueue {goqueue_version()} (Python {platform.python_version()})")
