"""Durations as a program gives them: a `timedelta`, a number of seconds, or text such as `"1h30m"`."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from goqueue.client.errors import InvalidArgument

Duration = timedelta | float | str

_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_TEXT = re.compile(r"0|(?:[0-9]{1,12}(?:\.[0-9]{1,6})?(?:ms|s|m|h|d))+")
_PART = re.compile(r"([0-9.]+)(ms|s|m|h|d)")


def seconds_of(duration: Duration, name: str) -> float:
    """How many seconds that is; `name` is the argument to blame."""
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        text = duration.strip()
        if not _TEXT.fullmatch(text):
            units = f"write {text}s for seconds" if text.isdigit() else "write it as 250ms, 5s, 2m or 1h30m"
            raise InvalidArgument(f"{name}={duration!r} is not a duration", units)
        seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))
    elif type(duration) in {int, float}:
        # Exactly these: True is an int too, and never a duration.
        seconds = float(duration)
    else:
        raise TypeError(f"{name} is {type(duration).__name__}: give a timedelta, a number of seconds or text as '2s'")
    if not 0 <= seconds < math.inf:
        raise InvalidArgument(f"{name}={duration!r} is not a duration", "it must be 0 or more")
    return seconds


def ms_of(duration: Duration, name: str) -> int:
    """The duration in milliseconds, never rounded to less."""
    # Half a microsecond less, because 0.3 * 1000 is a little more than 300.
    return math.ceil(seconds_of(duration, name) * 1000 - 0.0005)


def text_of(duration: Duration, name: str) -> str:
    """The duration as the broker reads it."""
    return f"{ms_of(duration, name)}ms"


def without_ms(given: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """Keywords with their old synonyms in milliseconds (`old="new"` in `names`) turned into durations."""
    found = dict(given)
    for old, new in names.items():
        if old not in found:
            continue
        if new in found:
            raise TypeError(f"{new} and {old} are the same setting: leave {old} out")
        warnings.warn(f"{old} is deprecated: write {new}=, in seconds or as '2s'", DeprecationWarning, stacklevel=4)
        milliseconds = found.pop(old)
        found[new] = None if milliseconds is None else milliseconds / 1000
    return found


def or_ms(duration: Duration | None, milliseconds: float | None, name: str, old: str) -> Duration | None:
    """One argument that may still be given in milliseconds."""
    if milliseconds is None:
        return duration
    given = {old: milliseconds} if duration is None else {old: milliseconds, name: duration}
    return without_ms(given, **{old: name})[name]  # type: ignore[no-any-return]
