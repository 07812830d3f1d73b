"""What settings must satisfy together, and what the machine must allow. Touches nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from goqueue.config import Config, SecurityConfig
from goqueue.node.config.cluster_settings import cluster_problems
from goqueue.node.config.listeners import ListenerSpec, listener_problems, listeners_of
from goqueue.security.certificate_names import parse_rules

_INSECURE = (
    "{address} can be reached from other machines, and clients are not authenticated: "
    "listen on 127.0.0.1, run 'goqueue security init' and use its settings, "
    "or set listeners.allow_insecure to accept the risk"
)


_UNENCRYPTED = (
    "{address} can be reached from other machines, and credentials and messages would travel unencrypted: "
    "use TLS, or set listeners.allow_insecure to accept the risk"
)
_OPEN_ROUTES = ("metrics", "docs", "version")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def problems_of(config: Config, sources: Mapping[str, str]) -> list[str]:
    """Every problem of these settings, each named by where the setting came from."""
    return [
        f"{sources.get(path, path)}: {reason}"
        for path, reason in (
            *_directory_problems(config),
            *_address_problems(config),
            *_security_problems(config),
            *_order_problems(config),
            *cluster_problems(config),
        )
    ]


def _directory_problems(config: Config) -> Iterator[tuple[str, str]]:
    text = config.broker.data_dir
    if not text.strip() or "\0" in text:
        yield "broker.data_dir", "name a directory"
        return
    directory = Path(text).absolute()
    try:
        existing = next(path for path in (directory, *directory.parents) if path.exists())
    except OSError as error:
        yield "broker.data_dir", f"{directory}: {error.strerror}"
        return
    if not existing.is_dir():
        yield "broker.data_dir", f"{existing} is not a directory"
    elif not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        yield "broker.data_dir", f"{existing} cannot be written to"


def _address_problems(config: Config) -> Iterator[tuple[str, str]]:
    yield from listener_problems(config)
    for spec in listeners_of(config):
        if not spec.address.is_loopback and not config.listeners.allow_insecure:
            if not config.security.enabled:
                yield spec.setting, _INSECURE.format(address=spec.address)
            elif not spec.is_tls:
                yield spec.setting, _UNENCRYPTED.format(address=spec.address)
        yield from _advertised_problems(spec)
    yield from _tls_problems(config)
    if any(spec.protocol == "grpc" for spec in listeners_of(config)) and find_spec("grpc") is None:
        yield "listeners.grpc", "gRPC is not installed: pip install 'goqueue[grpc]'"


def _advertised_problems(spec: ListenerSpec) -> Iterator[tuple[str, str]]:
    setting = "listeners.advertised_kafka" if spec.setting == "listeners.kafka" else spec.setting
    advertised = spec.advertised
    if advertised is not None and advertised.is_everywhere:
        yield setting, f"{advertised.host} is not an address that a client can connect to"
    elif advertised is not None and advertised.port == 0:
        yield setting, "a client cannot connect to port 0"
    elif advertised is None and spec.protocol == "kafka" and spec.address.is_everywhere:
        yield setting, f"say which address clients are to use, since {spec.address.host} is none"


def _tls_problems(config: Config) -> Iterator[tuple[str, str]]:
    specs = [spec for spec in listeners_of(config) if spec.is_tls]
    needed = {"certificate": bool(specs), "key": bool(specs)}
    needed["client_ca"] = any(spec.client_certificates != "none" for spec in specs)
    for name, is_needed in needed.items():
        text = getattr(config.tls, name)
        if not text:
            if is_needed:
                yield f"tls.{name}", f"the listener {specs[0].name!r} uses TLS: name the file"
        elif not os.access(text, os.R_OK):
            yield f"tls.{name}", f"{text} cannot be read"


def _security_problems(config: Config) -> Iterator[tuple[str, str]]:
    security = config.security
    for name, known in (("open_routes", _OPEN_ROUTES), ("sasl_mechanisms", _MECHANISMS)):
        for one in getattr(security, name):
            if one not in known:
                yield f"security.{name}", f"{one!r} is not one of {', '.join(known)}"
    for principal in security.super_users:
        if not principal.startswith("User:") or principal == "User:*":
            yield "security.super_users", f"{principal!r} is not a principal: write User:name"
    try:
        parse_rules(security.principal_mapping_rules)
    except ValueError as error:
        yield "security.principal_mapping_rules", str(error)
    yield from _token_problems(security)


def _token_problems(security: SecurityConfig) -> Iterator[tuple[str, str]]:
    if security.token_keys:
        for name in ("token_issuer", "token_audience"):
            if not getattr(security, name):
                yield f"security.{name}", "tokens are only checked with it: give the value that they must name"
        if "://" in security.token_keys:
            if not security.token_keys.startswith("https://"):
                yield "security.token_keys", "keys are read from https or from a file"
        elif not os.access(security.token_keys, os.R_OK):
            yield "security.token_keys", f"{security.token_keys} cannot be read"


def _order_problems(config: Config) -> Iterator[tuple[str, str]]:
    """Limits that contradict each other."""
    groups, limits, log = config.groups, config.limits, config.log
    if groups.session_timeout_ms_min > groups.session_timeout_ms_max:
        yield "groups.session_timeout_ms_min", "is more than groups.session_timeout_ms_max"
    elif not groups.session_timeout_ms_min <= groups.session_timeout_ms <= groups.session_timeout_ms_max:
        yield "groups.session_timeout_ms", "is outside groups.session_timeout_ms_min and _max"
    if groups.heartbeat_interval_ms >= groups.session_timeout_ms:
        yield "groups.heartbeat_interval_ms", "must be less than groups.session_timeout_ms"
    if log.max_message_bytes > limits.request_bytes_max:
        yield "log.max_message_bytes", "is more than limits.request_bytes_max, so no such batch could arrive"
