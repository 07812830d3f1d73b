"""Compaction of any lake table, whoever writes it: many small files become few, and no row changes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.errors import InvalidRequest
from goqueue.pipeline.jobs.report import Report
from goqueue.pipeline.lake.compact import SMALL_BYTES, compact
from goqueue.pipeline.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact_lake(
    spark: SparkSession | None,
    table: LakeTable,
    name: str,
    *,
    small_bytes: int = SMALL_BYTES,
    keep_ms: int | None = None,
) -> Report:
    """Put the small files of a table together; without Spark it is only looked at."""
    if table.schema is None:
        raise InvalidRequest(f"there is no table {name}", hint="name one that is there")
    begun = time.monotonic()
    report = Report("compact-lake", is_dry_run=spark is None, facts={"table": name})
    files = table.files({})
    report.facts |= {"files_before": len(files), "small_files": sum(file.bytes < small_bytes for file in files)}
    if spark is None:
        return report
    # The same at every run on this machine, so that a run finds what a killed one left; and of one run at a time.
    digest = hashlib.blake2s(f"{socket.gethostname()} {os.getuid()} {name}".encode(), digest_size=8).hexdigest()
    with (Path(tempfile.gettempdir()) / f"goqueue-compact-{digest}.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidRequest(f"another compaction of {name} has not ended") from None
        done = compact(spark, table, f"goqueue-compact-{digest}", small_bytes=small_bytes)
        report.facts |= done._asdict()
        report.facts["expired"] = 0 if keep_ms is None else table.expire(keep_ms)
    report.facts["seconds"] = round(time.monotonic() - begun, 2)
    return report
