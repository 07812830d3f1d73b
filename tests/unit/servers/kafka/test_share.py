"""The share APIs as bytes: sessions, acquisition, every acknowledgement, every refusal."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from tests.unit.codec.kafka.kio_values import read_response, request_frame
from tests.unit.servers.kafka.share_client import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    ShareClient,
    ack_errors,
    acquired,
    values,
)

from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config, GroupsConfig
from goqueue.delivery.values import Action as Settle
from goqueue.delivery.values import Receive, Settlement
from goqueue.errors import NotEnoughReplicas
from goqueue.groups.queue.settings import Sharing
from goqueue.groups.service import NewOffset
from goqueue.groups.settings.own_settings import ISOLATION
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.kafka.administration.group_configs import ATTEMPTS, LOCK, START
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher, Later
from goqueue.servers.kafka.reading.share_sessions import ShareSessions
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

from .conftest import Call

GROUP_DESCRIBE, CONSUMER_DESCRIBE, LIST_GROUPS, SHARE_DESCRIBE, DESCRIBE_OFFSETS, ALTER_OFFSETS = 15, 69, 16, 77, 90, 91
DELETE_OFFSETS, UNKNOWN_TOPIC, OFFSET_NOT_AVAILABLE = 92, 3, 78
JOIN_GROUP, OFFSET_COMMIT, OFFSET_FETCH, CONSUMER_BEAT = 11, 8, 9, 68
INVALID_REQUEST, NOT_EMPTY, GROUP_NOT_FOUND, UNKNOWN_TOPIC_ID, UNKNOWN_MEMBER = 42, 68, 69, 100, 25
INVALID_STATE, SESSION_NOT_FOUND, INVALID_EPOCH, SESSION_LIMIT, FENCED = 121, 122, 123, 133, 110
DESCRIBE_CONFIGS, ALTER_CONFIGS, INVALID_CONFIG, DEFAULT, GROUP = 32, 44, 40, 5, 8
AT = TopicPartition("jobs", 0)
LOCK_MS = 30_000


def simulated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Play a test on a node in simulation, where time passes by itself; it is given what it names."""
    parameters = inspect.signature(test).parameters

    def run(**given: Any) -> None:
        async def story(services: Services) -> None:
            topic = await services.topics.create(NewTopic("jobs", partitions=2))
            call = caller(Dispatcher(services))
            world = {
                "services": services,
                "call": call,
                "topic_id": topic.topic_id,
                "client": ShareClient(call, topic.topic_id),
            }
            await test(**{name: one for name, one in world.items() if name in parameters}, **given)

        assert SimNode(1, Config(groups=GroupsConfig(offsets_partitions=2))).live(story)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    left = [one for name, one in parameters.items() if name not in {"services", "call", "topic_id", "client"}]
    run.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
    return run


def caller(dispatcher: Dispatcher, peer: Peer | None = None) -> Call:
    """call(api key, version, **fields of the request) -> the response as kio reads it."""

    connected = peer or Peer("127.0.0.1")

    async def call(key: int, version: int, **fields: Any) -> dict[str, Any]:
        answered = dispatcher.take(request_frame(key, version, fields), connected)
        frame = await answered.frame if isinstance(answered, Later) else answered
        assert frame is not None
        return read_response(key, version, b"".join(frame)[4:])

    return call


async def publish(services: Services, *numbers: int, partition: int = 0, topic: str = "jobs") -> None:
    batch = encode_batch([NewRecord(None, b"%d" % one) for one in numbers], now_ms=services.clock.now_ms())
    pending = services.publish.append(topic, partition, batch, acks=Acks.ALL)
    if pending.durable is not None:
        await pending.durable


# --- membership -------------------------------------------------------------------------


@simulated
async def test_a_member_joins_stays_and_leaves(client: ShareClient, call: Call, topic_id: UUID) -> None:
    joined = await client.beat()
    stays = await client.beat(joined["member_epoch"], None)
    listed = (await call(LIST_GROUPS, 5, states_filter=[], types_filter=["share"]))["groups"]
    left = await client.beat(-1, None)

    assert joined["assignment"] == {"topic_partitions": [{"topic_id": topic_id, "partitions": [0, 1]}]}
    assert (joined["error_code"], joined["member_id"], stays["assignment"]) == (0, "m", None)
    assert [(one["group_id"], one["group_type"], one["protocol_type"]) for one in listed] == [("g", "share", "share")]
    assert (left["error_code"], left["member_epoch"]) == (0, -1)
    assert (await client.beat(1, None))["error_code"] == UNKNOWN_MEMBER


@simulated
async def test_a_group_is_described_with_its_members(client: ShareClient, call: Call, topic_id: UUID) -> None:
    await client.beat()

    (group, other) = (await call(SHARE_DESCRIBE, 1, group_ids=["g", "nobody"], include_authorized_operations=False))[
        "groups"
    ]

    (member,) = group["members"]
    assert (group["group_state"], group["group_epoch"], group["assignor_name"]) == ("Stable", 1, "all")
    assert (member["member_id"], member["subscribed_topic_names"]) == ("m", ["jobs"])
    assert member["assignment"] == {
        "topic_partitions": [{"topic_id": topic_id, "topic_name": "jobs", "partitions": [0, 1]}]
    }
    assert other["error_code"] == GROUP_NOT_FOUND
    (consumer,) = (await call(CONSUMER_DESCRIBE, 1, group_ids=["g"], include_authorized_operations=False))["groups"]
    assert consumer["error_code"] == GROUP_NOT_FOUND


