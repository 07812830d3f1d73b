"""A loop that hangs is noticed while it hangs, and the log says where."""

from __future__ import annotations

import time

import pytest

from goqueue.node.cluster.watchdog import Watchdog


async def test_a_stall_is_logged_with_the_stack_of_whoever_causes_it(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog()
    watchdog.start()
    deadline = time.monotonic() + 5
    while not caplog.records and time.monotonic() < deadline:
        # Blocking on purpose: this is what must be found.
        time.sleep(0.01)  # noqa: ASYNC251
    watchdog.close()
    assert watchdog.stalls == 1
    assert "test_a_stall_is_logged_with_the_stack" in caplog.text
