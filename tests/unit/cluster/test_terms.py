"""The terms of the partitions that a node leads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from uuid import UUID

from tests.unit.cluster.test_replicated_writer import PLACE, HeldDisk, Led

from goqueue.broker.reading.waiters import Waiters
from goqueue.broker.replicas.writers import TermLog
from goqueue.cluster.replication.terms import LedPartition, Terms
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.metadata.events import Assignment, AssignmentsChanged, Delta, Topic, TopicCreated
from goqueue.metadata.image import Image
from goqueue.metadata.store import MetadataStore
from goqueue.records import LogKind
from goqueue.testing.clock import ManualClock
from goqueue.testing.memory_files import MemoryFiles

TOPIC_ID = UUID(int=1)


def leading(clock: ManualClock) -> tuple[Terms, Led, LedPartition]:
    """The terms of node 1, which leads one partition that 2 and 3 follow and that nobody has written to."""
    metadata = cast("MetadataStore", SimpleNamespace(image=Image(), catch_up=None))
    terms = Terms(node_id=1, metadata=metadata, syncer=HeldDisk(), clock=clock, acks_written=False)
    one = Led()
    led = terms._led[PLACE] = LedPartition(one.term)
    led.writers[LogKind.DATA] = one.writer
    one.report(2, 0, 0)
    one.report(3, 0, 0)
    return terms, one, led


async def test_a_damaged_follower_that_subscribes_again_and_again_does_not_hide_that_others_lag() -> None:
    """Each subscription told the leader of the damage, and made everybody count as caught up at that moment."""
    clock = ManualClock()
    terms, one, led = leading(clock)
    terms.note_soundness(led, 2, LogKind.DATA, is_sound=False, wants_reset=False)
    one.write()
    began_ms = clock.monotonic_ms()
    for _ in range(20):
        clock.advance(seconds=1)
        terms.note_soundness(led, 2, LogKind.DATA, is_sound=False, wants_reset=False)
    assert one.term.lag_ms(3, clock.monotonic_ms()) >= clock.monotonic_ms() - began_ms


async def test_followers_are_not_behind_in_a_log_that_has_just_been_made() -> None:
    """The first delayed message of a partition makes its delay log. Its followers would leave at the next look."""
    clock = ManualClock()
    terms, one, _ = leading(clock)
    clock.advance(seconds=3600)
    files, settings = MemoryFiles(), LogSettings()
    log = PartitionLog.open(files, "logs/orders/0.delay", settings=settings, topic_id=TOPIC_ID, now_ms=0)
    terms.writer(TermLog(PLACE, TOPIC_ID, LogKind.DELAY, log, Waiters(), 4, syncs_every_batch=False))
    clock.advance(ms=100)
    assert one.term.lag_ms(2, clock.monotonic_ms()) == 100
    one.term.subscribe(2, LogKind.DELAY, broker_epoch=2, end=0, now_ms=clock.monotonic_ms())
    assert one.term.lag_ms(2, clock.monotonic_ms()) == 100, "it has not said yet what it has synced"


async def test_a_follower_that_comes_and_goes_does_not_hide_that_another_lags() -> None:
    """Each change of the in-sync replicas made everybody count as caught up at that moment."""
    clock = ManualClock()
    terms, one, led = leading(clock)
    image = terms._metadata.image
    replicas = (1, 2, 3)
    topic = Topic("orders", TOPIC_ID, 1, 3, {})
    image.apply(TopicCreated(topic, (Assignment(leader=1, leader_epoch=4, replicas=replicas, isr=replicas),)), 1)
    one.write()
    terms._activate(led)
    began_ms = clock.monotonic_ms()
    for revision, isr in enumerate([(1, 3), (1, 2, 3)] * 5, 2):
        clock.advance(seconds=4)
        changed = Assignment(leader=1, leader_epoch=4, replicas=replicas, isr=isr)
        event = AssignmentsChanged("orders", TOPIC_ID, {0: changed})
        image.apply(event, revision)
        terms._on_delta(Delta(revision, (event,)))
    assert one.term.lag_ms(3, clock.monotonic_ms()) >= clock.monotonic_ms() - began_ms
    assert one.term.lag_ms(2, clock.monotonic_ms()) == 0, "it has joined just now"