@simulated
async def test_a_share_group_is_no_stream(client: ShareClient, call: Call) -> None:
    await client.beat()

    joined = await call(
        JOIN_GROUP, 4, group_id="g", session_timeout=10_000, rebalance_timeout=10_000, member_id="",
        protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}],
    )  # fmt: skip
    beat = await call(
        CONSUMER_BEAT, 1, group_id="g", member_id="k", member_epoch=0, rebalance_timeout=1000,
        subscribed_topic_names=["jobs"], topic_partitions=[],
    )  # fmt: skip
    commit = await call(
        OFFSET_COMMIT, 8, group_id="g", generation_id_or_member_epoch=-1, member_id="",
        topics=[{"name": "jobs", "partitions": [{"partition_index": 0, "committed_offset": 0}]}],
    )  # fmt: skip

    assert joined["error_code"] == 23
    assert beat["error_code"] == GROUP_NOT_FOUND
    assert "queue" in beat["error_message"]
    assert commit["topics"][0]["partitions"][0]["error_code"] == GROUP_NOT_FOUND


@simulated
async def test_heartbeats_that_cannot_be_are_refused(client: ShareClient, services: Services) -> None:
    await client.beat()
    await services.groups.ensure_queue("alone", sharing=Sharing.EXCLUSIVE)

    assert (await client.beat(7, None))["error_code"] == FENCED
    assert (await client.beat(-2, None))["error_code"] == INVALID_REQUEST
    client.group = "alone"
    assert (await client.beat())["error_code"] == GROUP_NOT_FOUND


# --- fetching ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
@simulated
async def test_every_version_fetches_and_acknowledges(client: ShareClient, services: Services, version: int) -> None:
    client.version = version
    await publish(services, 1, 2, 3)

    first = await client.fetch()
    second = await client.fetch({0: [(0, 1, [ACCEPT])]})
    third = await client.acknowledge({0: [(2, 2, [ACCEPT])]})

    assert acquired(first) == [(0, 2, 1)]
    assert values(first) == [b"1", b"2", b"3"]
    assert first["acquisition_lock_timeout"] == LOCK_MS
    assert ack_errors(second) == ack_errors(third) == [0]
    assert acquired(second) == []
    assert await services.delivery.positions.committed("g", [AT]) == {AT: 3}


@simulated
async def test_what_one_consumer_holds_no_other_gets(client: ShareClient, call: Call, services: Services) -> None:
    other = ShareClient(call, client.topic_id, member_id="other")
    await publish(services, 1, 2, 3)

    mine = await client.fetch(max_records=2)
    theirs = await other.fetch()
    again = await client.fetch()

    assert (values(mine), values(theirs), acquired(again)) == ([b"1", b"2"], [b"3"], [])


@simulated
async def test_a_fetch_with_room_for_nothing_acknowledges_and_is_answered_at_once(
    client: ShareClient, services: Services
) -> None:
    await publish(services, 1, 2)
    first = await client.fetch(max_records=1)
    assert acquired(first) == [(0, 0, 1)]
    done = await client.fetch({0: [(0, 0, [1])]}, partitions=(), max_bytes=0, max_wait=60_000)
    assert (done["error_code"], ack_errors(done), acquired(done)) == (0, [0], [])
    assert acquired(await client.fetch(partitions=())) == [(1, 1, 1)]


@simulated
async def test_two_groups_do_not_know_of_each_other(client: ShareClient, call: Call, services: Services) -> None:
    other = ShareClient(call, client.topic_id, group="h")
    await publish(services, 1, 2)

    assert values(await client.fetch()) == values(await other.fetch()) == [b"1", b"2"]
    await client.acknowledge({0: [(0, 1, [ACCEPT])]})
    assert await services.delivery.positions.committed("h", [AT]) == {AT: 0}


@simulated
async def test_a_fetch_waits_for_the_first_message(client: ShareClient, services: Services) -> None:
    await client.fetch()

    waiting = asyncio.ensure_future(client.fetch(max_wait=10_000))
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert not waiting.done()
    await publish(services, 1)

    assert values(await waiting) == [b"1"]


@simulated
async def test_a_fetch_that_finds_nothing_ends_in_time(client: ShareClient) -> None:
    reply = await client.fetch(max_wait=20)

    assert (reply["error_code"], reply["responses"]) == (0, [])


@simulated
async def test_what_does_not_fit_is_given_back(client: ShareClient, call: Call, services: Services) -> None:
    other = ShareClient(call, client.topic_id, member_id="other")
    for one in range(4):
        await publish(services, one)
    size = len(encode_batch([NewRecord(None, b"0")], now_ms=services.clock.now_ms()))

    mine = await client.fetch(max_bytes=2 * size)
    at_least_one = await other.fetch(max_bytes=1, max_wait=100)
    rest = await client.fetch(max_wait=100)

    assert values(mine) == [b"0", b"1"]
    assert (values(at_least_one), acquired(at_least_one)) == ([b"2"], [(2, 2, 1)])
    assert (values(rest), acquired(rest)) == ([b"3"], [(3, 3, 1)])


