"""Sending a job's rows to a topic: whole, and in place of what an earlier run of the same job left behind.

A run that was killed leaves staged rows, which nobody sees but behind which readers of committed
messages wait. Its writer is named after what the job was asked to do, so the next run of the same
finds them under its own name: its commit, of a later epoch, drops them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Sender:
    """One run of a job that sends."""

    def __init__(self, job: str, options: Mapping[str, str], topic: str, *asked: object) -> None:
        digest = hashlib.blake2s(repr((topic, *asked)).encode(), digest_size=8).hexdigest()
        self._writer = f"jobs-{job}-{digest}"
        self._options = {**options, "topic": topic}
        # Later than any earlier run's; one more for each part that is sent.
        self._epoch = time.time_ns() // 1_000_000

    def send(self, rows: DataFrame) -> None:
        """Send all rows, or none."""
        own = {"writer": self._writer, "epoch": str(self._epoch)}
        rows.write.format("goqueue").options(**self._options, **own).mode("append").save()
        self._epoch += 1
