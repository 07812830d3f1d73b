"""The transfer alone in a session with Spark's own settings, in a process of its own.

Our sessions have other settings (`goqueue.pipeline.session`), of which every Python source gains, the ceiling of the
benchmark as well. What that ceiling is without them says what a share of it is worth.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Self

from tests.bench.measure import seconds_of
from tests.bench.spark_sources import Ceiling


class PlainSession:
    """The other process: it does what it is asked for, and says how long that took."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.spark_plain"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # It ends with its input.
        self._process.communicate()

    def transfer(self, **options: int) -> float:
        """Seconds of a read of the ceiling with these options."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(options) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the session with Spark's own settings has ended")
        return float(answer)


def main() -> None:
    """Read options line by line and answer each line with seconds."""
    # The JVM writes to standard output too.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    spark.dataSource.register(Ceiling)
    for line in sys.stdin:
        loaded = spark.read.format("ceiling").options(**json.loads(line)).load()
        print(seconds_of(lambda loaded=loaded: loaded.write.format("noop").mode("overwrite").save()), file=answers)
    spark.stop()


if __name__ == "__main__":
    main()
