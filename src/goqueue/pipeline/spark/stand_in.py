"""A Python for Spark that starts its workers by way of our own modules, which are quiet and connect in time.

    export PYSPARK_PYTHON=$(python -m goqueue.pipeline.spark.stand_in /opt/goqueue/python)

Sessions of `goqueue.pipeline.session` with a local master have it by themselves. A cluster's driver or a server of
Spark Connect takes it from its environment: there, planners of streams and workers of `foreachBatch` that do not
connect within ten seconds, as on a busy machine, fail their query.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from goqueue.pipeline.spark import planner

_SCRIPT = """#!/bin/sh
if [ "$1 $2" = "-m pyspark.daemon" ]; then
    shift 2
    exec {python} -m goqueue.pipeline.spark.daemon "$@"
fi
case "$1 $2" in
"-m pyspark.sql.streaming.python_streaming_source_runner" | \\
"-m pyspark.sql.connect.streaming.worker.foreach_batch_worker" | \\
"-m pyspark.sql.connect.streaming.worker.listener_worker")
    exec {python} -P {planner} "$2"
    ;;
esac
exec {python} "$@"
"""


def write_stand_in(file: Path, python: str = sys.executable) -> Path:
    """Write the script, which runs this Python."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = _SCRIPT.format(python=shlex.quote(python), planner=shlex.quote(planner.__file__))
    file.write_text(text, encoding="utf-8")
    file.chmod(0o700)
    return file


if __name__ == "__main__":
    sys.stdout.write(f"{write_stand_in(Path(sys.argv[1]).resolve())}\n")
