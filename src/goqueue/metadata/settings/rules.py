"""Rules of topic settings: how the text of a value is read, and what may stand there.

A rule's `parse` raises ValueError with the reason; who knows the setting's name says the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from goqueue.records import TimestampType

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_TIMESTAMP_TYPES: Mapping[str, TimestampType] = MappingProxyType(
    {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}
)
# "As the node has it", of settings whose default is the node's.
NODE = "node"
_LANES = 5


class ConfigType(IntEnum):
    """What kind of value a setting has. Values are Kafka's."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class Rule:
    """How the text of a setting is read; `allowed` says in words what may stand there."""

    type: ConfigType
    parse: Callable[[str], Any]
    allowed: str


def integer(minimum: int, maximum: int = LONG_MAX, *, unlimited: str = "") -> Rule:
    """A whole number between two bounds."""

    def parse(text: str) -> int:
        # int() would also take "1_000" and digits of other scripts.
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", text):
            raise ValueError("it is not an integer")
        number = int(text)
        if not minimum <= number <= maximum:
            raise ValueError("it is out of range")
        return number

    kind = ConfigType.INT if maximum <= INT_MAX else ConfigType.LONG
    return Rule(kind, parse, f"an integer from {minimum} to {maximum}{unlimited}")


def fraction() -> Rule:
    """A share of the whole."""

    def parse(text: str) -> float:
        if not re.fullmatch(r"[0-9]*\.?[0-9]+([eE]-?[0-9]{1,3})?", text):
            raise ValueError("it is not a number")
        number = float(text)
        if not 0 <= number <= 1:
            raise ValueError("it is out of range")
        return number

    return Rule(ConfigType.DOUBLE, parse, "a number from 0 to 1")


def one_of(*choices: str, because: str = "", kind: ConfigType = ConfigType.STRING) -> Rule:
    """One of a few words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError("it is not supported")
        return text

    return Rule(kind, parse, " or ".join(choices) + because)


def cleanup_policy() -> Rule:
    """What becomes of old segments."""

    def parse(text: str) -> frozenset[str]:
        policies = frozenset(one.strip() for one in text.split(",")) if text.strip() else frozenset[str]()
        if not policies <= {"delete", "compact"}:
            raise ValueError("it is not supported")
        return policies

    return Rule(
        ConfigType.LIST, parse, "delete, compact, both with a comma between, or nothing to keep records for ever"
    )


def compression_level(minimum: int, maximum: int) -> Rule:
    """A level of compression, where -1 is the codec's own default."""
    levels = integer(-1, maximum)

    def parse(text: str) -> int:
        level: int = levels.parse(text)
        if level != -1 and level < minimum:
            raise ValueError("it is out of range")
        return level

    return Rule(ConfigType.INT, parse, f"-1 or an integer from {minimum} to {maximum}")


def throttled_replicas() -> Rule:
    """Replicas as Kafka lists them."""

    def parse(text: str) -> str:
        if text not in {"", "*", "none"} and not re.fullmatch(
            r"[0-9]{1,10}:[0-9]{1,10}(,[0-9]{1,10}:[0-9]{1,10})*", text
        ):
            raise ValueError("it is not a list of replicas")
        return text

    return Rule(ConfigType.LIST, parse, "*, or partition:node pairs with commas between")


def timestamp_type() -> Rule:
    """Whose clock stamps the records."""

    def parse(text: str) -> TimestampType:
        if text not in _TIMESTAMP_TYPES:
            raise ValueError("it is not supported")
        return _TIMESTAMP_TYPES[text]

    return Rule(ConfigType.STRING, parse, " or ".join(_TIMESTAMP_TYPES))


def boolean() -> Rule:
    """Yes or no."""

    def parse(text: str) -> bool:
        if text.lower() not in {"true", "false"}:
            raise ValueError("it is neither true nor false")
        return text.lower() == "true"

    return Rule(ConfigType.BOOLEAN, parse, "true or false")


def number(minimum: float, maximum: float) -> Rule:
    """A number that need not be whole, between two bounds."""

    def parse(text: str) -> float:
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
            raise ValueError("it is not a number")
        found = float(text)
        if not minimum <= found <= maximum:
            raise ValueError("it is out of range")
        return found

    return Rule(ConfigType.DOUBLE, parse, f"a number from {minimum:g} to {maximum:g}")


def or_node(rule: Rule) -> Rule:
    """As the node has it, or a value of its own."""
    return Rule(rule.type, lambda text: None if text == NODE else rule.parse(text), f"{rule.allowed}, or {NODE}")


def lane_weights() -> Rule:
    """A weight for each lane of priorities."""

    def parse(text: str) -> tuple[int, ...]:
        weights = text.split(",")
        if len(weights) != _LANES or not all(re.fullmatch(r" *[0-9]{1,4} *", one) for one in weights):
            raise ValueError("it is not a list of five integers")
        numbers = tuple(int(one) for one in weights)
        if min(numbers) < 1:
            raise ValueError("every weight must be above 0: a lane of weight 0 is never served")
        return numbers

    return Rule(ConfigType.LIST, parse, "five integers from 1 to 9999, critical first, with commas between")


def flush_messages() -> Rule:
    """Syncs for every batch, or by time alone."""

    def parse(text: str) -> int:
        if text not in {"1", str(LONG_MAX)}:
            raise ValueError("it is not supported")
        return int(text)

    return Rule(ConfigType.LONG, parse, f"1 (every batch) or {LONG_MAX} (by time alone)")
