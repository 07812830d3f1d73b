"""Stories of a whole node in simulation: what is told, and that it is told again after stops, kills and power cuts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.caller import Caller
from goqueue.config import Config, DelayConfig, TracingConfig
from goqueue.delay.values import Held, SlotId
from goqueue.delivery.dead_letters.redrive import RedriveRequest, RedriveState
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.errors import InternalTopic, OffsetOutOfRange, TraceNotFound
from goqueue.groups.service import NewOffset
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode
from goqueue.tracing.events import Kind
from goqueue.tracing.store import TRACES
from goqueue.tracing.story import Status, Story
from goqueue.tracing.traces import TraceFilter

SHOP = Caller(client_id="shop", address="10.0.0.7", protocol="http")
PLACE = TopicPartition("t", 0)
TRACEPARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def publish(services: Services, *values: bytes, traced: bool = False, topic: str = "t") -> None:
    headers = (("traceparent", TRACEPARENT),) if traced else ()
    records = [NewRecord(b"k", value, headers) for value in values]
    await services.publish.publish_records(topic, records, acks=Acks.ALL, partition=0, caller=SHOP)


async def receive(services: Services, limit: int = 10, **how: Any) -> list[str]:
    found = await services.delivery.receive(Receive("g", "c", [PLACE], limit, **how))
    return [one.receipt for one in found]


async def settle(services: Services, receipts: list[str], action: Action, **how: Any) -> None:
    await services.delivery.settle([Settlement(one, action, **how) for one in receipts])


async def story(services: Services, offset: int, topic: str = "t") -> Story:
    return await services.tracing.reader.story(topic, 0, offset)


def told(found: Story) -> list[str]:
    return [line.kind.text for line in found.lines if line.kind is not Kind.PUBLISH_SYNCED]


async def until(check: Callable[[], Awaitable[Any]]) -> Any:
    for _ in range(2000):
        if found := await check():
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come about")


async def make_topic(services: Services, **config: str) -> None:
    await services.topics.create(
        NewTopic("t", 1, config={name.replace("_", "."): text for name, text in config.items()})
    )


def test_a_message_that_was_sent_received_and_acknowledged() -> None:
    async def life(services: Services) -> None:
        await make_topic(services)
        await publish(services, b"a", b"b")
        await settle(services, await receive(services), Action.ACK)
        found = await story(services, 1)
        assert told(found) == [
            "publish.received",
            "publish.partitioned",
            "publish.persisted",
            "consume.fetched",
            "consume.acked",
        ]
        assert found.status is Status.COMPLETED
        received, _, persisted, fetched, _ = (one for one in found.lines if one.kind is not Kind.PUBLISH_SYNCED)
        assert received.attributes == {
            "client": "shop",
            "principal": "User:ANONYMOUS",
            "address": "10.0.0.7",
            "protocol": "http",
        }
        assert persisted.attributes["batch"] == "0-1"
        assert fetched.attributes.pop("waited_ms") == fetched.at_ms - persisted.at_ms
        assert fetched.attributes == {"group": "g", "member": "c", "lane": 2, "delivery_count": 1, "lock_ms": 30_000}

    assert SimNode(1, stories=True).live(life)


@pytest.mark.parametrize("ends", ["in order", "killed"])
def test_stories_are_the_same_after_a_restart(ends: str) -> None:
    before: list[Story] = []

    async def first(services: Services) -> None:
        await make_topic(services)
        for number in range(30):
            await publish(services, b"%d" % number)
            await settle(services, await receive(services), Action.ACK)
        before.extend([await story(services, at) for at in range(30)])
        # Written within 100 ms.
        await asyncio.sleep(0.2)

    async def second(services: Services) -> None:
        after = [await story(services, at) for at in range(30)]
        assert [told(one) for one in after] == [told(one) for one in before]
        assert [one.trace_id for one in after] == [one.trace_id for one in before]

    node = SimNode(2, stories=True)
    assert node.live(first, is_killed=ends == "killed")
    assert node.live(second)
    assert node.live(second)


def test_nacks_expiries_extensions_and_releases_are_told_with_their_reasons() -> None:
    async def life(services: Services) -> None:
        await make_topic(services)
        await publish(services, b"a")
        await settle(services, await receive(services), Action.NACK, reason="card declined", delay_ms=100)
        await receive(services, wait_ms=1_000, visibility_ms=500)
        [third] = await receive(services, wait_ms=5_000)
        await settle(services, [third], Action.EXTEND, visibility_ms=60_000)
        await settle(services, [third], Action.RELEASE)
        found = await story(services, 0)
        assert told(found)[3:] == [
            "consume.fetched",
            "consume.nacked",
            "consume.fetched",
            "visibility.timeout",
            "consume.fetched",
            "visibility.extended",
            "consume.released",
        ]
        nacked = next(line for line in found.lines if line.kind is Kind.CONSUME_NACKED)
        assert (nacked.attributes["error"], nacked.attributes["wait_ms"]) == ("card declined", 100)
        _, second, third_time = (line for line in found.lines if line.kind is Kind.CONSUME_FETCHED)
        expired = next(line for line in found.lines if line.kind is Kind.VISIBILITY_TIMEOUT)
        assert second.attributes["waited_ms"] == second.at_ms - nacked.at_ms - 100
        assert third_time.attributes["waited_ms"] == third_time.at_ms - expired.at_ms
        assert found.status is Status.PENDING

    assert SimNode(3, stories=True).live(life)


@pytest.mark.parametrize("headers", [{}, {"fixed": b"yes"}])
def test_dead_letters_and_redrives_are_one_story_with_one_trace_id(headers: dict[str, bytes | None]) -> None:
    async def life(services: Services) -> None:
        await make_topic(services)
        await publish(services, b"a")
        await settle(services, await receive(services), Action.REJECT, reason="no such card")
        await until(lambda: _routed(services))
        died = await story(services, 0)
        assert died.status is Status.ERROR
        assert died.places == ("t/0@0", "t.dlq/0@0")
        from goqueue.delivery.dead_letters.letters import Edits

        await services.redrives.start(RedriveRequest("t", edits=Edits(headers)))
        await until(lambda: _is_done(services))
        receipts = await receive(services, wait_ms=5_000)
        await settle(services, receipts, Action.ACK)
        found = await story(services, 0)
        assert found.status is Status.COMPLETED
        moved = [
            line.target for line in found.lines if line.kind in {Kind.DLQ_ROUTED, Kind.REDRIVE_SENT} and line.target
        ]
        assert moved[0] == "t.dlq/0@0"
        assert moved[1].startswith("t/0@")
        stories = [await services.tracing.reader.story(*_place(one)) for one in found.places]
        assert {one.trace_id for one in stories} == {died.trace_id}
        assert {told(one)[-1] for one in stories} == {"consume.acked"}

    async def _routed(services: Services) -> bool:
        return "dlq.routed" in told(await story(services, 0))

    async def _is_done(services: Services) -> bool:
        return services.redrives.progress("t").state is RedriveState.DONE

    def _place(text: str) -> tuple[str, int, int]:
        topic, _, rest = text.partition("/")
        partition, _, offset = rest.partition("@")
        return topic, int(partition), int(offset)

    assert SimNode(4, stories=True).live(life)


def test_delayed_messages_have_a_story_before_and_after_they_are_due() -> None:
    async def life(services: Services) -> None:
        await make_topic(services)
        now_ms = services.clock.now_ms()
        record = NewRecord(b"k", b"v")
        held = [Held(record, now_ms + 1_000, 0), Held(record, now_ms + 60_000, 0)]
        one, other = await services.delay.hold("t", held, caller=SHOP)
        assert isinstance(one, SlotId)
        assert isinstance(other, SlotId)
        slots = "__delayed:t"
        waiting = await services.tracing.reader.story(slots, one.partition, one.offset)
        assert (told(waiting), waiting.status) == (["delay.scheduled"], Status.PENDING)
        await services.delay.reschedule("t", other, now_ms + 90_000)
        await services.delay.cancel("t", other)
        cancelled = await services.tracing.reader.story(slots, other.partition, other.offset)
        assert told(cancelled) == ["delay.scheduled", "delay.rescheduled", "delay.cancelled"]
        assert cancelled.status is Status.COMPLETED
        [receipt] = await receive(services, wait_ms=5_000)
        await settle(services, [receipt], Action.ACK)
        by_slot = await services.tracing.reader.story(slots, one.partition, one.offset)
        by_place = await story(services, 0)
        assert told(by_slot) == told(by_place)
        assert told(by_place)[:3] == ["delay.scheduled", "delay.ready", "publish.received"]
        assert by_slot.trace_id == by_place.trace_id == waiting.trace_id
        assert by_place.status is Status.COMPLETED

    assert SimNode(5, Config(delay=DelayConfig()), stories=True).live(life)


def test_stream_groups_that_passed_a_message_and_readers_are_told() -> None:
    async def life(services: Services) -> None:
        await make_topic(services)
        await publish(services, *[b"x"] * 10)
        await services.reads.read({PLACE: 0}, limit=5, max_bytes=2**20, caller=SHOP)
        await services.groups.commit("s", [NewOffset("t", 0, 3)], member_id="m")
        await services.groups.commit("s", [NewOffset("t", 0, 8)], member_id="m")
        commits = [
            [
                line.attributes["committed"]
                for line in (await story(services, at)).lines
                if "committed" in line.attributes
            ]
            for at in (0, 2, 3, 7, 8)
        ]
        assert commits == [[3], [3], [8], [8], []]
        assert (await story(services, 0)).status is Status.COMPLETED
        readers = [line.attributes.get("client") for line in (await story(services, 4)).lines]
        assert readers.count("shop") == 2

    assert SimNode(6, stories=True).live(life)


def test_a_traceparent_gives_the_trace_id_and_finds_the_message() -> None:
    async def life(services: Services) -> None:
        await make_topic(services)
        await publish(services, b"plain")
        await publish(services, b"traced", traced=True)
        found = await story(services, 1)
        assert (found.trace_id, found.parent_span_id) == ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
        assert (await services.tracing.traces.get(found.trace_id)).offset == 1
        derived = (await story(services, 0)).trace_id
        assert (await services.tracing.traces.get(derived)).offset == 0
        with pytest.raises(TraceNotFound):
            await services.tracing.traces.get("f" * 32)
        listed = await services.tracing.traces.recent(10)
        assert {one.offset for one in listed} == {0, 1}

    assert SimNode(7, stories=True).live(life)


def test_traces_are_searched_by_status_group_client_key_and_time() -> None:
    async def life(services: Services) -> None:
        await make_topic(services)
        start_ms = services.clock.now_ms()
        await publish(services, *[b"x"] * 5)
        await settle(services, await receive(services, 2), Action.ACK)
        search = services.tracing.traces.search
        assert {one.offset for one in (await search(TraceFilter(status=Status.COMPLETED), 10)).stories} == {0, 1}
        assert {one.offset for one in (await search(TraceFilter(group="g"), 10)).stories} == {0, 1}
        assert (await search(TraceFilter(client="nobody"), 10)).stories == []
        by_key = await search(TraceFilter(topic="t", key=b"k", start_ms=start_ms), 10)
        assert [one.offset for one in by_key.stories] == [0, 1, 2, 3, 4]
        assert (await search(TraceFilter(topic="t", key=b"other"), 10)).stories == []
        pages, cursor = [], None
        while True:
            page = await search(TraceFilter(topic="t", start_ms=start_ms), 2, cursor)
            pages += [one.offset for one in page.stories]
            cursor = page.cursor
            if cursor is None:
                break
        assert pages == [0, 1, 2, 3, 4]

    assert SimNode(8, stories=True).live(life)


def test_a_topic_without_stories_has_only_what_its_log_says() -> None:
    async def life(services: Services) -> None:
        await make_topic(services, trace_enabled="false")
        await publish(services, b"a")
        await settle(services, await receive(services), Action.ACK)
        assert told(await story(services, 0)) == ["publish.persisted"]
        await services.topics.alter_config("t", {"trace.enabled": "true"})
        await publish(services, b"b")
        assert told(await story(services, 1))[0] == "publish.received"

    assert SimNode(9, stories=True).live(life)


def test_a_node_without_stories_writes_none() -> None:
    async def life(services: Services) -> None:
        await make_topic(services)
        await publish(services, b"a")
        assert told(await story(services, 0)) == ["publish.persisted"]
        assert services.topics.find(TRACES) is None

    assert SimNode(10).live(life)


def test_what_was_dropped_is_said_in_the_story() -> None:
    async def life(services: Services) -> None:
        await make_topic(services)
        await publish(services, *[b"x"] * 250)
        topic_id, now_ms = services.topics.get("t").topic_id, services.clock.now_ms()
        for at in range(250):
            services.tracing.recorder.note(Kind.CONSUME_FETCHED, topic_id, 0, at, at, now_ms)
        assert services.tracing.stats().events_dropped > 0
        found = await story(services, 0)
        [gap] = [line for line in found.lines if line.kind is Kind.NOT_KEPT]
        assert gap.attributes["from_ms"] <= gap.attributes["until_ms"]  # type: ignore[operator]
        assert "consume.fetched" in told(await story(services, 249))

    assert SimNode(11, Config(tracing=TracingConfig(pending_max=100)), stories=True).live(life)


def test_records_that_left_their_log_keep_their_story() -> None:
    async def life(services: Services) -> None:
        await make_topic(services)
        await publish(services, *[b"x"] * 3)
        await services.queries.delete_records("t", 0, 2)
        found = await story(services, 0)
        assert not found.stored
        assert told(found)[-1] == "log.removed"
        assert "log.removed" not in told(await story(services, 2))

    assert SimNode(12, stories=True).live(life)


def test_offsets_that_never_were_and_internal_topics_are_refused() -> None:
    async def life(services: Services) -> None:
        await make_topic(services)
        await publish(services, b"a")
        await story(services, 0)
        with pytest.raises(OffsetOutOfRange):
            await story(services, 1)
        await asyncio.sleep(0.2)
        with pytest.raises(InternalTopic):
            await services.tracing.reader.story(TRACES, 0, 0)

    assert SimNode(13, stories=True).live(life)


@pytest.mark.parametrize("seed", range(20, 26))
def test_a_power_cut_costs_no_message_and_stories_go_on(seed: int) -> None:
    async def first(services: Services) -> None:
        await make_topic(services)
        for number in range(10):
            await publish(services, b"%d" % number)
            await asyncio.sleep(0.15)

    async def second(services: Services) -> None:
        if services.topics.find("t") is None:
            return
        await publish(services, b"again")
        end = services.queries.offsets("t", 0).end_offset
        stories = [await story(services, at) for at in range(end)]
        assert all("publish.persisted" in told(one) for one in stories)
        assert told(stories[-1])[0] == "publish.received"

    node = SimNode(seed, Config(), stories=True)
    node.live(first, crash_at_step=20 + 7 * (seed - 20))
    assert node.live(second)
