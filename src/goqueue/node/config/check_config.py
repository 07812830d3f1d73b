"""What settings must satisfy together, and what the machine must allow. Touches nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from goqueue.config import Config
from goqueue.node.config.addresses import Address, parse_address

_INSECURE = (
    "{address} can be reached from other machines, and nothing asks them who they are: "
    "listen on 127.0.0.1, or set listeners.allow_insecure to accept the risk"
)


def problems_of(config: Config, sources: Mapping[str, str]) -> list[str]:
    """Every problem of these settings, each named by where the setting came from."""
    return [
        f"{sources.get(path, path)}: {reason}"
        for path, reason in (*_directory_problems(config), *_address_problems(config), *_order_problems(config))
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
    listeners = config.listeners
    parsed: dict[str, Address] = {}
    for name in ("kafka", "http", "grpc", "advertised_kafka"):
        text = getattr(listeners, name)
        if name in {"grpc", "advertised_kafka"} and not text:
            continue
        try:
            parsed[name] = parse_address(text)
        except ValueError as error:
            yield f"listeners.{name}", f"{text!r}: {error}"
    for name in ("kafka", "http", "grpc"):
        address = parsed.get(name)
        if address is not None and not address.is_loopback and not listeners.allow_insecure:
            yield f"listeners.{name}", _INSECURE.format(address=address)
    yield from _advertised_problems(parsed, is_given=bool(listeners.advertised_kafka))
    kafka, http = parsed.get("kafka"), parsed.get("http")
    if kafka is not None and kafka == http and kafka.port != 0:
        yield "listeners.http", f"{http} is the address of the Kafka listener already"
    grpc = parsed.get("grpc")
    if grpc is not None and grpc.port != 0 and grpc in {kafka, http}:
        yield "listeners.grpc", f"{grpc} is the address of another listener already"
    if grpc is not None and find_spec("grpc") is None:
        yield "listeners.grpc", "gRPC is not installed: pip install 'goqueue[grpc]'"


def _advertised_problems(parsed: Mapping[str, Address], *, is_given: bool) -> Iterator[tuple[str, str]]:
    advertised, kafka = parsed.get("advertised_kafka"), parsed.get("kafka")
    if advertised is not None and advertised.is_everywhere:
        yield "listeners.advertised_kafka", f"{advertised.host} is not an address that a client can connect to"
    elif advertised is not None and advertised.port == 0:
        yield "listeners.advertised_kafka", "a client cannot connect to port 0"
    elif not is_given and kafka is not None and kafka.is_everywhere:
        yield "listeners.advertised_kafka", f"say which address clients are to use, since {kafka.host} is none"


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
