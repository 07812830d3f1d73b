"""Settings, as frozen slices: each part of the node receives its own.

Nothing here reads a file or the environment: `node/config/load_config.py` does. Every field
carries its documentation in its metadata, from which the command line's options and
the reference page are made, so a setting cannot exist undocumented. Begin with `Config` below.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from goqueue.config.cluster import ClusterConfig, MetadataConfig
from goqueue.config.declaring import MIB, setting
from goqueue.config.doors import GrpcConfig, HttpConfig, ListenersConfig, SecurityConfig, TlsConfig
from goqueue.config.features import (
    DelayConfig,
    DeliveryConfig,
    GroupsConfig,
    SchemasConfig,
    TracingConfig,
    TransactionsConfig,
)
from goqueue.config.storage import BrokerConfig, DurabilityConfig, LimitsConfig, LogConfig

__all__ = [
    "MIB",
    "BrokerConfig",
    "ClusterConfig",
    "Config",
    "DelayConfig",
    "DeliveryConfig",
    "DurabilityConfig",
    "GroupsConfig",
    "GrpcConfig",
    "HttpConfig",
    "LimitsConfig",
    "ListenersConfig",
    "LogConfig",
    "MetadataConfig",
    "SchemasConfig",
    "SecurityConfig",
    "TlsConfig",
    "TracingConfig",
    "TransactionsConfig",
    "documented_settings",
    "environment_name",
    "setting",
]


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one node."""

    broker: BrokerConfig = field(default=BrokerConfig())
    listeners: ListenersConfig = field(default=ListenersConfig())
    tls: TlsConfig = field(default=TlsConfig())
    security: SecurityConfig = field(default=SecurityConfig())
    log: LogConfig = field(default=LogConfig())
    durability: DurabilityConfig = field(default=DurabilityConfig())
    limits: LimitsConfig = field(default=LimitsConfig())
    groups: GroupsConfig = field(default=GroupsConfig())
    transactions: TransactionsConfig = field(default=TransactionsConfig())
    delivery: DeliveryConfig = field(default=DeliveryConfig())
    delay: DelayConfig = field(default=DelayConfig())
    tracing: TracingConfig = field(default=TracingConfig())
    schemas: SchemasConfig = field(default=SchemasConfig())
    http: HttpConfig = field(default=HttpConfig())
    grpc: GrpcConfig = field(default=GrpcConfig())
    cluster: ClusterConfig = field(default=ClusterConfig())
    metadata: MetadataConfig = field(default=MetadataConfig())


def environment_name(section: str, name: str, metadata: Any) -> str:
    """The variable that sets a field: an old name where there is one, else by rule."""
    return str(metadata.get("env") or f"GOQUEUE_{section.upper()}_{name.upper()}")


def documented_settings() -> list[tuple[str, str, Any, str, str]]:
    """(section, name, default, environment variable, doc) of every setting, in order."""
    return [
        (
            section.name,
            one.name,
            one.default,
            environment_name(section.name, one.name, one.metadata),
            one.metadata["doc"],
        )
        for section in fields(Config)
        for one in fields(section.default)  # type: ignore[arg-type]
    ]