@simulated
async def test_scattered_messages_are_read_batch_by_batch(client: ShareClient, call: Call, services: Services) -> None:
    for one in range(0, 9, 3):
        await publish(services, one, one + 1, one + 2)
    await client.fetch()
    kinds = [RELEASE, ACCEPT, RELEASE, ACCEPT, ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE]
    await client.acknowledge({0: [(0, 8, kinds)]})

    again = await client.fetch()

    assert acquired(again) == [(0, 0, 2), (2, 2, 2), (8, 8, 2)]
    assert values(again) == [b"0", b"2", b"8"]


@simulated
async def test_a_topic_that_is_not_there_is_told_beside_the_others(client: ShareClient, services: Services) -> None:
    client.topic_id = uuid4()

    reply = await client.fetch(max_wait=10_000)

    assert reply["error_code"] == 0
    assert reply["responses"][0]["partitions"][0]["error_code"] == UNKNOWN_TOPIC_ID


@simulated
async def test_what_passes_is_waited_for_and_then_told_as_an_error_that_share_consumers_know(
    client: ShareClient, services: Services
) -> None:
    """Java's raises IllegalStateException to the application for any other, and asks again at once."""
    await publish(services, 1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with patch.object(Partitions, "check_copies", side_effect=NotEnoughReplicas("jobs-0 has 1 in-sync replica")):
        refused = await client.fetch(max_wait=2_500)
        waited = loop.time() - began
        waiting = asyncio.ensure_future(client.fetch(max_wait=10_000))
        await asyncio.sleep(0.5)
    reply = await waiting

    (row,) = refused["responses"][0]["partitions"]
    assert (row["error_code"], row["acquired_records"]) == (OFFSET_NOT_AVAILABLE, [])
    assert "jobs-0 has 1 in-sync replica" in row["error_message"]
    assert waited >= 2.5
    assert values(reply) == [b"1"]


@simulated
async def test_a_topic_that_goes_while_it_is_waited_for_is_told(client: ShareClient, services: Services) -> None:
    waiting = asyncio.ensure_future(client.fetch(max_wait=1_000))
    await asyncio.sleep(0.1)

    await services.topics.delete("jobs")
    first = await waiting
    second = await client.fetch(max_wait=1_000)

    assert (first["error_code"], second["error_code"]) == (0, 0)
    assert second["responses"][0]["partitions"][0]["error_code"] == UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@simulated
async def test_readers_see_what_is_committed(
    client: ShareClient, call: Call, services: Services, isolation: str
) -> None:
    """An open transaction holds everything behind it back; what it aborts is never given, whatever was set."""
    assert await alter_group(call, {ISOLATION: isolation}) == 0
    producer = await services.transactions.init_producer("tx", timeout_ms=60_000)
    await services.transactions.add_partitions("tx", producer, [AT])
    batch = encode_batch(
        [NewRecord(None, b"aborted")], producer_id=producer.producer_id, producer_epoch=producer.epoch,
        base_sequence=0, transactional=True, now_ms=services.clock.now_ms(),
    )  # fmt: skip
    await publish(services, 1)
    services.publish.append("jobs", 0, batch, acks=Acks.ALL)
    await publish(services, 2)

    before = await client.fetch()
    await services.transactions.end("tx", producer, commit=False)
    after = await client.fetch(max_wait=1_000)

    assert values(before) == [b"1"]
    assert (values(after), acquired(after)) == ([b"2"], [(2, 2, 1)])
    await client.acknowledge({0: [(0, 2, [ACCEPT])]})
    assert await services.delivery.positions.committed("g", [AT]) == {AT: 4}


# --- acknowledgements -------------------------------------------------------------------


@simulated
async def test_released_messages_are_available_at_once_as_in_kafka(
    client: ShareClient, call: Call, services: Services
) -> None:
    other = ShareClient(call, client.topic_id, member_id="other")
    await publish(services, 1, 2)
    await client.fetch()

    await client.acknowledge({0: [(0, 1, [RELEASE, ACCEPT])]})

    assert acquired(await other.fetch()) == [(0, 0, 2)]


@simulated
async def test_a_consumer_that_waits_gets_what_another_releases(
    client: ShareClient, call: Call, services: Services
) -> None:
    other = ShareClient(call, client.topic_id, member_id="other")
    await publish(services, 1, 2)
    await client.fetch()
    await other.fetch()
    began = asyncio.get_running_loop().time()
    waits = asyncio.ensure_future(other.fetch(max_wait=20_000))
    await asyncio.sleep(1)

    await client.acknowledge({0: [(0, 1, [ACCEPT, RELEASE])]})

    assert acquired(await waits) == [(1, 1, 2)]
    assert asyncio.get_running_loop().time() - began < 2


@simulated
async def test_an_acknowledgement_wakes_no_consumer_that_would_get_nothing_by_it(
    client: ShareClient, call: Call, services: Services
) -> None:
    other = ShareClient(call, client.topic_id, member_id="other")
    await publish(services, *range(20))
    await client.fetch()
    await other.fetch()
    waits = asyncio.ensure_future(other.fetch(max_wait=5_000))
    await asyncio.sleep(1)

    with patch.object(services.delivery, "acquire", wraps=services.delivery.acquire) as looks:
        for at in range(20):
            await client.acknowledge({0: [(at, at, [ACCEPT])]})
            await asyncio.sleep(0.01)

        assert looks.call_count == 0
    assert acquired(await waits) == []


@simulated
async def test_a_consumer_that_holds_as_many_as_it_may_goes_on_when_one_is_accepted(
    client: ShareClient, services: Services
) -> None:
    await publish(services, *range(1_001))
    assert acquired(await client.fetch(max_records=1_000)) == [(0, 999, 1)]
    began = asyncio.get_running_loop().time()
    waits = asyncio.ensure_future(client.fetch(max_wait=20_000))
    await asyncio.sleep(1)

    await client.acknowledge({0: [(0, 0, [ACCEPT])]}, epoch=2)

    assert acquired(await waits) == [(1_000, 1_000, 1)]
    assert asyncio.get_running_loop().time() - began < 2


@simulated
async def test_what_was_never_given_to_anybody_cannot_be_acknowledged(client: ShareClient, services: Services) -> None:
    await publish(services, 1, 2, 3)
    await client.fetch(max_records=2)

    behind = await client.acknowledge({0: [(0, 0, [ACCEPT]), (2, 2, [ACCEPT])]})
    nowhere = await client.acknowledge({0: [(1_000, 1_001, [ACCEPT])]})
    held = await client.acknowledge({0: [(0, 1, [ACCEPT])]})

    assert (ack_errors(behind), ack_errors(nowhere)) == ([INVALID_STATE], [INVALID_REQUEST])
    assert ack_errors(held) == [0], "the refused request has settled nothing"


@simulated
async def test_without_dead_letters_a_message_that_nobody_can_handle_comes_back_slowly(
    call: Call, services: Services
) -> None:
    config = {"delivery.max.retries": "1", "delivery.dead.letters": "false"}
    topic = await services.topics.create(NewTopic("kept", partitions=1, config=config))
    client = ShareClient(call, topic.topic_id)
    await publish(services, 1, topic="kept")
    for count in (1, 2):
        assert acquired(await client.fetch()) == [(0, 0, count)]
        await client.acknowledge({0: [(0, 0, [RELEASE])]})

    assert acquired(await client.fetch()) == []
    await asyncio.sleep(600)
    assert acquired(await client.fetch()) == [(0, 0, 3)]


@simulated
async def test_after_the_last_retry_a_message_is_a_dead_letter(client: ShareClient, services: Services) -> None:
    await publish(services, 1)
    counts = []
    for _ in range(4):
        counts += [run[2] for run in acquired(await client.fetch())]
        await client.acknowledge({0: [(0, 0, [RELEASE])]})
        await asyncio.sleep(60)

    assert counts == [1, 2, 3, 4]
    assert acquired(await client.fetch()) == []
    assert await dead_letters(services) == [b"1"]


@simulated
async def test_a_dead_letter_waits_for_replicas_without_dropping_its_queue(
    client: ShareClient, services: Services
) -> None:
    """The begin of its move would be written and then refused, which drops the queue, at every attempt."""
    await publish(services, 1)
    await client.fetch()
    short = NotEnoughReplicas("jobs-0 has 1 in-sync replica")
    (queue,) = [one for _, one in services.delivery.queues()]
    with patch.object(Partitions, "check_copies", side_effect=[None, short, short]) as looks:
        await client.acknowledge({0: [(0, 0, [REJECT])]})
        await asyncio.sleep(1.5)
        assert looks.call_count == 3
    assert not queue.moving, "nothing was written"
    await asyncio.sleep(2)
    assert await dead_letters(services) == [b"1"]


@simulated
async def test_a_rejected_message_is_a_dead_letter_at_once(client: ShareClient, services: Services) -> None:
    await publish(services, 1, 2)
    await client.fetch()

    reply = await client.fetch({0: [(0, 0, [REJECT]), (1, 1, [ACCEPT])]})

    assert ack_errors(reply) == [0]
    assert await dead_letters(services) == [b"1"]


@simulated
async def test_a_lock_that_runs_out_sets_the_message_free(client: ShareClient, call: Call, services: Services) -> None:
    other = ShareClient(call, client.topic_id, member_id="other")
    await publish(services, 1)
    await client.fetch()
    await asyncio.sleep((LOCK_MS + 1) / 1000)

    taken = await other.fetch()
    late = await client.acknowledge({0: [(0, 0, [ACCEPT])]})

    assert acquired(taken) == [(0, 0, 2)]
    assert ack_errors(late) == [INVALID_STATE]
    assert ack_errors(await other.acknowledge({0: [(0, 0, [ACCEPT])]})) == [0]


@pytest.mark.parametrize("answer", [ACCEPT, RELEASE, REJECT])
@simulated
async def test_an_answer_behind_its_lock_is_refused_though_nobody_else_has_the_message(
    client: ShareClient, services: Services, answer: int
) -> None:
    await publish(services, 1)
    await client.fetch()
    await asyncio.sleep((LOCK_MS + 1) / 1000)

    late = await client.acknowledge({0: [(0, 0, [answer])]})
    again = await client.fetch()

    assert ack_errors(late) == [INVALID_STATE]
    assert (acquired(again), values(again)) == ([(0, 0, 2)], [b"1"])
    assert ack_errors(await client.acknowledge({0: [(0, 0, [ACCEPT])]})) == [0]
    assert await services.delivery.positions.committed("g", [AT]) == {AT: 1}


@simulated
async def test_answers_of_a_partition_are_all_taken_or_none_is(
    client: ShareClient, call: Call, services: Services
) -> None:
    """As Kafka does it: a consumer that hears INVALID_RECORD_STATE gets all of them again, so none may be settled."""
    other = ShareClient(call, client.topic_id, member_id="other")
    await publish(services, 1, 2)
    await client.fetch(max_records=1)
    await asyncio.sleep((LOCK_MS - 1000) / 1000)
    await client.fetch(max_records=1)
    await asyncio.sleep(2)

    mixed = await client.acknowledge({0: [(0, 1, [ACCEPT])]})
    apart = await client.acknowledge({0: [(0, 0, [ACCEPT]), (1, 1, [ACCEPT])]})

    assert (ack_errors(mixed), ack_errors(apart)) == ([INVALID_STATE], [INVALID_STATE])
    assert acquired(await other.fetch()) == [(0, 0, 2)]
    assert ack_errors(await client.acknowledge({0: [(1, 1, [ACCEPT])]})) == [0]


@simulated
async def test_messages_that_were_given_back_here_and_there_come_once_each(
    client: ShareClient, services: Services
) -> None:
    for first in range(0, 40, 10):
        await publish(services, *range(first, first + 10))
    await client.fetch()
    back = [(at, at + 1, [RELEASE]) for at in range(2, 40, 4)]
    done = [(at, at + 1, [ACCEPT]) for at in range(0, 40, 4)]
    await client.acknowledge({0: sorted(back + done)})

    again = await client.fetch()

    assert [run[:2] for run in acquired(again)] == [(at, at + 1) for at in range(2, 40, 4)]
    assert values(again) == [b"%d" % at for at in range(40) if at % 4 in {2, 3}]


@simulated
async def test_a_renewed_lock_lasts_longer(client: ShareClient, call: Call, services: Services) -> None:
    other = ShareClient(call, client.topic_id, member_id="other")
    await publish(services, 1)
    await client.fetch()
    await asyncio.sleep((LOCK_MS - 1000) / 1000)

    renewed = await client.acknowledge({0: [(0, 0, [RENEW])]}, is_renew_ack=True)
    await asyncio.sleep((LOCK_MS - 1000) / 1000)

    assert (ack_errors(renewed), renewed["acquisition_lock_timeout"]) == ([0], LOCK_MS)
    assert acquired(await other.fetch()) == []
    assert ack_errors(await client.acknowledge({0: [(0, 0, [ACCEPT])]})) == [0]


@simulated
async def test_gaps_are_settled(client: ShareClient, services: Services) -> None:
    await publish(services, 1, 2, 3)
    await client.fetch()

    assert ack_errors(await client.acknowledge({0: [(0, 2, [0, ACCEPT, 0])]})) == [0]
    assert await services.delivery.positions.committed("g", [AT]) == {AT: 3}


@pytest.mark.parametrize(
    "batches",
    [
        [(1, 0, [ACCEPT])],
        [(0, 1, [ACCEPT] * 3)],
        [(0, 1, [])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(0, 0, [RENEW])],
        [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])],
        [(0, 2**62, [ACCEPT])],
        [(-5, 0, [ACCEPT])],
    ],
)
@simulated
async def test_acknowledgements_that_mean_nothing_settle_nothing(
    client: ShareClient, services: Services, batches: list[Any]
) -> None:
    await publish(services, 1, 2)
    await client.fetch()

    assert ack_errors(await client.acknowledge({0: batches})) == [INVALID_REQUEST]
    assert await services.delivery.positions.committed("g", [AT]) == {AT: 0}


