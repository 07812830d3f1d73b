"""What a pipeline can say when it cannot go on. Each is one line that names what to change."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar

from goqueue.errors import GoQueueError

F = TypeVar("F", bound=Callable[..., Any])
# An error of ours inside what Spark tells: its type, and its message up to the end of the line.
_OURS = re.compile(r"\bgoqueue(?:\.\w+)+: (.+)")
# What py4j says of an error of Spark's that PySpark has no class for: a number of its own, then the JVM's stack.
_CALLED = "An error occurred while calling "
_CAUSE = re.compile(r"^(?:Caused by)?: org\.apache\.spark\.[\w.$]+: (.+)$")
# What Spark writes around its words: the name of the error before, the state and the place behind.
_CODES = re.compile(r"^\[[A-Z0-9_.]+\] | SQLSTATE: .*$")


# As the reader knows it, and as a source of a pipeline file does.
_LOSS_OPTION = "the option failOnDataLoss to false (fail_on_data_loss: false in a pipeline file)"


class PipelineError(GoQueueError):
    """The root of what a pipeline raises."""


class BadOption(PipelineError):
    """An option that is unknown, missing, or contradicts another."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"option {option}: {reason}")
        self.field = option


class DataLost(PipelineError):
    """Offsets that were to be read are gone."""

    def __init__(self, where: str, first: int, end: int) -> None:
        super().__init__(
            f"{where}: offsets {first} to {end - 1} are gone, by retention, deletion or a topic made anew; "
            f"to go on without them, set {_LOSS_OPTION}"
        )


class TopicRecreated(DataLost):
    """The offsets to be read belong to a topic that was deleted; another topic has its name now."""

    def __init__(self, topic: str) -> None:
        PipelineError.__init__(
            self,
            f"topic {topic!r} was deleted and created again: the offsets of this query belong to the deleted topic, "
            f"and what it had left to read is lost; to go on with the new topic from its beginning, set {_LOSS_OPTION}",
        )


class SparkFailed(PipelineError):
    """Spark gave up; says with what, in one line."""


class RowRefused(PipelineError):
    """A row that cannot become a message."""


def told_by_spark(error: BaseException) -> str:
    """What went wrong in one line, without Spark's stacks: our own words if there are any, else its first ones."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if text.startswith(_CALLED) and (causes := _causes(lines)):
        # The first says where, as in which file, and the last says what is wrong there.
        return ": ".join(dict.fromkeys((causes[0].rstrip(". "), causes[-1])))[:500]
    told = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "JVM stacktrace", "..."))]
    return _CODES.sub("", (told or [type(error).__name__])[0])[:500]


def _causes(lines: list[str]) -> list[str]:
    """What Spark's own errors say, out of a stack of the JVM: their words may take several lines."""
    found: list[list[str]] = []
    is_open = False
    for line in lines:
        cause = _CAUSE.match(line)
        if cause:
            found.append([_CODES.sub("", cause[1])])
        elif is_open and not line.startswith(("at ", "...", "Caused by:", "Driver stacktrace")):
            found[-1].append(_CODES.sub("", line))
            continue
        is_open = bool(cause)
    # Of a worker's traceback the last line counts.
    return [words[-1] if "Traceback (most" in words[0] else " ".join(words) for words in found]


@contextmanager
def spark_in_one_line() -> Iterator[None]:
    """What Spark raises inside becomes an error of ours."""
    try:
        yield
    except GoQueueError:
        raise
    except Exception as error:
        # Known by name: whoever only plans has not imported Spark.
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        raise SparkFailed(told_by_spark(error)) from None


def in_one_line(function: F) -> F:
    """For what Spark's workers call: an error of ours reaches the user as its message, without a traceback.

    Spark asks the environment whether to show it. The process ends after the error, so
    nobody else's tracebacks are hidden by this.
    """

    @wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except GoQueueError as error:
            raise _told(error) from None

    @wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Iterator[Any]:
        try:
            yield from function(*args, **kwargs)
        except GoQueueError as error:
            raise _told(error) from None

    return generator if isgeneratorfunction(function) else plain  # type: ignore[return-value]


def _told(error: GoQueueError) -> GoQueueError:
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    text = str(error)
    if error.hint and error.hint not in text:
        error.args = (f"{text} ({error.hint})",)
    return error
