"""The loop that simulated nodes share: what was to be done while one was frozen is done when it is thawed."""

from __future__ import annotations

import asyncio
import contextvars

from goqueue.testing.clock import ManualClock
from goqueue.testing.cluster.loop import LIFE, ClusterLoop, Life


def test_what_became_due_while_a_node_was_frozen_can_still_be_cancelled() -> None:
    """As a time-out is that is due in the same moment in which what it watches over ends."""
    loop, life, done = ClusterLoop(ManualClock()), Life(1), list[str]()
    context = contextvars.copy_context()
    context.run(LIFE.set, life)

    async def story() -> None:
        kept = loop.call_later(1, done.append, "kept", context=context)
        timer = loop.call_later(1, done.append, "cancelled", context=context)
        life.is_frozen = True
        await asyncio.sleep(2)
        assert not done
        loop.thaw(life)
        timer.cancel()
        await asyncio.sleep(0)
        assert (done, kept.cancelled()) == (["kept"], False)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story())
