"""The Python that Spark starts: which modules go by way of ours, and which do not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from goqueue.pipeline.spark.stand_in import write_stand_in


@pytest.mark.parametrize(
    ("asked", "run"),
    [
        (["-m", "pyspark.daemon", "pyspark.worker"], "-m goqueue.pipeline.spark.daemon pyspark.worker"),
        (["-m", "pyspark.sql.streaming.python_streaming_source_runner"], "planner.py pyspark.sql.streaming."),
        (["-m", "pyspark.sql.connect.streaming.worker.foreach_batch_worker"], "planner.py pyspark.sql.connect."),
        (["-m", "pyspark.sql.connect.streaming.worker.listener_worker"], "planner.py pyspark.sql.connect."),
        (["-m", "pyspark.worker", "a b"], "-m pyspark.worker a b"),
        (["job.py"], "job.py"),
    ],
)
def test_workers_of_streams_connect_before_they_load_spark(asked: list[str], run: str, tmp_path: Path) -> None:
    python = tmp_path / "a python"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o700)

    done = subprocess.run(
        [write_stand_in(tmp_path / "bin" / "python", str(python)), *asked], capture_output=True, text=True, check=True
    )

    assert run in done.stdout
