"""Words that every part of a pipeline file is made of: names, lengths of time, and the rule for unknown names."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


def text_of(pattern: str, hint: str) -> Meta:
    """Text of a form; the hint is for editors and for whoever wrote something else."""
    return Meta(pattern=pattern, description=hint, extra={"hint": hint})


Name = Annotated[str, text_of(r"^[A-Za-z_][A-Za-z0-9_]*$", "use letters, digits and underscores")]
Interval = Annotated[
    str,
    text_of(
        r"^\d+ ?(ms|s|m|h|d|milliseconds?|seconds?|minutes?|hours?|days?)$",
        "write a length of time, as in 500ms, 10s, 5m, 1h or 2d",
    ),
]
Version = Annotated[int, Meta(ge=1)] | Literal["latest"]
SourceFormat = Literal["parquet", "json", "csv", "orc", "text"]


class Form(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Anything in the file: a name that is not known is a mistake, never ignored."""