@simulated
async def test_what_is_not_held_cannot_be_acknowledged(client: ShareClient, services: Services) -> None:
    await publish(services, 1)
    await client.fetch()
    await client.acknowledge({0: [(0, 0, [ACCEPT])]})

    assert ack_errors(await client.acknowledge({0: [(0, 0, [ACCEPT])]})) == [INVALID_STATE]
    assert ack_errors(await client.fetch({0: [(7, 7, [ACCEPT])]}, max_wait=10_000)) == [INVALID_REQUEST]


# --- sessions ---------------------------------------------------------------------------


@simulated
async def test_a_session_keeps_its_partitions_and_forgets_those_it_is_told_to(
    client: ShareClient, services: Services
) -> None:
    await client.fetch(partitions=(0, 1))
    await publish(services, 1)
    await publish(services, 2, partition=1)

    forgotten = [{"topic_id": client.topic_id, "partitions": [0]}]
    without = await client.fetch(partitions=(), forgotten=forgotten)
    back = await client.fetch(partitions=(0,))

    assert (values(without, 0), values(without, 1)) == ([], [b"2"])
    assert values(back) == [b"1"]


@simulated
async def test_no_partition_waits_behind_the_others(client: ShareClient, services: Services) -> None:
    await publish(services, *range(10))
    await publish(services, *range(10), partition=1)

    first = await client.fetch(partitions=(0, 1), max_records=5)
    second = await client.fetch(partitions=(), max_records=5)

    assert (len(values(first, 0)), len(values(second, 1))) == (5, 5)


