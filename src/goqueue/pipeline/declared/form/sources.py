"""What a pipeline reads: topics and files."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from goqueue.pipeline.declared.form.words import Form, SourceFormat


class Source(Form, kw_only=True):
    """A topic, read as a stream; a topic as a table of its latest values; or files. Exactly one of the three.

    A `table` is read anew for every batch of a stream that is joined with it. With a `schema`, its values are JSON.
    """

    topic: str | UnsetType = UNSET
    table: str | UnsetType = UNSET
    files: str | UnsetType = UNSET
    format: SourceFormat = "parquet"
    schema: str | UnsetType = UNSET
    start: str = "earliest"
    max_per_batch: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    fail_on_data_loss: bool = True
    options: dict[str, str] = {}

    @property
    def is_stream(self) -> bool:
        """Whether it never ends."""
        return self.topic is not UNSET
