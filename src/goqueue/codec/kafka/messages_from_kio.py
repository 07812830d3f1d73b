"""Writes `messages.txt`, the shapes of all messages we speak, from the schemas in kio.

Run `python -m goqueue.codec.kafka.messages_from_kio` after an upgrade of kio; a test
fails while the file is not what this module would write. The broker itself never imports
kio: its reader trusts the array lengths of a request and ends the process when the memory
they ask for is not there, and its classes take longer to import than a broker to start.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from goqueue.codec.kafka.schema import MESSAGES_FILE

# Keys of the APIs we speak.
API_KEYS = (
    *(0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23),
    *(
        24,
        25,
        26,
        27,
        28,
        29,
        30,
        31,
        32,
        33,
        35,
        36,
        37,
        42,
        43,
        44,
        45,
        46,
        47,
        48,
        50,
        51,
        55,
        60,
        61,
        65,
        66,
        68,
        69,
        74,
        75,
        76,
        77,
        78,
        79,
        90,
        91,
        92,
    ),
)

PREAMBLE = """\
# Shapes of Kafka's messages, written by messages_from_kio.py. Do not edit.
# name key kind versions flexible-from, then per field: name type versions [nullable=versions] [tag=n] [default=value]
# struct and [struct] are followed by their fields, one step further in.
"""

_WIRE_TYPES = {"timedelta_i32": "ms32", "timedelta_i64": "ms64", "datetime_i64": "ms64", "error_code": "error"}


@dataclass(slots=True)
class _Merged:
    """One field, as all versions of its message together know it."""

    name: str
    type: str
    versions: list[int] = field(default_factory=list)
    nullable: list[int] = field(default_factory=list)
    tag: int | None = None
    default: str = ""
    children: dict[str, _Merged] = field(default_factory=dict)


def render() -> str:
    """The whole file."""
    lines = [PREAMBLE]
    for key in API_KEYS:
        for kind in (EntityType.request, EntityType.response):
            lines.extend(_render_message(key, kind))
    return "\n".join(lines) + "\n"


def _render_message(key: int, kind: EntityType) -> list[str]:
    name = api_key_map[key]
    versions = sorted(schema_name_map[name])
    merged: dict[str, _Merged] = {}
    flexible = []
    for version in versions:
        entity = load_entity_schema(name, version, kind)  # type: ignore[arg-type]
        if entity.__flexible__:
            flexible.append(version)
        _merge(merged, entity, version)
    head = f"{name} {key} {kind.name} {_span(versions)} {flexible[0] if flexible else versions[-1] + 1}"
    return [head, *_render_fields(merged, versions, 1)]


def _merge(known: dict[str, _Merged], entity: Any, version: int) -> None:
    """Add what one version says, keeping the order in which the fields go over the wire."""
    behind = ""
    for one in fields(entity):
        if one.name not in known:
            _insert_after(known, behind, _Merged(one.name, _type_of(one)))
        merged = known[one.name]
        merged.versions.append(version)
        if _is_nullable(one):
            merged.nullable.append(version)
        merged.tag = one.metadata.get("tag", merged.tag)
        merged.default = _default_of(one) or merged.default
        if (struct := _struct_of(one.type)) is not None:
            _merge(merged.children, struct, version)
        behind = one.name


def _insert_after(known: dict[str, _Merged], behind: str, new: _Merged) -> None:
    order = list(known.values())
    at = next((i + 1 for i, one in enumerate(order) if one.name == behind), 0)
    order.insert(at, new)
    known.clear()
    known.update({one.name: one for one in order})


def _render_fields(merged: dict[str, _Merged], around: list[int], depth: int) -> list[str]:
    lines = []
    for one in merged.values():
        words = [one.name, one.type, "*" if one.versions == around else _span(one.versions)]
        if one.nullable:
            words.append("nullable=" + ("*" if one.nullable == one.versions else _span(one.nullable)))
        if one.tag is not None:
            words.append(f"tag={one.tag}")
        if one.default:
            words.append(f"default={one.default}")
        lines.append("  " * depth + " ".join(words))
        lines.extend(_render_fields(one.children, one.versions, depth + 1))
    return lines


def _span(versions: list[int]) -> str:
    if versions != list(range(versions[0], versions[-1] + 1)):
        raise ValueError(f"versions {versions} have a hole")
    return f"{versions[0]}-{versions[-1]}"


def _bare(kind: Any) -> Any:
    """The type without `| None`."""
    if get_origin(kind) is UnionType:
        return next(one for one in get_args(kind) if one is not type(None))
    return kind


def _struct_of(kind: Any) -> Any:
    kind = _bare(kind)
    if get_origin(kind) is tuple:
        kind = get_args(kind)[0]
    return kind if is_dataclass(kind) else None


def _type_of(one: Field[Any]) -> str:
    is_array = get_origin(_bare(one.type)) is tuple
    kind = one.metadata.get("kafka_type", "struct")
    kind = _WIRE_TYPES.get(kind, kind)
    return f"[{kind}]" if is_array else kind


def _is_nullable(one: Field[Any]) -> bool:
    """Whether None has a form of its own on the wire: the zero id and time -1 are plain values."""
    if one.metadata.get("kafka_type") in {"uuid", "datetime_i64"}:
        return False
    return get_origin(one.type) is UnionType


def _default_of(one: Field[Any]) -> str:
    """The default as text; empty for the type's own (0, false, "", [], null)."""
    value = one.default
    if one.metadata.get("kafka_type") == "datetime_i64" and value is None:
        return "-1"
    if value is MISSING or value is None or value == () or is_dataclass(value):
        return ""
    if isinstance(value, timedelta):
        value = round(value.total_seconds() * 1000)
    if isinstance(value, datetime):
        value = round(value.timestamp() * 1000)
    if isinstance(value, ErrorCode):
        value = value.value
    if value in {0, ""}:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    Path(MESSAGES_FILE).write_text(render(), encoding="utf-8")
