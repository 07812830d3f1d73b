"""A redrive through power cuts at any step: each letter goes back once, however often the job is begun again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.sim.stories import each_seed

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, DeliveryConfig
from goqueue.delivery.dead_letters.letters import Edits, LetterFilter
from goqueue.delivery.dead_letters.redrive import RedriveProgress, RedriveRequest, RedriveState
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.records import Acks, Isolation, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode, Story

PLACES = [TopicPartition("t", 0), TopicPartition("t", 1)]
LETTERS = [b"%d" % number for number in range(6)]
# A life that redrives them has about so many steps of the disk, and never fewer than the minimum.
STEPS, STEPS_MIN = 140, 110


async def die(services: Services, letters: Sequence[bytes] = LETTERS) -> None:
    """Publish messages and reject every one."""
    await services.topics.create(NewTopic("t", 2))
    await services.publish.publish_records("t", [NewRecord(one, one) for one in letters], acks=Acks.ALL)
    while found := await services.delivery.receive(Receive("g", "c", PLACES, 1000)):
        await services.delivery.settle([Settlement(one.receipt, Action.REJECT) for one in found], durable=True)
        await asyncio.sleep(1)


async def redrive(services: Services, request: RedriveRequest | None = None) -> RedriveProgress:
    progress = await services.redrives.start(request or RedriveRequest("t", all_groups=True))
    while progress.state is RedriveState.RUNNING:  # noqa: ASYNC110 - in simulated time
        await asyncio.sleep(0.1)
    return progress


async def sent_back(services: Services) -> list[bytes]:
    """What consumers of the topic see behind its first records."""
    await asyncio.sleep(1)
    # What an attempt that a crash ended has written is there, and nobody's.
    read = await services.reads.read(
        dict.fromkeys(PLACES, 0), limit=1000, max_bytes=2**20, isolation=Isolation.READ_COMMITTED
    )
    records = [record for one in read.values() for record in one.records]
    return sorted(one.value or b"" for one in records if any(name == "goqueue-redriven-at" for name, _ in one.headers))


def step_of(seed: int) -> int:
    """One step of the life that redrives; seeds in a row are spread over all of it."""
    return 1 + 3 * seed % STEPS


def cut_at(node: SimNode, story: Story, step: int) -> None:
    """A life in which the power is cut at this step. Only the last steps may be those of a life that had fewer."""
    assert not node.live(story, crash_at_step=step) or step > STEPS_MIN


@pytest.mark.parametrize("seed", each_seed(80))
def test_each_letter_goes_back_once_wherever_the_power_goes(seed: int) -> None:
    node = SimNode(seed, Config())

    async def first(services: Services) -> None:
        await redrive(services)

    async def again(services: Services) -> None:
        progress = await redrive(services)
        assert (progress.state, progress.failed) == (RedriveState.DONE, 0)
        assert await sent_back(services) == LETTERS
        assert (await redrive(services)).redriven == 0
        assert await sent_back(services) == LETTERS

    assert node.live(die)
    cut_at(node, first, step_of(seed))
    assert node.live(again)


# --- back to the group they died in ---------------------------------------------------------------------------------

TO_GROUP = RedriveRequest("t")
EDITED = RedriveRequest("t", edits=Edits({"mended": b"yes"}))


async def taken(services: Services, group: str, *, settle: bool = True) -> list[tuple[bytes, int]]:
    """All that a group is given, with the delivery counts."""
    await asyncio.sleep(1)
    messages: list[tuple[bytes, int]] = []
    while found := await services.delivery.receive(Receive(group, "c", PLACES, 1000)):
        messages += [(one.value or b"", one.delivery_count) for one in found]
        if settle:
            await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found], durable=True)
    return sorted(messages)


async def die_for_one_group(services: Services) -> None:
    """Group g rejects all messages; group other has settled them."""
    await die(services)
    assert len(await taken(services, "other")) == len(LETTERS)


@pytest.mark.parametrize("request_", [TO_GROUP, EDITED], ids=["reopened", "appended"])
@pytest.mark.parametrize("seed", each_seed(80))
def test_only_the_group_gets_its_letters_again_and_once_wherever_the_power_goes(
    seed: int, request_: RedriveRequest
) -> None:
    node = SimNode(seed, Config())

    async def first(services: Services) -> None:
        await redrive(services, request_)

    async def again(services: Services) -> None:
        progress = await redrive(services, request_)
        assert (progress.state, progress.failed, progress.error) == (RedriveState.DONE, 0, None)
        assert await taken(services, "other") == []
        assert await taken(services, "g") == [(one, 1) for one in LETTERS]
        assert await sent_back(services) == (LETTERS if request_ is EDITED else [])
        assert (await redrive(services, request_)).redriven == 0

    async def looked_at(services: Services) -> None:
        assert await taken(services, "g") == []
        assert await taken(services, "other") == []

    assert node.live(die_for_one_group)
    cut_at(node, first, step_of(seed))
    assert node.live(again)
    assert node.live(looked_at)


@pytest.mark.parametrize("seed", each_seed(60))
def test_reopened_letters_survive_a_power_cut_while_their_group_works_on_them(seed: int) -> None:
    node = SimNode(seed, Config())
    acked: list[bytes] = []

    async def work(services: Services) -> None:
        await redrive(services, TO_GROUP)
        await asyncio.sleep(1)
        for one in await services.delivery.receive(Receive("g", "c", PLACES, 3)):
            (result,) = await services.delivery.settle([Settlement(one.receipt, Action.ACK)], durable=True)
            if result.error is None:
                acked.append(one.value or b"")

    async def rest(services: Services) -> None:
        await redrive(services, TO_GROUP)
        await asyncio.sleep(60)
        left = [value for value, _ in await taken(services, "g")]
        assert set(left) | set(acked) == set(LETTERS)
        assert len(left) == len(set(left))
        assert not set(left) & set(acked)
        assert await taken(services, "other") == []

    assert node.live(die_for_one_group)
    cut_at(node, work, step_of(seed))
    assert node.live(rest)


def test_a_message_is_reopened_long_after_the_cursor_has_passed_it_and_after_snapshots() -> None:
    async def story(services: Services) -> None:
        await die(services, [b"dead"])
        for number in range(600):
            await services.publish.publish_records("t", [NewRecord(b"k", b"%d" % number)], acks=Acks.ALL)
            assert len(await taken(services, "g")) == 1
        assert (await redrive(services, TO_GROUP)).redriven == 1
        assert await services.delivery.positions.committed("g", PLACES) != {}

    async def after(services: Services) -> None:
        assert await taken(services, "g") == [(b"dead", 1)]

    node = SimNode(5)
    assert node.live(story)
    assert node.live(after)


def test_a_letter_dies_again_and_is_reopened_again() -> None:
    async def story(services: Services) -> None:
        await die(services, [b"dead"])
        for _ in range(3):
            assert (await redrive(services, TO_GROUP)).redriven == 1
            await asyncio.sleep(1)
            (one,) = await services.delivery.receive(Receive("g", "c", PLACES, 10))
            assert one.delivery_count == 1
            await services.delivery.settle([Settlement(one.receipt, Action.REJECT)], durable=True)
            await asyncio.sleep(1)

    assert SimNode(6).live(story)


def test_a_vanished_original_is_sent_to_its_group_alone() -> None:
    async def story(services: Services) -> None:
        await die_for_one_group(services)
        for at in PLACES:
            end = services.queries.offsets(at.topic, at.partition).last_stable_offset
            await services.queries.delete_records(at.topic, at.partition, end)
        assert (await redrive(services, TO_GROUP)).redriven == len(LETTERS)
        assert await taken(services, "other") == []
        assert await taken(services, "late") == []
        assert await taken(services, "g") == [(one, 1) for one in LETTERS]

    assert SimNode(7).live(story)


def test_a_topic_made_again_has_none_of_its_predecessors_messages_reopened() -> None:
    async def story(services: Services) -> None:
        await die(services, [b"dead"])
        await services.topics.delete("t")
        await services.topics.create(NewTopic("t", 2))
        await services.publish.publish_records("t", [NewRecord(b"dead", b"new")], acks=Acks.ALL)
        assert await taken(services, "g") == [(b"new", 1)]
        assert (await redrive(services, TO_GROUP)).redriven == 1
        assert await taken(services, "g") == [(b"dead", 1)]

    assert SimNode(8).live(story)


def test_a_letter_of_a_deleted_group_stays_and_says_why() -> None:
    async def story(services: Services) -> None:
        await die(services, [b"dead"])
        await services.groups.delete("g")
        progress = await redrive(services, TO_GROUP)
        assert (progress.redriven, progress.failed) == (0, 1)
        assert "all_groups" in str(progress.error)
        assert (await redrive(services)).redriven == 1

    assert SimNode(9).live(story)


def test_a_group_that_was_reset_before_the_message_gets_it_once() -> None:
    async def story(services: Services) -> None:
        await die(services, [b"dead"])
        await services.delivery.positions.reset("g", dict.fromkeys(PLACES, 0))
        assert (await redrive(services, TO_GROUP)).redriven == 1
        assert await taken(services, "g") == [(b"dead", 1)]

    assert SimNode(10).live(story)


def test_a_message_whose_time_to_live_is_over_is_sent_anew() -> None:
    async def story(services: Services) -> None:
        await die(services, [b"dead"])
        await services.topics.alter_config("t", {"message.ttl.ms": "60000"})
        assert await taken(services, "g") == []
        await asyncio.sleep(120)
        await services.publish.publish_records("t", [NewRecord(b"dead", b"young")], acks=Acks.ALL)
        assert await taken(services, "g") == [(b"young", 1)]
        assert (await redrive(services, TO_GROUP)).redriven == 1
        assert await taken(services, "g") == [(b"dead", 1)]

    assert SimNode(11).live(story)


def test_a_message_is_reopened_in_its_own_lane() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        urgent = NewRecord(None, b"urgent", (("goqueue-priority", b"critical"),))
        await services.publish.publish_records("t", [urgent, NewRecord(None, b"plain")], acks=Acks.ALL)
        places = PLACES[:1]
        found = await services.delivery.receive(Receive("g", "c", places, 10))
        await services.delivery.settle([Settlement(one.receipt, Action.REJECT) for one in found], durable=True)
        await asyncio.sleep(1)
        await redrive(services, TO_GROUP)
        await asyncio.sleep(1)
        again = await services.delivery.receive(Receive("g", "c", places, 10))
        assert [(one.value, one.priority) for one in again] == [(b"urgent", 0), (b"plain", 2)]

    assert SimNode(12).live(story)


def test_shared_members_that_read_for_themselves_do_not_get_what_is_for_another_group() -> None:
    async def story(services: Services) -> None:
        await die_for_one_group(services)
        await redrive(services, EDITED)
        await asyncio.sleep(1)
        for at in PLACES:
            assert await services.delivery.acquire("other", at, "c", limit=100) == []
        ranges = [one for at in PLACES for one in await services.delivery.acquire("g", at, "c", limit=100)]
        assert sum(one.last - one.first + 1 for one in ranges) == len(LETTERS)

    async def after(services: Services) -> None:
        for at in PLACES:
            assert await services.delivery.acquire("another", at, "c", limit=3) != []
            while found := await services.delivery.acquire("another", at, "c", limit=100):
                assert all(one.last < 6 for one in found)

    node = SimNode(13)
    assert node.live(story)
    assert node.live(after)


def test_order_by_key_holds_when_a_message_is_reopened() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        await services.groups.ensure_queue("g", key_ordered=True)
        places = PLACES[:1]

        async def receive() -> list[bytes]:
            found = await services.delivery.receive(Receive("g", "c", places, 10))
            held.extend(found)
            return [one.value or b"" for one in found]

        async def settle(action: Action) -> None:
            done, held[:] = list(held), []
            await services.delivery.settle([Settlement(one.receipt, action) for one in done], durable=True)
            await asyncio.sleep(1)

        held: list[Delivery] = []
        records = [NewRecord(b"k", b"%d" % number) for number in range(4)]
        await services.publish.publish_records("t", records, acks=Acks.ALL)
        assert await receive() == [b"0"]
        await settle(Action.REJECT)
        assert await receive() == [b"1"]
        # Message 1 is out: message 0 of the same key must wait for it, and goes before 2 and 3.
        assert (await redrive(services, TO_GROUP)).redriven == 1
        await asyncio.sleep(1)
        assert await receive() == []
        for value in (b"0", b"2", b"3"):
            await settle(Action.ACK)
            assert await receive() == [value]

    assert SimNode(14).live(story)


def test_a_letter_that_its_topic_does_not_take_stays_and_the_others_go() -> None:
    async def story(services: Services) -> None:
        await die(services, [b"a", b"large" * 100, b"c"])
        await services.topics.alter_config("t", {"max.message.bytes": "700"})
        progress = await redrive(services)
        assert (progress.state, progress.redriven, progress.failed) == (RedriveState.DONE, 2, 1)
        assert await sent_back(services) == [b"a", b"c"]
        await services.topics.alter_config("t", {"max.message.bytes": "100000"})
        assert (await redrive(services)).redriven == 1
        assert await sent_back(services) == sorted([b"a", b"large" * 100, b"c"])

    assert SimNode(3).live(story)


def test_a_redrive_that_may_hold_no_more_letters_says_so() -> None:
    async def story(services: Services) -> None:
        await die(services, [b"%03d" % number for number in range(100)])
        progress = await redrive(services, RedriveRequest("t", LetterFilter(key=b"none")))
        assert progress.state is RedriveState.FAILED
        assert "delivery.outstanding_max" in str(progress.error)
        # Given back when it ends, so that the next finds them all.
        assert (await redrive(services)).redriven == 100

    assert SimNode(4, Config(delivery=DeliveryConfig(outstanding_max=20))).live(story)
