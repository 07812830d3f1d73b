"""A pipeline as a whole: its head, its sources, steps and sinks, and its tests.

A pipeline reads sources, takes steps, writes sinks. Every source and step has a name; a step
reads the one before it unless it says `from`. The same types serve the YAML file, the Python
interface and the JSON Schema that editors complete from, so the three cannot differ.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from goqueue.pipeline.declared.form.sinks import Sink
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.steps import Step
from goqueue.pipeline.declared.form.words import Form, text_of
from goqueue.pipeline.paths import is_store, local_path

Rows: TypeAlias = list[dict[str, Any]]


class Case(Form, kw_only=True):
    """A test: rows given to sources, rows expected in sinks (or in steps)."""

    name: str
    given: Annotated[dict[str, Rows], Meta(min_length=1)]
    expect: Annotated[dict[str, Rows], Meta(min_length=1)]


class Head(Form, kw_only=True):
    """What stands at the top of the file."""

    name: Annotated[
        str,
        text_of(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", "use letters, digits, dots, underscores and dashes, 100 at most"),
    ]
    broker: str = "127.0.0.1:9092"
    # the schema registry, for sources and sinks that name a subject: the HTTP address of a broker
    registry: Annotated[str, text_of(r"^https?://", "write http://host:8080")] = "http://127.0.0.1:8080"
    # ./checkpoints/{name} unless said otherwise
    checkpoint: str | UnsetType = UNSET
    # how often, or `available-now`: take what is there and end
    trigger: str = "1s"
    # the topic for rows that cannot be parsed or break a rule
    dead_letters: str | UnsetType = UNSET
    # sinks that read the same stream share one read of it
    shared_reads: bool = False
    # tell the broker how the run fares, for its live page
    live: bool = True
    # for the Spark session
    settings: dict[str, str] = {}


class Pipeline(Head, kw_only=True):
    """One pipeline, names resolved: every step and sink says what it reads."""

    sources: dict[str, Source]
    steps: dict[str, Step] = {}
    sinks: dict[str, Sink]
    tests: list[Case] = []

    def dead_letter_origins(self) -> list[str]:
        """Sources and steps whose rows may go to the dead-letter topic."""
        parts: dict[str, Source | Step] = {**self.sources, **self.steps}
        return [name for name, part in parts.items() if part.makes_dead_letters()]

    @property
    def checkpoint_path(self) -> str:
        """Where progress is kept: a folder of this machine, or the address of a store."""
        given = f"./checkpoints/{self.name}" if self.checkpoint is UNSET else self.checkpoint
        return given if is_store(given) else str(local_path(given, "checkpoint"))