@simulated
async def test_a_closed_session_gives_back_what_it_held(client: ShareClient, call: Call, services: Services) -> None:
    other = ShareClient(call, client.topic_id, member_id="other")
    await publish(services, 1, 2, 3)
    await client.fetch()

    closed = await client.fetch({0: [(0, 0, [ACCEPT])]}, epoch=-1, partitions=())

    assert closed["error_code"] == 0
    assert acquired(await other.fetch(max_wait=100)) == [(1, 2, 1)]
    assert (await client.fetch(epoch=2))["error_code"] == SESSION_NOT_FOUND
    assert (await client.fetch(epoch=-1))["error_code"] == SESSION_NOT_FOUND


@simulated
async def test_an_acknowledgement_can_close_the_session_too(
    client: ShareClient, call: Call, services: Services
) -> None:
    other = ShareClient(call, client.topic_id, member_id="other")
    await publish(services, 1, 2)
    await client.fetch()

    await client.acknowledge({0: [(0, 0, [ACCEPT])]}, epoch=-1)

    assert acquired(await other.fetch(max_wait=100)) == [(1, 1, 1)]


@simulated
async def test_a_session_that_begins_anew_holds_nothing(client: ShareClient, services: Services) -> None:
    await publish(services, 1)
    await client.fetch()

    again = await client.fetch(epoch=0, max_wait=100)

    assert acquired(again) == [(0, 0, 1)]


