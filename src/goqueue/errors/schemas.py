"""Errors of the schema registry and of what it checks. The registry's numbers for them are in the wire table."""

from __future__ import annotations

from goqueue.errors.base import Conflict, GoQueueError, InvalidRequest, NotFound
from goqueue.errors.messages import RecordRefusal


class SchemasNotInstalled(GoQueueError):
    """The packages that schemas need are an extra, which this installation lacks."""

    def __init__(self, package: str) -> None:
        super().__init__(f"schemas need the package {package!r}, which is not installed")
        self.hint = "pip install 'goqueue[schemas]', and restart"


class InvalidSchema(InvalidRequest):
    """Text that is not a schema of its type."""


class SchemaTooLarge(InvalidSchema):
    """A schema, or one with all that it references, above the limit."""


class InvalidSubject(InvalidRequest):
    """A subject's name that cannot be one."""


class InvalidVersion(InvalidRequest):
    """A version that is neither a number from 1 on nor `latest`."""

    def __init__(self, version: str) -> None:
        super().__init__(
            f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and "
            'the string "latest"',
            field="version",
        )


class InvalidCompatibility(InvalidRequest):
    """A compatibility level that does not exist."""


class InvalidMode(InvalidRequest):
    """A mode that does not exist."""


class OperationNotPermitted(InvalidRequest):
    """What the mode of a subject does not allow."""


class IncompatibleSchema(Conflict):
    """A schema that readers or writers of earlier versions could not work with; `problems` says why."""

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems
        self.field = "schema"


class SubjectNotFound(NotFound):
    """No subject of that name."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"Subject '{subject}' not found.")
        self.field = "subject"


class VersionNotFound(NotFound):
    """The subject has no such version."""

    def __init__(self, version: int | str) -> None:
        super().__init__(f"Version {version} not found.")
        self.field = "version"


class SchemaNotFound(NotFound):
    """No schema of that id, or no such schema under the subject."""

    def __init__(self, what: str = "Schema not found") -> None:
        super().__init__(what)
        self.field = "schema"


class SubjectSoftDeleted(NotFound):
    """The subject is deleted already."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")
        self.field = "permanent"


class SubjectNotSoftDeleted(NotFound):
    """A subject is deleted for good only after it was deleted."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"Subject '{subject}' was not deleted first before being permanently deleted")
        self.field = "permanent"


class VersionSoftDeleted(NotFound):
    """The version is deleted already."""

    def __init__(self, subject: str, version: int) -> None:
        super().__init__(
            f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
        )
        self.field = "permanent"


class VersionNotSoftDeleted(NotFound):
    """A version is deleted for good only after it was deleted."""

    def __init__(self, subject: str, version: int) -> None:
        super().__init__(
            f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
        )
        self.field = "permanent"


class NoSubjectConfig(NotFound):
    """The subject has no compatibility level of its own."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"Subject '{subject}' does not have subject-level compatibility configured")
        self.field = "subject"


class NoSubjectMode(NotFound):
    """The subject has no mode of its own."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"Subject '{subject}' does not have subject-level mode configured")
        self.field = "subject"


class NoAssociations(NotFound):
    """Associations of topics with subjects are not kept."""

    def __init__(self) -> None:
        super().__init__("this registry keeps no associations; subjects are found by their name strategy")


class ReferenceExists(InvalidRequest):
    """A schema that others reference is not deleted."""

    def __init__(self, subject: str, version: int, by: int) -> None:
        super().__init__(
            f"One or more references exist to the schema {{subject={subject}, version={version}}}: schema id {by}.",
            field="version",
            hint="delete the schemas that reference it first",
        )


class IdDoesNotMatch(InvalidRequest):
    """An imported id that belongs to another schema."""


class TooManySchemas(InvalidRequest):
    """The registry holds as many schemas as it may."""


class InvalidValue(RecordRefusal):
    """A value that its schema does not allow; `path` says where."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{message} (at {path})" if path else message, field="value")
        self.path = path
