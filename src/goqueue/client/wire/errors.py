"""What can go wrong on the Kafka port, and which of Kafka's codes pass by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from goqueue.client.errors import BrokerUnreachable, ClientError

OFFSET_OUT_OF_RANGE = 1
DUPLICATE_SEQUENCE_NUMBER = 46

# Sending the same again can help: leaders move, coordinators load, disks have room again.
RETRIABLE = frozenset({-1, 2, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 51, 56, 72, 74, 75, 76, 88, 100, 103})
# The request went to the wrong node, or its topic moved: ask where it is first.
STALE_METADATA = frozenset({3, 5, 6, 9, 13, 15, 16, 72, 74, 75, 100, 103})

NAMES: Mapping[int, str] = MappingProxyType(
    {
        -1: "the broker failed to answer; its log says why",
        1: "the offset is outside the log",
        2: "the broker found the batch damaged",
        3: "there is no such topic or partition",
        5: "the partition has no leader",
        6: "the node does not lead the partition",
        7: "the broker took too long",
        10: "the batch is larger than the topic's max.message.bytes",
        12: "the text beside an offset is too long",
        14: "the coordinator is loading",
        15: "the coordinator is not available",
        16: "the node does not coordinate this",
        17: "the topic's name is not allowed, or the topic is internal",
        22: "the group has members of a newer generation",
        24: "the group id is not allowed",
        25: "the group has members of its own",
        29: "access to the topic is denied",
        30: "access to the group is denied",
        35: "the broker does not speak this version",
        36: "the topic exists already",
        40: "a setting is not allowed",
        42: "the request is not allowed",
        44: "the topic's policy refuses it",
        45: "a batch is missing before this one",
        46: "the batch was stored before",
        47: "another process has taken over the producer",
        48: "the transaction was ended meanwhile",
        51: "the last transaction of this name is still being ended",
        53: "access to the transactional id is denied",
        56: "the broker's storage failed",
        58: "authentication failed",
        67: "the producer is not known",
        69: "there is no such group",
        87: "the broker refuses a record",
        88: "an open transaction may change these offsets",
        89: "a limit of the broker was reached",
        90: "a newer run of this writer has taken over",
        105: "there is no such transactional id: it was aborted, timed out, or never began",
    }
)


class KafkaUnreachable(BrokerUnreachable):
    """No broker answers at any of the addresses."""

    def __init__(self, servers: str, reason: str) -> None:
        super().__init__(servers, reason)
        self.hint = "is a broker running there, and is that the address of its Kafka port, not of its HTTP API?"


class BrokerRefused(ClientError):
    """The broker answered with an error of Kafka's."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: {message or NAMES.get(code, 'the broker refuses')} (Kafka error {code})")
        self.code = code


class AnswerLost(ClientError):
    """The connection ended between a request and its answer: it may or may not have been done."""


class LoginFailed(ClientError):
    """The broker does not take the credentials, or is not the broker that it claims to be."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.hint = "check sasl.mechanism, user and password or token"


class SecurityUnsupported(ClientError):
    """A security option that this client cannot honour, so it does not connect at all."""
