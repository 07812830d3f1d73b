"""The values of security: operations and resources as Kafka names them, users, keys, roles, bindings and rules."""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

import msgspec

ANY_PRINCIPAL = "User:*"
ANY_HOST = "*"
CLUSTER_NAME = "kafka-cluster"


class Resource(IntEnum):
    """Kinds of resources, by Kafka's numbers."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Pattern(IntEnum):
    """How a rule names its resource, by Kafka's numbers."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What may be done, by Kafka's numbers."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Permission(IntEnum):
    """Whether a rule allows or denies, by Kafka's numbers."""

    ANY = 1
    DENY = 2
    ALLOW = 3


# Operations that each kind of resource has.
OPERATIONS = MappingProxyType(
    {
        Resource.TOPIC: frozenset(
            {
                Operation.READ,
                Operation.WRITE,
                Operation.CREATE,
                Operation.DELETE,
                Operation.ALTER,
                Operation.DESCRIBE,
                Operation.DESCRIBE_CONFIGS,
                Operation.ALTER_CONFIGS,
            }
        ),
        Resource.GROUP: frozenset(
            {
                Operation.READ,
                Operation.DELETE,
                Operation.DESCRIBE,
                Operation.DESCRIBE_CONFIGS,
                Operation.ALTER_CONFIGS,
            }
        ),
        Resource.CLUSTER: frozenset(
            {
                Operation.CREATE,
                Operation.ALTER,
                Operation.DESCRIBE,
                Operation.CLUSTER_ACTION,
                Operation.DESCRIBE_CONFIGS,
                Operation.ALTER_CONFIGS,
                Operation.IDEMPOTENT_WRITE,
            }
        ),
        Resource.TRANSACTIONAL_ID: frozenset({Operation.WRITE, Operation.DESCRIBE}),
    }
)


class Acl(NamedTuple):
    """One rule: who, from where, may or may not do what with which resources."""

    resource: Resource
    name: str
    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission


class ScramCredential(msgspec.Struct, frozen=True):
    """What is stored of a password for one mechanism: enough to check it, not enough to use it."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class User(msgspec.Struct, frozen=True):
    """Somebody with a password. `scram` is by mechanism."""

    name: str
    scram: dict[str, ScramCredential]
    created_ms: int = 0
    changed_ms: int = 0


class ApiKey(msgspec.Struct, frozen=True):
    """A key of a principal. Only the hash of it is stored; the id is the part of the key that is no secret."""

    id: str
    principal: str
    sha256: str
    label: str = ""
    created_ms: int = 0
    # 0: it does not expire.
    expires_ms: int = 0
    last_used_ms: int = 0


class Grant(msgspec.Struct, frozen=True):
    """Operations on one kind of resource; part of a role."""

    resource: str
    operations: tuple[str, ...]


class Role(msgspec.Struct, frozen=True):
    """A named set of grants."""

    name: str
    grants: tuple[Grant, ...]
    is_built_in: bool = False


class Binding(NamedTuple):
    """A principal has a role for the resources whose names begin with `prefix`; empty: for all."""

    principal: str
    role: str
    prefix: str


def _role(name: str, **grants: str) -> Role:
    rows = tuple(Grant(resource, tuple(text.split())) for resource, text in grants.items())
    return Role(name, rows, is_built_in=True)


BUILT_IN_ROLES = MappingProxyType(
    {
        role.name: role
        for role in (
            _role("admin", topic="all", group="all", cluster="all", transactional_id="all"),
            _role(
                "operator",
                topic="create delete alter describe describe_configs alter_configs",
                group="delete describe describe_configs alter_configs",
                cluster="create describe describe_configs alter_configs",
                transactional_id="describe",
            ),
            _role(
                "producer",
                topic="write describe describe_configs",
                cluster="idempotent_write",
                transactional_id="write describe",
            ),
            _role("consumer", topic="read describe describe_configs", group="read describe"),
            _role(
                "readonly",
                topic="read describe describe_configs",
                group="describe describe_configs",
                cluster="describe describe_configs",
                transactional_id="describe",
            ),
        )
    }
)
