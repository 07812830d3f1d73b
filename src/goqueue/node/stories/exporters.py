"""The exporters that the settings name. Each is imported when it is wanted."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.config import Config
from goqueue.errors import ConfigError
from goqueue.node.config.addresses import parse_address
from goqueue.tracing.export.lanes import Exporter

NAMES = ("file", "jaeger", "otlp", "stdout")
SERVICE = "goqueue"


def make_exporters(config: Config, *, directory: str, version: str) -> list[Exporter]:
    """One for each name in `tracing.exporters`."""
    return [_make(name, config, directory, version) for name in exporter_names(config.tracing.exporters)]


def exporter_names(text: str) -> Sequence[str]:
    """The names, each known and once."""
    names = [one.strip() for one in text.split(",") if one.strip()]
    unknown = [one for one in names if one not in NAMES]
    if unknown:
        raise ConfigError([f"tracing.exporters: {unknown[0]!r} is not an exporter; use any of {', '.join(NAMES)}"])
    return list(dict.fromkeys(names))


def _make(name: str, config: Config, directory: str, version: str) -> Exporter:
    tracing = config.tracing
    if name == "otlp":
        from goqueue.tracing.export.otlp import OtlpExporter

        return OtlpExporter(
            tracing.otlp_endpoint,
            headers=tracing.otlp_headers,
            certificate=tracing.otlp_certificate,
            timeout_ms=tracing.otlp_timeout_ms,
            service=SERVICE,
            version=version,
            node_id=config.broker.node_id,
        )
    if name == "jaeger":
        from goqueue.tracing.export.jaeger import JaegerExporter

        agent = parse_address(tracing.jaeger_agent)
        return JaegerExporter(agent.host, agent.port, service=SERVICE)
    from goqueue.tracing.export.json_lines import FileExporter, StdoutExporter

    if name == "stdout":
        return StdoutExporter(pretty=tracing.stdout_pretty)
    return FileExporter(directory, bytes_max=tracing.file_bytes_max, count_max=tracing.file_count_max)
