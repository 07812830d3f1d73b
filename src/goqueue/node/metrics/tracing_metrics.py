"""The series of stories and exporters."""

from __future__ import annotations

from prometheus_client.core import Metric

from goqueue.node.metrics.series import Series
from goqueue.tracing.feature import TracingService

_EXPORTER = ("exporter",)

EVENTS = Series("tracing_events", "Events recorded for stories.")
EVENTS_DROPPED = Series("tracing_events_dropped", "Events dropped because too many waited to be written.")
WRITE_FAILURES = Series("tracing_write_failures", "Flushes of events that failed and are tried again.")
LOG_BYTES = Series("tracing_log_bytes", "Bytes of stories on the disk.")
INDEX_BYTES = Series("tracing_index_bytes", "Bytes of the index of stories on the disk.")
PASSED_OVER = Series("tracing_messages_passed_over", "Messages that exporters did not look at because of load.")
EXPORTED = Series("tracing_spans_exported", "Spans that an exporter has sent.", _EXPORTER)
DROPPED = Series("tracing_spans_dropped", "Spans that an exporter has dropped.", _EXPORTER)
FAILURES = Series("tracing_export_failures", "Attempts of an exporter that failed.", _EXPORTER)


def tracing_metrics(tracing: TracingService) -> list[Metric]:
    """Every series of the tracer, with its rows."""
    stats = tracing.stats()
    return [
        EVENTS.counter([((), stats.events)]),
        EVENTS_DROPPED.counter([((), stats.events_dropped)]),
        WRITE_FAILURES.counter([((), stats.write_failures)]),
        LOG_BYTES.gauge([((), stats.log_bytes)]),
        INDEX_BYTES.gauge([((), stats.index_bytes)]),
        PASSED_OVER.counter([((), stats.messages_passed_over)]),
        EXPORTED.counter(((one.name,), one.exported) for one in stats.exporters),
        DROPPED.counter(((one.name,), one.dropped) for one in stats.exporters),
        FAILURES.counter(((one.name,), one.failures) for one in stats.exporters),
    ]