@simulated
async def test_a_member_that_leaves_gives_back_what_it_held(
    client: ShareClient, call: Call, services: Services
) -> None:
    other = ShareClient(call, client.topic_id, member_id="other")
    await client.beat()
    await publish(services, 1)
    await client.fetch()

    await client.beat(-1, None)

    assert acquired(await other.fetch(max_wait=100)) == [(0, 0, 1)]


@simulated
async def test_epochs_count_up_from_one(client: ShareClient) -> None:
    await client.fetch()

    assert (await client.fetch(epoch=2))["error_code"] == INVALID_EPOCH
    assert (await client.acknowledge({}, epoch=0))["error_code"] == INVALID_EPOCH
    assert (await client.fetch(epoch=1))["error_code"] == 0
    assert (await client.fetch(epoch=1))["error_code"] == INVALID_EPOCH


@simulated
async def test_requests_without_names_or_out_of_place_are_refused(client: ShareClient, services: Services) -> None:
    assert (await client.fetch({0: [(0, 0, [ACCEPT])]}))["error_code"] == INVALID_REQUEST
    client.member_id = ""
    assert (await client.fetch())["error_code"] == INVALID_REQUEST
    client.group, client.member_id = "", "m"
    assert (await client.fetch())["error_code"] == INVALID_REQUEST
    await services.groups.ensure_queue("alone", sharing=Sharing.EXCLUSIVE)
    client.group = "alone"
    assert (await client.fetch())["error_code"] == GROUP_NOT_FOUND


def test_epochs_begin_again_after_the_last() -> None:
    sessions = ShareSessions()
    session = sessions.open(("g", "m"), [], None)
    session.epoch = 2**31 - 1

    assert sessions.go_on(("g", "m"), 2**31 - 1).epoch == 1


@simulated
async def test_there_are_only_so_many_sessions(services: Services, topic_id: UUID) -> None:
    call = caller(Dispatcher(services, share_sessions=ShareSessions(1)))
    first, second = ShareClient(call, topic_id), ShareClient(call, topic_id, member_id="second")
    await first.fetch()

    assert (await second.fetch())["error_code"] == SESSION_LIMIT
    assert (await first.fetch(epoch=0))["error_code"] == 0


@simulated
async def test_a_connection_that_is_lost_takes_its_sessions_with_it(services: Services, topic_id: UUID) -> None:
    dispatcher, lost, kept = Dispatcher(services), Peer("a"), Peer("b")
    first = ShareClient(caller(dispatcher, lost), topic_id)
    second = ShareClient(caller(dispatcher, kept), topic_id, member_id="second")
    await publish(services, 1, 2)
    await first.fetch(max_records=1)
    await second.fetch(max_records=1)

    await dispatcher.connection_lost(lost)

    assert acquired(await second.fetch(max_wait=100)) == [(0, 0, 1)]
    assert (await first.fetch())["error_code"] == SESSION_NOT_FOUND


# --- beside other readers ---------------------------------------------------------------


@simulated
async def test_a_share_consumer_and_a_receiver_work_in_one_group(client: ShareClient, services: Services) -> None:
    await publish(services, 1, 2, 3)

    mine = await client.fetch(max_records=1)
    theirs = await services.delivery.receive(Receive("g", "http", [AT], 10))
    await services.delivery.settle([Settlement(one.receipt, Settle.ACK) for one in theirs])
    await client.acknowledge({0: [(0, 0, [ACCEPT])]})

    assert values(mine) + [one.value for one in theirs] == [b"1", b"2", b"3"]
    assert await services.delivery.positions.committed("g", [AT]) == {AT: 3}


