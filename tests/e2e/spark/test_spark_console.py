"""What a session prints by itself: nothing but a line of Java's own, and what goes wrong is still told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

PROGRAM = """
import contextlib
import os
import sys
import psutil
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
import goqueue.pipeline

class Many(DataSource):
    @classmethod
    def name(cls):
        return "many"

    def schema(self):
        return "number long"

    def reader(self, schema):
        return Reader()

class Reader(DataSourceReader):
    def partitions(self):
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition):
        for _ in range(500):
            yield pa.RecordBatch.from_pydict({"number": pa.array(range(10_000), pa.int64())})

def fail(number):
    print("told by a worker", file=sys.stderr, flush=True)
    return 1 // number

spark = goqueue.pipeline.session(master="local[2]", home=sys.argv[1])
spark.dataSource.register(Many)
print(len(spark.read.format("many").load().limit(5).collect()), "rows")
lines = []
for one in psutil.Process().children(recursive=True):
    # Workers whose rows nobody wants any more end meanwhile: psutil raises for those that are gone or not yet reaped.
    with contextlib.suppress(psutil.NoSuchProcess):
        lines.append(one.cmdline())
print(sorted({line[2] for line in lines if line[1:2] == ["-m"]}), os.environ["PYSPARK_PYTHON"] == sys.executable)
try:
    spark.sparkContext.parallelize([0], 1).map(fail).collect()
except Exception as error:
    print("ZeroDivisionError" in str(error))
spark.stop()
"""
OF_JAVA = "WARNING: Using incubator modules: jdk.incubator.vector"


def test_a_session_prints_only_what_somebody_has_to_say(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=150, check=True
    )

    # Planners too are of the daemon that is quiet: one that is ended after an idle minute would print a traceback.
    assert done.stdout.splitlines() == ["5 rows", "['goqueue.pipeline.spark.daemon'] True", "True"]
    assert [line for line in done.stderr.splitlines() if line != OF_JAVA] == ["told by a worker"]
