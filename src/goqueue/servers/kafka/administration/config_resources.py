"""What a setting can belong to, and the changes that may be made to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from goqueue.errors import GoQueueError, InvalidConfig, InvalidRequest
from goqueue.metadata.settings.rules import ConfigType
from goqueue.metadata.settings.topic_config import ConfigEntry, ConfigSource, canonical_name
from goqueue.security.model import Operation as SecurityOperation
from goqueue.security.model import Resource
from goqueue.servers.kafka.administration.broker_settings import alterable, broker_entries
from goqueue.servers.kafka.administration.group_configs import alter_group_config, group_config
from goqueue.servers.kafka.api import Context, Message, failed


class ResourceType(IntEnum):
    """Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class Operation(IntEnum):
    """How a setting is changed. Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Row = dict[str, object]


async def entries_of(context: Context, kind: int, name: str) -> list[ConfigEntry]:
    """All settings of a resource, or the error that says why there are none."""
    services = context.services
    if kind == ResourceType.TOPIC:
        return services.topics.describe_config(name)
    if kind == ResourceType.BROKER:
        services.access.require(SecurityOperation.DESCRIBE_CONFIGS, Resource.CLUSTER)
        _check_broker(context, name)
        # Of a node on its own they are also the settings of this one broker, under the name that tools ask for.
        is_own = bool(name) and not _is_one_of_several(context)
        source = ConfigSource.ALTERED_BROKER if is_own else ConfigSource.ALTERED_DEFAULT
        return broker_entries(services.config, services.defaults.altered(), source)
    if kind == ResourceType.GROUP:
        return await group_config(context, name)
    raise InvalidRequest(f"resources of type {kind} have no settings here", field="resource_type")


async def change(
    context: Context,
    resource: Message,
    changes: Mapping[str, str | None],
    *,
    replace: bool,
    validate_only: bool,
) -> None:
    """Apply settings to a resource; None puts one back to its default."""
    if resource.resource_type == ResourceType.BROKER:
        context.services.access.require(SecurityOperation.ALTER_CONFIGS, Resource.CLUSTER)
        _check_broker(context, resource.resource_name)
        named = alterable(changes)
        if resource.resource_name and (named or replace) and _is_one_of_several(context):
            raise InvalidRequest(
                f"settings of broker {resource.resource_name} alone cannot be altered: all brokers have the same",
                field="resource_name",
                hint="alter the default of all brokers, which has no name (kafka-configs --entity-default)",
            )
        await context.services.defaults.alter(named, replace=replace, validate_only=validate_only)
        return
    if resource.resource_type == ResourceType.GROUP and not replace:
        await alter_group_config(context, resource.resource_name, changes, validate_only=validate_only)
        return
    if resource.resource_type != ResourceType.TOPIC:
        raise InvalidRequest(
            "only settings of topics, and single ones of groups, can be changed on the wire",
            field="resource_type",
            hint="for settings of groups use IncrementalAlterConfigs",
        )
    await context.services.topics.alter_config(
        resource.resource_name, changes, replace=replace, validate_only=validate_only
    )


def changes_of(context: Context, resource: Message) -> dict[str, str | None]:
    """The settings that incremental operations add up to, over those that are there."""
    is_topic = resource.resource_type == ResourceType.TOPIC
    described = context.services.topics.describe_config(resource.resource_name) if is_topic else []
    current = {one.name: one for one in described}
    changes: dict[str, str | None] = {}
    for one in resource.configs:
        if one.name in changes:
            raise InvalidRequest(f"setting {one.name!r} is changed more than once", field=one.name)
        changes[one.name] = _changed(one, current)
    return changes


def result(resource: Message, error: GoQueueError | None) -> Row:
    """The row that answers for one resource."""
    row: Row = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    return row if error is None else {**row, **failed(error)}


def is_repeated(resource: Message, resources: Sequence[Message]) -> bool:
    """Whether another part of the request is about the same resource: then neither is obeyed."""
    same = [
        one
        for one in resources
        if one.resource_type == resource.resource_type and one.resource_name == resource.resource_name
    ]
    return len(same) > 1


def _changed(one: Message, current: Mapping[str, ConfigEntry]) -> str | None:
    if one.config_operation == Operation.DELETE:
        return None
    if one.value is None:
        raise InvalidRequest(f"setting {one.name!r} has no value", field=one.name)
    text = str(one.value)
    if one.config_operation == Operation.SET:
        return text
    if one.config_operation not in {Operation.APPEND, Operation.SUBTRACT}:
        raise InvalidRequest(f"{one.config_operation} is not an operation on a setting", field="config_operation")
    entry = current.get(canonical_name(one.name))
    if entry is None or entry.type is not ConfigType.LIST:
        raise InvalidConfig(f"setting {one.name!r} is not a list", field=one.name)
    before = [item for item in entry.value.split(",") if item]
    named = [item.strip() for item in text.split(",")]
    if one.config_operation == Operation.APPEND:
        return ",".join([*before, *(item for item in named if item not in before)])
    return ",".join(item for item in before if item not in named)


def _is_one_of_several(context: Context) -> bool:
    return len(context.services.cluster.nodes()) > 1


def _check_broker(context: Context, name: str) -> None:
    node_id = context.services.identity.node_id
    if name not in {"", str(node_id)}:
        raise InvalidRequest(f"there is no node {name!r}, this is {node_id}", field="resource_name")
