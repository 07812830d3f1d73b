"""What a pipeline reads: topics and files."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from goqueue.pipeline.declared.form.words import Form, SourceFormat


class Source(Form, kw_only=True):
    """A topic, read as a stream, or files, read as a table. Exactly one of `topic` and `files`."""

    topic: str | UnsetType = UNSET
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