@simulated
async def test_where_a_group_stands_is_told_to_tools(client: ShareClient, call: Call, services: Services) -> None:
    await publish(services, 1, 2, 3)
    await client.fetch()
    await client.acknowledge({0: [(0, 0, [ACCEPT]), (2, 2, [ACCEPT])]})

    fetched = await call(
        OFFSET_FETCH, 8, groups=[{"group_id": "g", "topics": [{"name": "jobs", "partition_indexes": [0]}]}],
        require_stable=False,
    )  # fmt: skip
    described = await call(
        DESCRIBE_OFFSETS, 1,
        groups=[
            {"group_id": "g", "topics": None},
            {"group_id": "g", "topics": [{"topic_name": "jobs", "partitions": [1, 9]}]},
            {"group_id": "nobody", "topics": None},
        ],
    )  # fmt: skip

    assert fetched["groups"][0]["topics"][0]["partitions"][0]["committed_offset"] == 1
    everything, asked, nobody = described["groups"]
    (topic,) = everything["topics"]
    assert (topic["topic_name"], topic["topic_id"]) == ("jobs", client.topic_id)
    assert [(row["partition_index"], row["start_offset"], row["lag"]) for row in topic["partitions"]] == [(0, 1, 2)]
    rows = asked["topics"][0]["partitions"]
    assert [(row["start_offset"], row["error_code"]) for row in rows] == [(-1, 0), (-1, 3)]
    assert nobody["error_code"] == GROUP_NOT_FOUND


@simulated
async def test_an_administrator_moves_a_group_that_nobody_is_in(
    client: ShareClient, call: Call, services: Services
) -> None:
    await publish(services, 1, 2, 3)
    await client.beat()
    await client.fetch()
    await client.acknowledge({0: [(0, 2, [ACCEPT])]})
    parts = [{"partition_index": 0, "start_offset": 1}, {"partition_index": 7, "start_offset": 0}]
    change = {"group_id": "g", "topics": [{"topic_name": "jobs", "partitions": parts}]}

    refused = await call(ALTER_OFFSETS, 0, **change)
    await client.beat(-1, None)
    moved = await call(ALTER_OFFSETS, 0, **change)

    assert refused["error_code"] == NOT_EMPTY
    assert [row["error_code"] for row in moved["responses"][0]["partitions"]] == [0, 3]
    assert values(await client.fetch(epoch=0)) == [b"2", b"3"]
    assert (await call(ALTER_OFFSETS, 0, group_id="nobody", topics=[]))["error_code"] == GROUP_NOT_FOUND


@simulated
async def test_an_administrator_lets_a_group_begin_a_topic_anew(
    client: ShareClient, call: Call, services: Services
) -> None:
    await services.topics.create(NewTopic("unread"))
    await publish(services, 1, 2)
    await publish(services, 3, partition=1)
    await client.beat()
    await client.fetch(partitions=(0, 1))
    await client.acknowledge({0: [(0, 1, [ACCEPT])], 1: [(0, 0, [ACCEPT])]})
    topics = [{"topic_name": name} for name in ("jobs", "unread", "nowhere")]

    refused = await call(DELETE_OFFSETS, 0, group_id="g", topics=topics)
    await client.beat(-1, None)
    deleted = await call(DELETE_OFFSETS, 0, group_id="g", topics=topics)

    assert (refused["error_code"], refused["responses"]) == (NOT_EMPTY, [])
    assert deleted["error_code"] == 0
    rows = deleted["responses"]
    assert [(row["topic_name"], row["error_code"]) for row in rows] == [
        ("jobs", 0),
        ("unread", UNKNOWN_TOPIC),
        ("nowhere", UNKNOWN_TOPIC),
    ]
    assert (rows[0]["topic_id"], rows[2]["topic_id"]) == (client.topic_id, None)
    assert "no offsets" in rows[1]["error_message"]
    assert "no topic" in rows[2]["error_message"]
    assert await services.delivery.positions.committed("g", None) == {}
    again = await client.fetch(epoch=0, partitions=(0, 1))
    assert (values(again), values(again, 1), acquired(again)) == ([b"1", b"2"], [b"3"], [(0, 1, 1)])
    assert (await call(DELETE_OFFSETS, 0, group_id="nobody", topics=topics))["error_code"] == GROUP_NOT_FOUND


@simulated
async def test_offsets_of_messages_in_flight_are_not_deleted(
    client: ShareClient, call: Call, services: Services
) -> None:
    await publish(services, 1)
    (taken,) = await services.delivery.receive(Receive("g", "http", [AT], 10))
    topics = [{"topic_name": "jobs"}]

    held = await call(DELETE_OFFSETS, 0, group_id="g", topics=topics)
    await services.delivery.settle([Settlement(taken.receipt, Settle.ACK)])
    settled = await call(DELETE_OFFSETS, 0, group_id="g", topics=topics)

    assert [row["error_code"] for row in held["responses"]] == [NOT_EMPTY]
    assert [row["error_code"] for row in settled["responses"]] == [0]
    assert values(await client.fetch()) == [b"1"]


