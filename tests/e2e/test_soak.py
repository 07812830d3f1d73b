"""A broker under mixed load for many minutes: neither its memory nor its open files grow.

`make soak` runs it for an hour; SOAK_MINUTES says how long. What is measured is the second half: in the first,
caches fill and the allocator settles. Short runs print the same table and check only what holds for them too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.e2e.conftest import StartBroker
from tests.e2e.http import Http
from tests.e2e.soak_load import mixed_load, wait

MINUTES = float(os.environ.get("SOAK_MINUTES", "2"))
SAMPLE_SECONDS = 15.0
# Below this length the first half is still warming up, so that a slope says nothing.
MINUTES_TO_JUDGE = 30.0
SLOPE_MB_A_MINUTE_MAX = 0.1
OPEN_FILES_MAX = 512


class Sample(NamedTuple):
    """What the broker's process takes at one moment."""

    minutes: float
    rss_mb: float
    open_files: int


@pytest.mark.slow
@pytest.mark.timeout(60 * MINUTES + 300)
def test_memory_and_open_files_do_not_grow_under_mixed_load(start_broker: StartBroker) -> None:
    broker = start_broker(GOQUEUE_LOG_RETENTION_CHECK_MS=5_000, GOQUEUE_DURABILITY_CHECKPOINT_INTERVAL_MS=5_000)
    samples: list[Sample] = []
    print(f"\n{'minutes':>8} {'RSS MB':>8} {'open files':>10} {'rounds':>8}")
    with mixed_load(broker) as load:
        began = time.monotonic()
        while (passed := time.monotonic() - began) < 60 * MINUTES:
            wait(min(SAMPLE_SECONDS, 60 * MINUTES - passed), load)
            samples.append(sample_of(broker.pid, (time.monotonic() - began) / 60))
            print("{:8.2f} {:8.1f} {:10d}".format(*samples[-1]), f"{load.rounds:8d}", flush=True)
    second_half = samples[len(samples) // 2 :]
    slope = slope_of(second_half)
    print(f"second half: RSS grows by {slope:.3f} MB a minute, at most {max(s.open_files for s in samples)} open files")

    ready = Http(broker.http).get("/readyz")
    assert ready["status"] == "ok", ready
    assert max(one.open_files for one in samples) <= OPEN_FILES_MAX
    if MINUTES >= MINUTES_TO_JUDGE:
        assert slope < SLOPE_MB_A_MINUTE_MAX


def sample_of(pid: int, minutes: float) -> Sample:
    """The process now, from /proc."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    files = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return Sample(minutes, pages * os.sysconf("SC_PAGE_SIZE") / 2**20, files)


def slope_of(samples: Sequence[Sample]) -> float:
    """Megabytes a minute, by least squares."""
    count = len(samples)
    mean_x = sum(one.minutes for one in samples) / count
    mean_y = sum(one.rss_mb for one in samples) / count
    spread = sum((one.minutes - mean_x) ** 2 for one in samples)
    return sum((one.minutes - mean_x) * (one.rss_mb - mean_y) for one in samples) / spread if spread else 0.0
