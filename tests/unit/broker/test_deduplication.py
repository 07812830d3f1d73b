"""A message sent twice within its topic's window is stored once, whatever happens in between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.broker.stack import Stack

from goqueue.broker.arrivals.deduplication import windows
from goqueue.broker.arrivals.deduplication.ids import DEDUPLICATION_HEADER
from goqueue.broker.arrivals.deduplication.window import Remembered, Window
from goqueue.broker.arrivals.record_publishing import Published
from goqueue.broker.replicas.roles import Following, Leading
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config
from goqueue.errors import TooBusy
from goqueue.records import Acks, NewRecord
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles

FIVE_MINUTES_MS = 300_000


async def stack_with_window(
    files: MemoryFiles | None = None, clock: ManualClock | None = None, *, ids_max: int = 1000, partitions: int = 3
) -> Stack:
    config = Config()
    limited = replace(config, limits=replace(config.limits, deduplication_ids_max=ids_max))
    stack = Stack(files, clock, config=limited)
    if stack.topics.find("t") is None:
        await stack.topic("t", partitions, **{"goqueue.dedup.window.ms": str(FIVE_MINUTES_MS)})
    await stack.deduplication.load(stack.metadata.image, stack.partitions, stack.clock.now_ms())
    return stack


async def send(stack: Stack, *ids: str | None, acks: Acks = Acks.LEADER) -> list[Published]:
    sent = [
        NewRecord(None, b"v", () if one is None else ((DEDUPLICATION_HEADER, one.encode()),), timestamp_ms=77)
        for one in ids
    ]
    return await stack.publish.publish_records("t", sent, acks=acks)


async def stored(stack: Stack) -> int:
    count = stack.topics.get("t").partition_count
    return sum([len(await stack.read_all("t", partition)) for partition in range(count)])


async def test_a_repeat_is_answered_with_the_first_ones_place() -> None:
    stack = await stack_with_window()
    (first,) = await send(stack, "a")
    # Without a key the id chooses the partition, so a repeat meets the first one.
    (again,) = await send(stack, "a")
    assert again == first._replace(duplicate=True)
    assert await stored(stack) == 1


async def test_others_and_those_without_an_id_are_stored() -> None:
    stack = await stack_with_window()
    results = await send(stack, "a", "b", None, None)
    assert not any(result.duplicate for result in results)
    assert await stored(stack) == 4


async def test_twins_in_one_request_are_stored_once() -> None:
    stack = await stack_with_window()
    first, second, third = await send(stack, "a", "a", "b")
    assert second == first._replace(duplicate=True)
    assert not third.duplicate
    assert await stored(stack) == 2


async def test_the_window_ends_on_time_and_begins_anew() -> None:
    clock = ManualClock()
    stack = await stack_with_window(clock=clock)
    await send(stack, "a")
    clock.advance(ms=FIVE_MINUTES_MS)
    assert (await send(stack, "a"))[0].duplicate
    clock.advance(ms=1)
    assert not (await send(stack, "a"))[0].duplicate
    clock.advance(ms=FIVE_MINUTES_MS)
    assert (await send(stack, "a"))[0].duplicate


async def test_ids_are_known_after_a_power_cut_exactly_as_far_as_the_messages_are() -> None:
    files, clock = MemoryFiles(), ManualClock()
    stack = await stack_with_window(files, clock)
    for number in range(20):
        await send(stack, f"kept-{number}", acks=Acks.ALL)
        clock.advance(ms=1000)
    await send(stack, "lost", acks=Acks.LEADER)

    again = await stack_with_window(files.crash(Survival.NOTHING), clock)

    for number in range(20):
        (result,) = await send(again, f"kept-{number}")
        assert result.duplicate
    assert not (await send(again, "lost"))[0].duplicate


async def test_only_the_last_window_is_read_again() -> None:
    files, clock = MemoryFiles(), ManualClock()
    stack = await stack_with_window(files, clock)
    for number in range(60):
        # Times that producers write are not the times of arrival, and do not count.
        await send(stack, f"id-{number}", acks=Acks.ALL)
        clock.advance(ms=10_000)

    again = await stack_with_window(files.crash(Survival.NOTHING), clock)

    answers = [(await send(again, f"id-{number}"))[0].duplicate for number in range(60)]
    assert answers == [False] * 30 + [True] * 30


async def test_a_repeat_waits_until_the_first_is_safe() -> None:
    files = MemoryFiles()
    stack = await stack_with_window(files)
    await send(stack, "a", acks=Acks.LEADER)
    assert (await send(stack, "a", acks=Acks.ALL))[0].duplicate
    again = await stack_with_window(files.crash(Survival.NOTHING))
    assert (await send(again, "a"))[0].duplicate


async def test_more_ids_than_fit_are_refused_and_not_forgotten() -> None:
    clock = ManualClock()
    stack = await stack_with_window(clock=clock, ids_max=2, partitions=1)
    await send(stack, "a", "b")
    with pytest.raises(TooBusy):
        await send(stack, "c")
    assert (await send(stack, "a"))[0].duplicate
    clock.advance(ms=FIVE_MINUTES_MS + 1)
    assert not (await send(stack, "c"))[0].duplicate


async def test_a_topic_made_again_under_its_name_knows_no_ids() -> None:
    stack = await stack_with_window()
    stack.metadata.subscribe(stack.deduplication.on_delta)
    await send(stack, "a")
    await stack.topics.delete("t")
    await stack.topic("t", 3, **{"goqueue.dedup.window.ms": "1000"})
    assert not (await send(stack, "a"))[0].duplicate


def batch_of(stack: Stack, *ids: str | None, sequence: int = -1) -> bytes:
    """A closed batch as a Kafka client sends it."""
    records = [
        NewRecord(None, (one or "none").encode(), () if one is None else ((DEDUPLICATION_HEADER, one.encode()),))
        for one in ids
    ]
    producer_id, epoch = (-1, -1) if sequence < 0 else (7, 0)
    return encode_batch(
        records,
        now_ms=stack.clock.now_ms(),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


async def values(stack: Stack) -> list[tuple[int, bytes | None]]:
    return [(one.offset, one.value) for one in await stack.read_all("t", 0)]


async def test_a_follower_has_the_ids_already_when_it_becomes_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    stack = await stack_with_window(clock=clock, partitions=1)
    (first,) = await send(stack, "a")
    await send(stack, None, "b")
    place = stack.partitions.leader("t", 0)
    epoch = place.leader_epoch
    place.become(Following(epoch + 1, leader=9))
    assert not await stack.deduplication.follow(place, clock.now_ms()), "all of it was one stretch"
    monkeypatch.setattr(windows, "first_since", None)
    place.become(Leading(epoch + 2, (1,)))
    (again, *others) = await send(stack, "a", "b", "c")
    assert again == first._replace(duplicate=True)
    assert [one.duplicate for one in others] == [True, False]


async def test_what_a_follower_has_read_counts_for_nothing_once_its_log_is_cut() -> None:
    clock = ManualClock()
    stack = await stack_with_window(clock=clock, partitions=1)
    await send(stack, "a")
    await send(stack, "b")
    place = stack.partitions.leader("t", 0)
    epoch = place.leader_epoch
    place.become(Following(epoch + 1, leader=9))
    await stack.deduplication.follow(place, clock.now_ms())
    place.log.truncate_to(1)
    place.become(Leading(epoch + 2, (1,)))
    assert [one.duplicate for one in await send(stack, "a", "b")] == [True, False]


async def test_a_follower_forgets_ids_whose_window_is_over() -> None:
    clock = ManualClock()
    stack = await stack_with_window(clock=clock, partitions=1)
    await send(stack, "a")
    clock.advance(ms=FIVE_MINUTES_MS // 2)
    await send(stack, "b")
    place = stack.partitions.leader("t", 0)
    place.become(Following(place.leader_epoch + 1, leader=9))
    await stack.deduplication.follow(place, clock.now_ms())
    clock.advance(ms=FIVE_MINUTES_MS // 2 + 1)
    await stack.deduplication.follow(place, clock.now_ms())
    place.become(Leading(place.leader_epoch + 1, (1,)))
    assert [one.duplicate for one in await send(stack, "a", "b")] == [False, True]


async def test_in_a_new_term_ids_are_read_before_anything_is_written_and_not_on_the_event_loop() -> None:
    stack = await stack_with_window(partitions=1)
    (first,) = await send(stack, "a")
    place = stack.partitions.leader("t", 0)
    place.become(Leading(place.leader_epoch + 1, (1,)))
    waiting, same = stack.publish.opening("t", 0), stack.publish.opening("t", 0)
    assert waiting is not None
    assert same is waiting
    written: list[int] = []
    waiting.then(
        lambda error: written.append(
            -1
            if error
            else stack.publish.append("t", 0, batch_of(stack, "a", "b"), acks=Acks.LEADER).appended.base_offset
        )
    )
    (again,) = await send(stack, "a")
    assert again == first._replace(duplicate=True)
    assert written == [1]
    assert stack.publish.opening("t", 0) is None
    assert await values(stack) == [(0, b"v"), (2, b"b")]


async def test_repeats_are_taken_out_of_a_kafka_clients_batch_and_its_offsets_stay() -> None:
    stack = await stack_with_window()
    first = stack.publish.append("t", 0, batch_of(stack, "a", None, "b"), acks=Acks.LEADER).appended
    second = stack.publish.append("t", 0, batch_of(stack, "a", "c", "c", "b", None), acks=Acks.LEADER).appended
    third = stack.publish.append("t", 0, batch_of(stack, "a", "b"), acks=Acks.LEADER).appended
    fourth = stack.publish.append("t", 0, batch_of(stack, "d"), acks=Acks.LEADER).appended
    assert [(one.base_offset, one.last_offset) for one in (first, second, third, fourth)] == [
        (0, 2),
        (3, 7),
        (8, 9),
        (10, 10),
    ]
    assert await values(stack) == [(0, b"a"), (1, b"none"), (2, b"b"), (4, b"c"), (7, b"none"), (10, b"d")]


async def test_an_idempotent_producers_sequence_goes_on_over_what_was_taken_out() -> None:
    files = MemoryFiles()
    stack = await stack_with_window(files, partitions=1)
    send_batch = stack.publish.append
    send_batch("t", 0, batch_of(stack, "a", "b", sequence=0), acks=Acks.LEADER)
    send_batch("t", 0, batch_of(stack, "a", "b", sequence=2), acks=Acks.LEADER)
    again = send_batch("t", 0, batch_of(stack, "a", "b", sequence=2), acks=Acks.LEADER).appended
    last = send_batch("t", 0, batch_of(stack, "c", sequence=4), acks=Acks.ALL)
    assert last.durable is not None
    await last.durable
    assert (again.duplicate, again.base_offset) == (True, 2)
    assert (last.appended.duplicate, last.appended.base_offset) == (False, 4)

    recovered = await stack_with_window(files.crash(Survival.NOTHING))

    assert await values(recovered) == [(0, b"a"), (1, b"b"), (4, b"c")]
    assert (await send(recovered, "c"))[0].duplicate


async def test_what_a_kafka_client_sent_is_known_to_others_and_the_other_way_round() -> None:
    stack = await stack_with_window(partitions=1)
    await send(stack, "http")
    stack.publish.append("t", 0, batch_of(stack, "kafka"), acks=Acks.LEADER)
    stack.publish.append("t", 0, batch_of(stack, "http"), acks=Acks.LEADER)
    (repeat,) = await send(stack, "kafka")
    assert (repeat.duplicate, repeat.partition) == (True, 0)
    assert await stored(stack) == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 200))))
def test_a_window_is_what_a_list_of_all_messages_says(steps: list[tuple[int, int]]) -> None:
    window, everything, now_ms = Window(ids_max=100), [], 0
    for name, later_ms in steps:
        now_ms += later_ms
        since_ms = now_ms - 300
        window.drop_before(since_ms)
        expected = next((one for one in reversed(everything) if one[0] == name and one[1].taken_ms >= since_ms), None)
        found = window.find(b"%d" % name, since_ms)
        assert found == (None if expected is None else expected[1])
        if found is None:
            place = Remembered(0, len(everything), now_ms, now_ms)
            window.add(b"%d" % name, place)
            everything.append((name, place))


async def test_the_same_id_under_two_keys_is_stored_in_both_partitions() -> None:
    stack = await stack_with_window()
    keys = [b"k%d" % number for number in range(10)]
    header = ((DEDUPLICATION_HEADER, b"a"),)
    results = [
        (await stack.publish.publish_records("t", [NewRecord(key, b"v", header)], acks=Acks.LEADER))[0] for key in keys
    ]
    places = {one.partition for one in results}
    assert len(places) == 3
    assert sum(not one.duplicate for one in results) == 3, "once in each partition"