@simulated
async def test_a_stream_group_has_no_share_offsets(call: Call, services: Services, topic_id: UUID) -> None:
    await call(
        OFFSET_COMMIT, 8, group_id="s", generation_id_or_member_epoch=-1, member_id="",
        topics=[{"name": "jobs", "partitions": [{"partition_index": 0, "committed_offset": 0}]}],
    )  # fmt: skip

    (group,) = (await call(DESCRIBE_OFFSETS, 0, groups=[{"group_id": "s", "topics": None}]))["groups"]

    assert group["error_code"] == GROUP_NOT_FOUND
    assert (await call(ALTER_OFFSETS, 0, group_id="s", topics=[]))["error_code"] == GROUP_NOT_FOUND
    assert (await call(DELETE_OFFSETS, 0, group_id="s", topics=[{"topic_name": "jobs"}]))["error_code"] == (
        GROUP_NOT_FOUND
    )
    assert (await ShareClient(call, topic_id, group="s").fetch())["error_code"] == GROUP_NOT_FOUND


@simulated
async def test_an_administrator_sets_how_a_group_delivers(client: ShareClient, call: Call, services: Services) -> None:
    await publish(services, 1)

    before = await group_config(call)
    changed = await alter_group(call, {START: "latest", LOCK: "5000", ATTEMPTS: "1"})
    after = await group_config(call)
    await client.beat()
    new_to_it = await client.fetch()
    await publish(services, 2)
    taken = await client.fetch()
    await client.acknowledge({0: [(1, 1, [RELEASE])]})

    isolation = {ISOLATION: ("read_committed", DEFAULT)}
    assert before == {START: ("earliest", DEFAULT), LOCK: ("30000", DEFAULT), ATTEMPTS: ("4", DEFAULT)} | isolation
    assert changed == 0
    assert after == {START: ("latest", GROUP), LOCK: ("5000", GROUP), ATTEMPTS: ("1", GROUP)} | isolation
    assert (acquired(new_to_it), values(taken), taken["acquisition_lock_timeout"]) == ([], [b"2"], 5_000)
    assert await dead_letters(services) == [b"2"]
    assert await alter_group(call, {LOCK: None}) == 0
    assert (await group_config(call))[LOCK] == ("30000", DEFAULT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (START, "middle"),
        (ISOLATION, "read_all"),
        (LOCK, "-1"),
        (LOCK, "soon"),
        (LOCK, "9" * 13),
        (ATTEMPTS, "0"),
        ("retention.ms", "1"),
    ],
)
@simulated
async def test_group_settings_that_cannot_be_are_refused(call: Call, services: Services, name: str, value: str) -> None:
    assert await alter_group(call, {name: value}) == INVALID_CONFIG
    assert await services.groups.mode("g") is None


@simulated
async def test_an_isolation_level_is_shown_as_it_was_set(call: Call, services: Services) -> None:
    with patch("goqueue.servers.kafka.administration.group_configs._log") as log:
        assert await alter_group(call, {ISOLATION: "read_committed"}) == 0
        log.warning.assert_not_called()
        assert await alter_group(call, {ISOLATION: "read_uncommitted"}) == 0
        log.warning.assert_called_once()
    assert (await group_config(call))[ISOLATION] == ("read_uncommitted", GROUP)
    assert await services.groups.mode("g") is None, "nobody has used the group yet"

    assert await alter_group(call, {ISOLATION: None}) == 0
    assert (await group_config(call))[ISOLATION] == ("read_committed", DEFAULT)


@simulated
async def test_a_stream_group_has_no_share_settings(call: Call, services: Services, client: ShareClient) -> None:
    assert client.group == "g"
    await services.groups.commit("g", [NewOffset("jobs", 0, 0)])

    assert await alter_group(call, {LOCK: "5000"}) == GROUP_NOT_FOUND


async def group_config(call: Call) -> dict[str, tuple[str, int]]:
    """The settings of group g that begin with `share.`, and where each comes from."""
    reply = await call(
        DESCRIBE_CONFIGS, 4, resources=[{"resource_type": 32, "resource_name": "g", "configuration_keys": None}]
    )
    rows = reply["results"][0]["configs"]
    return {row["name"]: (row["value"], row["config_source"]) for row in rows if row["name"].startswith("share.")}


async def alter_group(call: Call, settings: dict[str, str | None]) -> int:
    rows = [
        {"name": name, "value": value, "config_operation": 0 if value is not None else 1}
        for name, value in settings.items()
    ]
    resource = {"resource_type": 32, "resource_name": "g", "configs": rows}
    reply = await call(ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    return int(reply["responses"][0]["error_code"])


async def dead_letters(services: Services) -> list[bytes | None]:
    """What lies in the dead-letter topic, once the mover has done its work."""
    at = TopicPartition("jobs.dlq", 0)
    while True:
        if services.topics.find(at.topic) is not None:
            found = (await services.reads.read({at: 0}, limit=100, max_bytes=2**20))[at]
            if found.records:
                return [one.value for one in found.records]
        await asyncio.sleep(0.01)
