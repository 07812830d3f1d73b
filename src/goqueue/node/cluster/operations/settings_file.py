"""The settings file of a node that moves to other hardware, made from its former one or from that of another node.

Only what names the machine is changed. A founding file and an import are left out: with them, an empty directory would
found another cluster instead of joining this one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec

from goqueue.errors import ConfigError
from goqueue.node.config.addresses import Address, parse_address
from goqueue.node.config.load_config import read_settings_file

Settings = dict[str, dict[str, Any]]

_ONLY_AT_FOUNDING = ("founding_file", "import_file")
_LISTENERS = ("kafka", "http", "grpc")


class Place(msgspec.Struct, frozen=True):
    """Where a node was: its registered addresses by listener, and the URL at which its etcd took clients, if any."""

    node_id: int
    addresses: Mapping[str, str]
    rack: str = ""
    etcd_client: str = ""


def read_settings(path: Path) -> Settings:
    """The sections of a settings file; raises `ConfigError`."""
    try:
        return {str(section): dict(settings) for section, settings in read_settings_file(path).items()}
    except (OSError, ValueError) as error:
        raise ConfigError([f"{path}: {error}"]) from error


def settings_for(place: Place, base: Settings, *, cluster_id: str, host: str | None = None) -> Settings:
    """The settings of that node, on the machine `host` (None: where it was), from its own or another node's `base`."""
    made = deepcopy(base)
    own = int(made.get("broker", {}).get("node_id", 0))
    metadata = made.setdefault("metadata", {})
    if own != place.node_id:
        _make_other(made, own, place)
    for name in _ONLY_AT_FOUNDING:
        metadata.pop(name, None)
    # It waits for the store of this cluster, whatever else answers at the endpoints.
    metadata["cluster_id"] = cluster_id
    if host is not None:
        _move(made, place, host)
    return made


def changed_for_others(before: Settings, after: Settings) -> list[str]:
    """The settings that every other node has to have from its next start on, as lines of a settings file."""
    shared = (("cluster", "peers"), ("metadata", "voters"), ("metadata", "endpoints"))
    return [
        f"{section}.{name} = {_value(after[section][name])}"
        for section, name in shared
        if name in after.get(section, {}) and after[section][name] != before.get(section, {}).get(name)
    ]


def peer_hosts(settings: Settings) -> list[str]:
    """The hosts of all nodes, in the order of `cluster.peers`."""
    return [_host_of(one.partition("=")[2].strip()) for one in _texts(settings["cluster"].get("peers", ()))]


def host_of(settings: Settings, node_id: int) -> str:
    """The host at which other nodes reach that one."""
    return _host_of(_entry(settings["cluster"].get("peers", ()), node_id) or "") or "localhost"


def as_toml(settings: Settings, comment: str) -> str:
    """The text of a settings file."""
    lines = [f"# {comment}"]
    for section, values in settings.items():
        lines += ["", f"[{section}]", *(f"{name} = {_value(value)}" for name, value in values.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _make_other(made: Settings, own: int, place: Place) -> None:
    """Turn the settings of node `own` into those of the other one."""
    folder = re.compile(rf"(?<=/)node{own}(?=[./]|$)")
    for values in made.values():
        for name, value in values.items():
            if isinstance(value, str):
                values[name] = folder.sub(f"node{place.node_id}", value)
    made.setdefault("broker", {})["node_id"] = place.node_id
    listeners, cluster = made.setdefault("listeners", {}), made.setdefault("cluster", {})
    for name in _LISTENERS:
        if place.addresses.get(name):
            told = f"advertised_{name}" if f"advertised_{name}" in listeners else name
            listeners[told] = _at(str(listeners.get(told, "")), place.addresses[name])
    if cluster.get("advertised"):
        cluster["advertised"] = place.addresses.get("peer", "")
    cluster.pop("rack", None)
    if place.rack:
        cluster["rack"] = place.rack
    made["metadata"].pop("listen", None)
    if place.etcd_client:
        made["metadata"]["listen"] = place.etcd_client


def _move(made: Settings, place: Place, host: str) -> None:
    """Put the new machine in place of the old one, in this node's own entries."""
    listeners, cluster, metadata = made.setdefault("listeners", {}), made["cluster"], made["metadata"]
    former = _host_of(_entry(cluster.get("peers", ()), place.node_id) or place.addresses.get("peer", ""))
    client = str(metadata.get("listen", place.etcd_client))
    for values, names in (
        (listeners, [*_LISTENERS, "advertised_kafka"]),
        (cluster, ["listen", "advertised"]),
        (metadata, ["listen"]),
    ):
        for name in names:
            if values.get(name):
                values[name] = _moved(str(values[name]), former, host)
    for values, name in ((cluster, "peers"), (metadata, "voters")):
        if values.get(name):
            values[name] = [
                _moved(one, former, host) if _number(one) == place.node_id else one for one in _texts(values[name])
            ]
    if metadata.get("endpoints"):
        metadata["endpoints"] = [
            _moved(one, former, host) if one == client else one for one in _texts(metadata["endpoints"])
        ]


def _at(before: str, address: str) -> str:
    """The other address with the same scheme; a listener on all interfaces stays one."""
    head, separator, rest = before.rpartition("://")
    if rest and parse_address(rest).is_everywhere:
        return before
    return f"{head}{separator}{address}"


def _moved(text: str, former: str, host: str) -> str:
    """The address, `id=address` or URL with the new host, if it had the old one."""
    head, separator, rest = text.rpartition("://")
    if not separator:
        head, separator, rest = text.rpartition("=")
    address = parse_address(rest)
    return text if address.host != former else f"{head}{separator}{Address(host, address.port)}"


def _entry(entries: object, node_id: int) -> str | None:
    return next((one.partition("=")[2].strip() for one in _texts(entries) if _number(one) == node_id), None)


def _number(entry: str) -> int:
    number = entry.partition("=")[0].strip()
    return int(number) if number.isdecimal() else -1


def _texts(value: object) -> list[str]:
    """A list as a file has it, or as one text with commas."""
    if isinstance(value, str):
        return [one.strip() for one in value.split(",") if one.strip()]
    return [str(one) for one in value] if isinstance(value, Sequence) else []


def _host_of(address: str) -> str:
    return parse_address(address).host if address else ""


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    # A basic string of TOML is written as one of JSON is.
    return json.dumps(value, ensure_ascii=False)
