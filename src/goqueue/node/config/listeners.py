"""Listeners as they are written, and what they mean: protocol, TLS, address, and the address that clients are told.

`kafka` and `http` have settings of their own. Others are named in one list:

    public=kafka+tls://0.0.0.0:9093?advertised=broker.example:9093&client_certificates=optional
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import parse_qsl

from goqueue.config import Config
from goqueue.node.config.addresses import Address, parse_address

PROTOCOLS = ("kafka", "http", "grpc")
_REQUIRED = ("kafka", "http")
CLIENT_CERTIFICATES = ("none", "optional", "required")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_TLS = "tls://"
_FORM = "write name=protocol://host:port, as in public=kafka+tls://0.0.0.0:9093"


class ListenerSpec(NamedTuple):
    """One listener as the settings have it. `setting` is where it stands in them."""

    name: str
    protocol: str
    is_tls: bool
    address: Address
    advertised: Address | None
    client_certificates: str
    setting: str


Problem = tuple[str, str]


def listeners_of(config: Config) -> list[ListenerSpec]:
    """All listeners, in the order of the settings; what cannot be read is left out."""
    return [one for one in _read(config) if isinstance(one, ListenerSpec)]


def listener_problems(config: Config) -> list[Problem]:
    """What cannot be read as a listener, and what contradicts another one."""
    read = list(_read(config))
    problems = [one for one in read if not isinstance(one, ListenerSpec)]
    specs = [one for one in read if isinstance(one, ListenerSpec)]
    return [*problems, *_clashes(specs), *_missing(config, specs, has_problems=bool(problems))]


def _read(config: Config) -> Iterator[ListenerSpec | Problem]:
    listeners = config.listeners
    for name in PROTOCOLS:
        text = getattr(listeners, name)
        setting = f"listeners.{name}"
        if not text:
            continue
        try:
            is_tls, address = text.startswith(_TLS), parse_address(text.removeprefix(_TLS))
        except ValueError as error:
            yield setting, f"{text!r}: {error}"
            continue
        advertised = None
        if name == "kafka" and listeners.advertised_kafka:
            try:
                advertised = parse_address(listeners.advertised_kafka)
            except ValueError as error:
                yield "listeners.advertised_kafka", f"{listeners.advertised_kafka!r}: {error}"
        certificates = listeners.client_certificates if is_tls else "none"
        yield ListenerSpec(name, name, is_tls, address, advertised, certificates, setting)
    for text in listeners.named:
        try:
            yield _parse(text)
        except ValueError as error:
            yield "listeners.named", f"{text!r}: {error}"


def _parse(text: str) -> ListenerSpec:
    name, equals, rest = text.partition("=")
    scheme, separator, place = rest.partition("://")
    if not equals or not separator:
        raise ValueError(_FORM)
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a name: use letters, digits, - and _")
    protocol, plus, security = scheme.partition("+")
    if protocol not in PROTOCOLS or (plus and security != "tls"):
        known = ", ".join(f"{one}, {one}+tls" for one in PROTOCOLS)
        raise ValueError(f"{scheme!r} is not a protocol: give one of {known}")
    where, _, query = place.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(options.keys() - {"advertised", "client_certificates"})
    if unknown:
        raise ValueError(f"unknown option {unknown[0]!r}: there are advertised and client_certificates")
    certificates = options.get("client_certificates", "none")
    if certificates not in CLIENT_CERTIFICATES:
        raise ValueError(f"client_certificates={certificates} is not one of {', '.join(CLIENT_CERTIFICATES)}")
    if certificates != "none" and not plus:
        raise ValueError("client certificates need TLS")
    advertised = parse_address(options["advertised"]) if "advertised" in options else None
    return ListenerSpec(name, protocol, bool(plus), parse_address(where), advertised, certificates, "listeners.named")


def _clashes(specs: list[ListenerSpec]) -> Iterator[Problem]:
    names: dict[str, ListenerSpec] = {}
    places: dict[Address, ListenerSpec] = {}
    for spec in specs:
        if spec.name in names:
            yield spec.setting, f"there are two listeners named {spec.name!r}"
        names.setdefault(spec.name, spec)
        other = places.setdefault(spec.address, spec) if spec.address.port else spec
        if other is not spec:
            yield spec.setting, f"{spec.address} is the address of the listener {other.name!r} already"


def _missing(config: Config, specs: list[ListenerSpec], *, has_problems: bool) -> Iterator[Problem]:
    for protocol in _REQUIRED:
        if not has_problems and all(spec.protocol != protocol for spec in specs):
            yield f"listeners.{protocol}", f"there is no listener for {protocol}: give an address"
    if config.listeners.advertised_kafka and not config.listeners.kafka:
        yield "listeners.advertised_kafka", "listeners.kafka is empty: give the named listener its advertised address"
