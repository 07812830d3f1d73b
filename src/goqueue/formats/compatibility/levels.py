"""Compatibility levels: which versions of a subject must be able to read which."""

from __future__ import annotations

from enum import StrEnum

from goqueue.errors import InvalidCompatibility


class Level(StrEnum):
    """What versions of a subject owe each other."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Whether all earlier versions count, not the last one alone."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def reads_old(self) -> bool:
        """Whether the new schema must read what the old ones wrote."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_read_by_old(self) -> bool:
        """Whether the old schemas must read what the new one writes."""
        return self.value.startswith(("FORWARD", "FULL"))


def parse_level(name: str) -> Level:
    """The level of that name."""
    try:
        return Level(name.upper())
    except ValueError:
        raise InvalidCompatibility(
            f"Invalid compatibility level. Valid values are {', '.join(one.value.lower() for one in Level)}",
            field="compatibility",
        ) from None
