"""What a run shows to Prometheus: an HTTP port of the driver, with the same numbers as `goqueue pipeline status`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import start_http_server

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.steps import ROWS, Expect

Status = Callable[[], Sequence[Mapping[str, Any]]]

_PREFIX = "goqueue_pipeline"
# name -> (key of the status, what it is)
_GAUGES = {
    "batch": ("batch", "Number of the last batch."),
    "batch_milliseconds": ("batch_ms", "Duration of the last batch."),
    "rows_per_second": ("rows_per_second", "Rows that the last batch took in a second."),
    "state_rows": ("state_rows", "Rows that steps remember from batch to batch."),
    "state_bytes": ("state_bytes", "Memory of what steps remember."),
    "active": ("active", "1 if the query runs."),
}
_COUNTERS = {
    "rows_written": ("rows_written", "Rows written since the run was started."),
    "restarts": ("restarts", "How often the query was started again."),
}


@contextmanager
def served(pipeline: Pipeline, status: Status, address: str | None) -> Iterator[None]:
    """The time in which the numbers are shown at an address such as 127.0.0.1:9464; without one nothing is."""
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    registry.register(PipelineMetrics(pipeline, status))
    try:
        server, thread = start_http_server(int(port), host.strip("[]") or "0.0.0.0", registry)  # noqa: S104 - as asked for
    except (OSError, ValueError, OverflowError) as error:
        raise InvalidRequest(
            f"--metrics {address}: {error}", field="metrics", hint="write host:port, as in 127.0.0.1:9464"
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class PipelineMetrics:
    """Collects when it is asked."""

    def __init__(self, pipeline: Pipeline, status: Status) -> None:
        self._pipeline, self._status = pipeline, status

    def collect(self) -> Iterator[Metric]:
        """One family after the other, each with all sinks."""
        sinks = self._status()
        for name, (key, told) in _GAUGES.items():
            yield self._by_sink(GaugeMetricFamily(f"{_PREFIX}_{name}", told, labels=["pipeline", "sink"]), sinks, key)
        for name, (key, told) in _COUNTERS.items():
            yield self._by_sink(CounterMetricFamily(f"{_PREFIX}_{name}", told, labels=["pipeline", "sink"]), sinks, key)
        lag = GaugeMetricFamily(
            f"{_PREFIX}_lag_messages", "Messages that are not read yet.", labels=["pipeline", "sink", "topic"]
        )
        late = GaugeMetricFamily(
            f"{_PREFIX}_watermark_seconds", "Up to when rows are complete, in Unix time.", labels=["pipeline", "sink"]
        )
        for sink in sinks:
            for topic, messages in sink["lag"].items():
                lag.add_metric([self._pipeline.name, sink["sink"], topic], messages)
            if sink["watermark"]:
                late.add_metric([self._pipeline.name, sink["sink"]], _seconds(sink["watermark"]))
        yield lag
        yield late
        yield from self._expectations(sinks)

    def _by_sink(self, family: Any, sinks: Sequence[Mapping[str, Any]], key: str) -> Any:
        for sink in sinks:
            family.add_metric([self._pipeline.name, sink["sink"]], float(sink[key]))
        return family

    def _expectations(self, sinks: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
        labels = ["pipeline", "sink", "step"]
        seen = CounterMetricFamily(f"{_PREFIX}_expectation_rows", "Rows that rules looked at.", labels=labels)
        broken = CounterMetricFamily(
            f"{_PREFIX}_expectation_broken", "Rows that broke a rule.", labels=[*labels, "rule", "then"]
        )
        for sink in sinks:
            for name, counts in sink["expectations"].items():
                step = self._pipeline.steps.get(name)
                rules = step.rules_by_name() if isinstance(step, Expect) else {}
                where = [self._pipeline.name, sink["sink"], name]
                seen.add_metric(where, counts.get(ROWS, 0))
                for rule, count in counts.items():
                    if rule != ROWS:
                        broken.add_metric([*where, rule, str(rules[rule].then) if rule in rules else ""], count)
        yield seen
        yield broken


def _seconds(watermark: str) -> float:
    return dt.datetime.fromisoformat(watermark).timestamp()
