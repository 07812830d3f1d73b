"""The terms of the partitions that a node leads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from tests.unit.cluster.test_replicated_writer import HeldDisk, Led

from goqueue.cluster.replication.terms import LedPartition, Terms
from goqueue.metadata.store import MetadataStore
from goqueue.records import LogKind
from goqueue.testing.clock import ManualClock


async def test_a_damaged_follower_that_subscribes_again_and_again_does_not_hide_that_others_lag() -> None:
    """Each subscription told the leader of the damage, and made everybody count as caught up at that moment."""
    clock = ManualClock()
    metadata = cast("MetadataStore", SimpleNamespace())
    terms = Terms(node_id=1, metadata=metadata, syncer=HeldDisk(), clock=clock, acks_written=False)
    one = Led()
    led = LedPartition(one.term)
    led.writers[LogKind.DATA] = one.writer
    one.report(2, 0, 0)
    one.report(3, 0, 0)
    terms.note_soundness(led, 2, LogKind.DATA, is_sound=False, wants_reset=False)
    one.write()
    began_ms = clock.monotonic_ms()
    for _ in range(20):
        clock.advance(seconds=1)
        terms.note_soundness(led, 2, LogKind.DATA, is_sound=False, wants_reset=False)
    assert one.term.lag_ms(3, clock.monotonic_ms()) >= clock.monotonic_ms() - began_ms
