"""Every service that the protos declare, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from goqueue.protos import (
    consume_pb2,
    dead_letters_pb2,
    delay_pb2,
    groups_pb2,
    node_pb2,
    publish_pb2,
    queue_pb2,
    schemas_pb2,
    topics_pb2,
    traces_pb2,
    transactions_pb2,
)

_FILES = (
    consume_pb2,
    dead_letters_pb2,
    delay_pb2,
    groups_pb2,
    node_pb2,
    publish_pb2,
    queue_pb2,
    schemas_pb2,
    topics_pb2,
    traces_pb2,
    transactions_pb2,
)
SERVICES: Mapping[str, Any] = MappingProxyType(
    {service.name: service for file in _FILES for service in file.DESCRIPTOR.services_by_name.values()}
)
