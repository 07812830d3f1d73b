"""Names of subjects and contexts. `:.context:subject` is a subject in a context; without one, it is in the default."""

from __future__ import annotations

from goqueue.errors import InvalidSubject

DEFAULT_CONTEXT = "."
GLOBAL = ""
_CHARS_MAX = 512
_RESERVED = frozenset({"__GLOBAL", "__EMPTY"})


def parse_subject(name: str, context: str | None = None) -> str:
    """Accept a subject, qualified by the context that the request was made in."""
    _check(name)
    if context is not None and not name.startswith(":."):
        name = f":{parse_context(context)}:{name}"
    own, subject = split(name)
    if not subject or subject in _RESERVED:
        raise InvalidSubject(f"The specified subject '{name}' is not a valid.", field="subject")
    return qualified(own, subject)


def parse_scope(name: str, context: str | None = None) -> str:
    """Accept a subject, or a context alone, which stands for all of its subjects."""
    _check(name)
    if context is not None and not name.startswith(":."):
        name = f":{parse_context(context)}:{name}"
    own, subject = split(name)
    return qualified(own, subject)


def parse_context(name: str) -> str:
    """Accept the name of a context, with or without its colons."""
    name = name.strip(":")
    if not name.startswith("."):
        name = f".{name}"
    if ":" in name or not name.isprintable():
        raise InvalidSubject(f"The specified context '{name}' is not valid", field="context")
    return name


def split(name: str) -> tuple[str, str]:
    """The context of a subject, and its name there."""
    if name.startswith(":."):
        context, colon, subject = name[1:].partition(":")
        if colon:
            return context, subject
    return DEFAULT_CONTEXT, name


def qualified(context: str, subject: str) -> str:
    """The one spelling of a subject in a context."""
    return subject if context == DEFAULT_CONTEXT else f":{context}:{subject}"


def scopes_of(subject: str) -> tuple[str, ...]:
    """Where a setting of a subject is looked for: the subject, its context, everywhere."""
    context, _ = split(subject)
    return (subject, GLOBAL) if context == DEFAULT_CONTEXT else (subject, f":{context}:", GLOBAL)


def _check(name: str) -> None:
    if len(name) > _CHARS_MAX or not name.isprintable():
        raise InvalidSubject(
            f"The specified subject '{name[:80]}' is not a valid.",
            field="subject",
            hint=f"use at most {_CHARS_MAX} printable characters",
        )
