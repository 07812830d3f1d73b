"""What the registry's machine may be told or asked."""

from __future__ import annotations

import msgspec

from goqueue.schemas.state import Basis, Look
from goqueue.schemas.values import Mode, Schema, SubjectConfig


class Register(msgspec.Struct, frozen=True):
    """Make a schema the next version of a subject, if what it was judged by is still so."""

    subject: str
    schema: Schema
    basis: Basis
    # Only while the subject is being imported.
    schema_id: int | None = None
    version: int | None = None


class Stale(msgspec.Struct, frozen=True):
    """The answer to `Register` if its basis has changed."""


class DeleteVersion(msgspec.Struct, frozen=True):
    """Delete a version, or what is left of a deleted one."""

    subject: str
    version: int | str
    permanent: bool = False


class DeleteSubject(msgspec.Struct, frozen=True):
    """Delete all versions of a subject, or what is left of them."""

    subject: str
    permanent: bool = False


class SetConfig(msgspec.Struct, frozen=True):
    """Change settings of a subject, a context or everywhere; None removes them."""

    scope: str
    config: SubjectConfig | None


class SetMode(msgspec.Struct, frozen=True):
    """Change the mode of a subject, a context or everywhere; None removes it."""

    scope: str
    mode: Mode | None
    force: bool = False


class Ask(msgspec.Struct, frozen=True):
    """Any question, answered by a function of the state once all that it saw is durable."""

    look: Look
