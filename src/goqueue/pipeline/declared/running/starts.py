"""Where the streams of a query begin, as offsets: looked up once and kept beside its checkpoint.

Spark asks a source again where it begins until the first batch is planned; `latest` would be another place each time.
A backfill reads what lies before this place, so that the two never write the same message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.running.sources import topic_options
from goqueue.pipeline.declared.running.state import state_at
from goqueue.pipeline.source.catalogue import Offsets, open_catalogue, subscribed
from goqueue.pipeline.source.options import LATEST, parse_source_options
from goqueue.pipeline.source.plan import start_offsets
from goqueue.pipeline.source.stream_offset import StreamOffset

_EARLIEST = "earliest"


class Starts:
    """The beginnings of one query."""

    def __init__(self, pipeline: Pipeline, query: str) -> None:
        self._pipeline = pipeline
        self._state = state_at(pipeline.checkpoint_path)
        self._file = f"{query}.starts.json"
        # Where Spark writes the plan of each batch, and keeps those of the last hundred.
        self._plans = f"{query}/offsets"

    def options(self, name: str, source: Source, group: str) -> Mapping[str, str]:
        """The options to read a topic with: from where it began, or, if it has not begun yet, from a place kept now."""
        options = topic_options(self._pipeline, source, group)
        known = self._read()
        has_begun = self._state.has_files(self._plans)
        if has_begun and name not in known:
            # Begun by a version that kept no place: the checkpoint says where to read on.
            return options
        if name not in known or (source.start == _EARLIEST and not has_begun):
            known[name] = StreamOffset(first_offsets(options)).encode()
            self._write(known)
        elif not has_begun:
            # It may have waited for its first message while partitions were added.
            kept, there = StreamOffset.decode(known[name]).places, first_offsets(pinned(options, _EARLIEST))
            if kept.keys() != there.keys():
                known[name] = StreamOffset({place: kept.get(place, first) for place, first in there.items()}).encode()
                self._write(known)
        return pinned(options, json.dumps(known[name]))

    def known(self, name: str) -> Offsets | None:
        """Where a source began; None if that is not known."""
        found = self._read().get(name)
        return None if found is None else StreamOffset.decode(found).places

    def _read(self) -> dict[str, dict[str, dict[str, int]]]:
        found: dict[str, dict[str, dict[str, int]]] = json.loads(self._state.read(self._file) or "{}")
        return found

    def _write(self, starts: Mapping[str, object]) -> None:
        self._state.write(self._file, json.dumps(starts, indent=2))


def first_offsets(options: Mapping[str, str]) -> Offsets:
    """Where a reader with these options would begin now."""
    wanted = parse_source_options(options)
    catalogue = open_catalogue(wanted)
    try:
        return start_offsets(wanted, catalogue, subscribed(wanted, catalogue), LATEST)
    finally:
        catalogue.close()


def pinned(options: Mapping[str, str], starts: str) -> dict[str, str]:
    """The same options with these `startingOffsets` in place of words and times."""
    others = {name: value for name, value in options.items() if not name.lower().startswith("starting")}
    return {**others, "startingOffsets": starts}
