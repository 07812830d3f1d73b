"""Requests in which a proto says something that JSON says differently, beyond what the rules cover."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

Adapt = Callable[[Any, dict[str, Any]], None]


def _reset_config(request: Any, body: dict[str, Any]) -> None:
    body.setdefault("config", {}).update(dict.fromkeys(request.reset_config))


def _reset_policy(request: Any, body: dict[str, Any]) -> None:
    body.update(dict.fromkeys(request.reset))


def _reset_to(request: Any, body: dict[str, Any]) -> None:
    said = request.WhichOneof("to")
    if said == "position":
        body["to"] = {1: "earliest", 2: "latest"}.get(request.position, "")
    elif said is not None:
        body["to"] = {said.removesuffix("_ms"): getattr(request, said)}
    # What a member of the oneof is called may be a field of its own elsewhere.
    for name in ("position", "timestamp", "offset", "shift"):
        body.pop(name, None)
    if request.partitions:
        body["partitions"] = list(request.partitions)


def _partitions_by_topic(request: Any, body: dict[str, Any]) -> None:
    offsets: dict[str, list[int]] = {}
    for one in request.partitions:
        offsets.setdefault(one.topic, []).append(one.partition)
    body["offsets"] = offsets


def _counted(request: Any, body: dict[str, Any]) -> None:
    body["participants"] = [
        {"task": one.task, "producer_id": one.producer_id, "producer_epoch": one.producer_epoch}
        if one.HasField("producer_id")
        else one.task
        for one in request.participants
    ]


def _offset_pairs(request: Any, query: dict[str, Any]) -> None:
    if request.offsets:
        query["offsets"] = ",".join(f"{at}:{offset}" for at, offset in request.offsets.items())


def _properties(request: Any) -> Any:
    from multidict import MultiDict

    pairs = [pair for name, value in request.properties.items() for pair in (("key", name), ("value", value))]
    return MultiDict([*pairs, ("deleted", str(request.deleted)), ("format", request.format)])


# Queries whose names may occur more than once, by the method.
QUERY: Mapping[str, Callable[[Any], Any]] = MappingProxyType({"GetVersionByMetadata": _properties})
# By the method.
ADAPT: Mapping[str, Adapt] = MappingProxyType(
    {
        "AlterTopic": _reset_config,
        "AlterPolicy": _reset_policy,
        "ResetOffsets": _reset_to,
        "DeleteOffsets": _partitions_by_topic,
        "CommitEpoch": _counted,
        "ReadTopic": _offset_pairs,
        "ReadByPriority": _offset_pairs,
        "ReadFairly": _offset_pairs,
    }
)
