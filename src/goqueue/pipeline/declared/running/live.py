"""What a run tells the broker of itself, for the page `/pipelines/NAME/live` on the broker's HTTP port.

The broker stores nothing of its own for it: a run writes its state, at most every two seconds, to the compacted topic
`pipelines.status` under the pipeline's name, as any client could. A broker that does not take it is no reason to stop.
"""

from __future__ import annotations

import base64
import json
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from goqueue.client.wire import WireClient
from goqueue.client.wire.producer import BatchProducer, new_identity
from goqueue.client.wire.security import with_defaults
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import GoQueueError
from goqueue.pipeline.declared.checks.streams import before, plan_queries, step_reads
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.pictures.graph import draw
from goqueue.records import NewRecord, TopicPartition

TOPIC = "pipelines.status"
_EVERY_S, _LAST_S_MAX = 2.0, 5.0
_POINTS_MAX = 60
_LOG = logging.getLogger("goqueue.pipeline")
_SHOWN = ("sink", "group", "active", "batch", "rows_per_second", "rows_written", "batch_ms", "lag", "at", "watermark")
_SHOWN_TOO = ("state_rows", "state_bytes", "expectations", "restarts", "last_error")


class LivePage:
    """The state of one run, told by a thread of its own: a broker that is away must not hold up the run."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._client: WireClient | None = None
        self._producer: BatchProducer | None = None
        self._points: dict[str, deque[list[float]]] = {}
        # The newest value that is not written yet; None in it ends the thread.
        self._waiting: queue.Queue[bytes | None] = queue.Queue()
        self._told: tuple[str, float] = ("", -_EVERY_S)
        self._thread = threading.Thread(target=self._write_all, name="live page", daemon=True)
        self._thread.start()

    def tell(self, state: str, error: str | None, sinks: Sequence[Mapping[str, Any]]) -> None:
        """Have the state written, unless it was told a moment ago and has not changed."""
        self._note(sinks)
        known, when = self._told
        if known != state or time.monotonic() - when >= _EVERY_S:
            self._told = (state, time.monotonic())
            self._waiting.put(self._value(state, error, sinks))

    def close(self) -> None:
        """The run has ended: its last state is written, if the broker takes it soon."""
        self._waiting.put(None)
        self._thread.join(_LAST_S_MAX)

    def _write_all(self) -> None:
        has_failed = False
        value: bytes | None = b""
        while value is not None:
            value = self._waiting.get()
            while value is not None and not self._waiting.empty():
                # Only the newest counts; the end comes after the last value.
                following = self._waiting.get()
                if following is None:
                    self._waiting.put(None)
                    break
                value = following
            if value is None:
                break
            try:
                self._write(value)
                has_failed = False
            except (GoQueueError, OSError) as refused:
                if not has_failed:
                    _LOG.warning("the live page of pipeline %s stands still: %s", self._pipeline.name, refused)
                has_failed = True
                self._forget()
        self._forget()

    def _forget(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = self._producer = None

    def _note(self, sinks: Sequence[Mapping[str, Any]]) -> None:
        """Keep a point for every batch: its number, how long it took, how many rows a second, and the lag after it."""
        for sink in sinks:
            points = self._points.setdefault(str(sink["sink"]), deque(maxlen=_POINTS_MAX))
            if sink["batch"] >= 0 and (not points or points[-1][0] != sink["batch"]):
                lag = sum(sink["lag"].values())
                points.append([sink["batch"], sink["batch_ms"], sink["rows_per_second"], lag])

    def _value(self, state: str, error: str | None, sinks: Sequence[Mapping[str, Any]]) -> bytes:
        shown = [
            {**{name: sink[name] for name in (*_SHOWN, *_SHOWN_TOO)}, "points": list(self._points[str(sink["sink"])])}
            for sink in sinks
        ]
        picture = draw(self._pipeline, edge_rates(self._pipeline, sinks))
        return json.dumps(
            {
                "name": self._pipeline.name,
                "state": state,
                "error": error,
                "told_ms": int(time.time() * 1000),
                "picture": base64.b64encode(picture.encode()).decode(),
                "sinks": shown,
            }
        ).encode()

    def _write(self, value: bytes) -> None:
        if self._client is None or self._producer is None:
            self._client = WireClient(self._pipeline.broker, client_id="goqueue-pipeline", security=with_defaults({}))
            self._client.create_topic(TOPIC, 1, cleanup_policy="compact", segment_ms="3600000")
            self._producer = BatchProducer(self._client, new_identity(self._client))
        place, identity = TopicPartition(TOPIC, 0), self._producer.identity
        batch = encode_batch(
            [NewRecord(self._pipeline.name.encode(), value)],
            now_ms=int(time.time() * 1000),
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=self._producer.next_sequence(place),
        )
        self._producer.send(place, [batch], 1)
        self._producer.flush()
        self._producer.stored.clear()


def edge_rates(pipeline: Pipeline, sinks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Rows a second on the edges of sources and sinks, as far as Spark reports them: by query."""
    rates = {str(sink["sink"]): float(sink["rows_per_second"]) for sink in sinks}
    shown: dict[str, str] = {}
    of_source: dict[str, float] = {}
    for plan in plan_queries(pipeline):
        rate = rates.get(plan.name, 0.0)
        sources: set[str] = set()
        for name in plan.sinks:
            shown[f"sink {name}"] = f"{rate:,.0f}/s"
            end = pipeline.sinks[name].reads()[0]
            steps = before(pipeline, end).values()
            sources |= {read for step in steps for read in step_reads(step)} | {end}
        for source in sources & pipeline.sources.keys():
            if pipeline.sources[source].is_stream:
                of_source[source] = of_source.get(source, 0.0) + rate
    return shown | {name: f"{rate:,.0f}/s" for name, rate in of_source.items()}
