"""What a pipeline reads: topics and files."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from goqueue.pipeline.declared.form.words import Form, SourceFormat, Version


class Source(Form, kw_only=True):
    """A topic, read as a stream; a topic as a table of its latest values; or files. Exactly one of the three.

    A `table` is read anew for every batch of a stream that is joined with it. With a `schema`, its values are JSON.
    With a `subject` of the registry, rows have the columns of that schema, and those of the message in `keep`. A value
    of a stream that does not decode is a dead letter, fails the run, or has its reason in the column `_error` and its
    bytes in `_undecoded`; a table fails the batch. A stream starts at `earliest`, `latest`, offsets of partitions as
    JSON, or the first message that is as young as a time with its zone.
    """

    topic: str | UnsetType = UNSET
    table: str | UnsetType = UNSET
    files: str | UnsetType = UNSET
    format: SourceFormat = "parquet"
    schema: str | UnsetType = UNSET
    subject: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    version: Version | UnsetType = UNSET
    undecodable: Literal["dead_letters", "column", "fail"] | UnsetType = UNSET
    keep: list[Literal["key", "topic", "partition", "offset", "timestamp"]] = []
    start: str = "earliest"
    max_per_batch: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    fail_on_data_loss: bool = True
    options: dict[str, str] = {}

    @property
    def is_stream(self) -> bool:
        """Whether it never ends."""
        return self.topic is not UNSET

    @property
    def start_ms(self) -> int | None:
        """The time to start at; None if `start` is none. Without a zone it would be another one on each machine."""
        try:
            when = datetime.fromisoformat(self.start)
        except ValueError:
            return None
        return None if when.tzinfo is None else int(when.timestamp() * 1000)

    def makes_dead_letters(self) -> bool:
        """Whether messages of this source may go to the dead-letter topic."""
        return self.is_stream and self.subject is not UNSET and self.undecodable in (UNSET, "dead_letters")
