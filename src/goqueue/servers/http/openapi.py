"""The OpenAPI 3.1 document, made from the routes and their types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import UnionType
from typing import Any, get_args

import msgspec

from goqueue.servers.http.route import Route
from goqueue.servers.http.types.common import ErrorReply
from goqueue.servers.http.types.schemas import RegistryError

_PATH_PARAMETER = re.compile(r"{(\w+)}")
_PATH_SCHEMAS = {
    "producer_id": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    "transactional_id": {"type": "string", "minLength": 1, "maxLength": 255},
    "topic": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,249}$"},
    "partition": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    "group": {"type": "string", "minLength": 1, "maxLength": 255},
    "member": {"type": "string", "minLength": 1, "maxLength": 255},
    "offset": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    "trace_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    "slot_partition": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    "slot_offset": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    "name": {"type": "string", "minLength": 1, "maxLength": 255},
    "writer": {"type": "string", "minLength": 1, "maxLength": 200},
    "subject": {"type": "string", "minLength": 1, "maxLength": 512},
    "version": {"type": "string", "pattern": "^([1-9][0-9]{0,8}|latest)$"},
    "schema_id": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
    "key_id": {"type": "string", "minLength": 1, "maxLength": 80},
    "guid": {"type": "string", "minLength": 1, "maxLength": 64},
    "namespace": {"type": "string", "minLength": 1, "maxLength": 255},
    "epoch": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
}
_REF = "#/components/schemas/{name}"


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The description of the whole API."""
    routes = list(routes)
    types = _types_of(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "GoQueue",
            "version": version,
            "description": "One partitioned log, read as a stream or as a queue.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}, {"url": "/v1"}],
        "paths": paths,
        "components": {"schemas": components},
    }


def _types_of(routes: list[Route]) -> list[Any]:
    types: dict[Any, None] = {ErrorReply: None, RegistryError: None}
    for route in routes:
        for kind in (route.body, route.query, *route.replies.values()):
            if kind is not None and not isinstance(kind, str):
                types.update(dict.fromkeys(_alternatives(kind)))
    return list(types)


def _operation(route: Route, by_type: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.handle.__module__.rpartition('.')[2]}_{route.handle.__name__}_{route.method.lower()}",
        "summary": route.summary,
        "tags": [route.handle.__module__.rpartition(".")[2]],
        "responses": {},
    }
    if parameters := [*_path_parameters(route), *_query_parameters(route)]:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.body_optional,
            "content": {"application/json": {"schema": by_type[route.body]}},
        }
    for status, kind in route.replies.items():
        operation["responses"][str(status)] = _response(kind, by_type)
    for status in route.errors:
        operation["responses"][str(status)] = _response(RegistryError if route.is_registry else ErrorReply, by_type)
    if route.bases:
        operation["servers"] = [{"url": base or "/"} for base in ("", *route.bases) if "{" not in base]
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PATH_SCHEMAS[name],
        }
        for name in _PATH_PARAMETER.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    _, components = msgspec.json.schema_components([route.query], ref_template=_REF)
    described = components[route.query.__name__]
    required = set(described.get("required", ()))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in described["properties"].items()
    ]


def _response(kind: Any, by_type: dict[Any, Any]) -> dict[str, Any]:
    """A type makes a JSON response; a string is the media type of something else."""
    if isinstance(kind, str):
        return {"description": "as its media type says", "content": {kind: {}}}
    kinds = _alternatives(kind)
    text = " Or: ".join((one.__doc__ or "").strip() for one in kinds)
    schema = by_type[kinds[0]] if len(kinds) == 1 else {"anyOf": [by_type[one] for one in kinds]}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _alternatives(kind: Any) -> tuple[Any, ...]:
    """A reply may be one of several types, written as their union."""
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)
