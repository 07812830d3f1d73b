"""OTLP over HTTP with protobuf, through OpenTelemetry's own exporter: the extra `goqueue[otel]`."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.errors import ConfigError
from goqueue.tracing.spans import CONVENTIONS_URL, Span

_NS_PER_MS = 1_000_000


class OtlpExporter:
    """Posts spans to a collector. A batch that is refused for now is sent again within the timeout."""

    name = "otlp"

    def __init__(
        self,
        endpoint: str,
        *,
        headers: str,
        certificate: str,
        timeout_ms: int,
        service: str,
        version: str,
        node_id: int,
    ) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        except ImportError as error:
            raise ConfigError(["tracing.exporters names otlp, which needs: pip install 'goqueue[otel]'"]) from error
        self._exporter = OTLPSpanExporter(
            endpoint=endpoint,
            headers=parse_headers(headers),
            certificate_file=certificate or None,
            timeout=timeout_ms / 1000,
        )
        self._resource = Resource.create(
            {"service.name": service, "service.version": version, "service.instance.id": str(node_id)}
        )
        self._scope = InstrumentationScope("goqueue", version, CONVENTIONS_URL)

    def export(self, spans: Sequence[Span]) -> None:
        """Send them, or raise."""
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
        from opentelemetry.trace.status import Status, StatusCode

        kinds = {"producer": SpanKind.PRODUCER, "consumer": SpanKind.CONSUMER, "internal": SpanKind.INTERNAL}
        sampled = TraceFlags(TraceFlags.SAMPLED)

        def context(trace_id: str, span_id: str) -> SpanContext:
            return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=sampled)

        readable = [
            ReadableSpan(
                name=one.name,
                context=context(one.trace_id, one.span_id),
                parent=None if one.parent_span_id is None else context(one.trace_id, one.parent_span_id),
                resource=self._resource,
                attributes=one.attributes,
                kind=kinds[one.role],
                status=Status(StatusCode.ERROR) if one.failed else Status(StatusCode.UNSET),
                start_time=one.start_ms * _NS_PER_MS,
                end_time=one.end_ms * _NS_PER_MS,
                instrumentation_scope=self._scope,
            )
            for one in spans
        ]
        if self._exporter.export(readable) is not SpanExportResult.SUCCESS:
            raise ConnectionError("the collector did not take the spans")

    def close(self) -> None:
        """End its connections."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def parse_headers(text: str) -> dict[str, str]:
    """`name=value,name=value` as a mapping."""
    pairs = (one.partition("=") for one in text.split(",") if one.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}
