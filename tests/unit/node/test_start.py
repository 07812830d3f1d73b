"""A broker's start imports what serving needs, and nothing that can wait."""

from __future__ import annotations

import subprocess
import sys

# Each costs a start tens of milliseconds, for something that most starts never do: read a settings
# file, answer /metrics, draw a table, read Kafka's schemas, run a pipeline.
NOT_AT_START = ("yaml", "tomllib", "prometheus_client", "rich", "kio", "pyspark", "numpy", "pandas", "pyarrow")

CHECK = """
import sys
import goqueue.cli.running.server, goqueue.node.process.lifecycle, goqueue.node.config.load_config
print(*sorted(set({names!r}) & {{name.partition(".")[0] for name in sys.modules}}))
"""


def test_a_start_does_not_import_what_can_wait() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", CHECK.format(names=NOT_AT_START)], capture_output=True, text=True, check=True
    )

    assert finished.stdout.split() == []
