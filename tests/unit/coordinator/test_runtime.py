"""The coordinator: commands in, replies out, and never a reply that the disk could still take back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs

from goqueue.broker.replicas.safety import Safety
from goqueue.coordinator.shard import Decision, Transaction
from goqueue.errors import (
    Conflict,
    CoordinatorUnavailable,
    DiskFull,
    LogPoisoned,
    MessageTooLarge,
    NotCoordinator,
    NotLeader,
    ShuttingDown,
    StorageError,
    TooBusy,
)
from goqueue.testing.register import Await, CompareAndSet, Put, Read, ReadAll, Register
from goqueue.testing.sim_loop import simulated

POISON = LogPoisoned("logs/__registers/0", "EIO")


@simulated
async def test_keys_have_the_same_shard_in_every_version(stage: Any) -> None:
    keys = ["", "a", "orders", "zähler", "group-17"]
    assert [stage.coordinator.partition_for(key) for key in keys] == [0, 2, 1, 0, 2]


@simulated
async def test_a_write_is_answered_only_when_it_is_durable(stage: Any) -> None:
    partition = stage.partition_of("a")
    written = stage.coordinator.submit("a", Put("a", 1))
    await stage.settle()
    assert partition.log.end_offset == 1
    assert not written.done()
    partition.sync()
    assert await written is None


@simulated
async def test_a_read_waits_for_the_write_it_rests_on_and_costs_no_wait_otherwise(stage: Any) -> None:
    partition = stage.partition_of("a")
    assert await stage.coordinator.submit("a", Read("a")) is None
    stage.coordinator.submit("a", Put("a", 1))
    read = stage.coordinator.submit("a", Read("a"))
    await stage.settle()
    assert not read.done()
    partition.sync()
    assert await read == 1
    assert stage.coordinator.submit("a", Read("a")).done()


@simulated
async def test_a_refusal_is_raised_to_whoever_asked(stage: Any) -> None:
    with pytest.raises(Conflict, match="a is None, not 3"):
        await stage.coordinator.submit("a", CompareAndSet("a", 3, 4))
    assert stage.failures == []


@simulated
async def test_one_wait_for_the_disk_serves_all_that_were_written_meanwhile(stage: Any) -> None:
    partition = stage.partition_of("a")
    await stage.coordinator.submit("a", Read("a"))
    first = stage.coordinator.submit("a", Put("a", 1))
    rest = [stage.coordinator.submit("a", Put("a", number)) for number in range(2, 50)]
    await stage.settle()
    partition.sync()
    await asyncio.gather(first, *rest)
    # The second wait found everything synced already.
    assert partition.log.end_offset == 49


@simulated
async def test_many_concurrent_commands_keep_their_order_in_each_shard(stage: Any) -> None:
    async def sync_now_and_then() -> None:
        while True:
            await asyncio.sleep(0.001)
            for partition in stage.partitions:
                partition.sync()

    syncing = asyncio.create_task(sync_now_and_then())
    keys = [f"k{number % 7}" for number in range(500)]
    olds = await asyncio.gather(*(stage.coordinator.submit(key, Put(key, n)) for n, key in enumerate(keys)))
    syncing.cancel()
    assert olds == [number - 7 if number >= 7 else None for number in range(500)]


@simulated
async def test_a_shard_is_loaded_when_first_used_and_commands_meanwhile_wait_in_order(stage: Any) -> None:
    stage.may_open = asyncio.Event()
    replies = [stage.coordinator.submit("a", Put("a", number)) for number in range(3)]
    gave_up = stage.coordinator.submit("a", Put("a", 99))
    replies.append(stage.coordinator.submit("a", Read("a")))
    await stage.settle()
    gave_up.cancel()
    assert stage.opened == [2]
    assert stage.coordinator.loaded() == []
    stage.may_open.set()
    await stage.settle()
    assert stage.coordinator.loaded() == [2]
    stage.partition_of("a").sync()
    # Whoever gives up has still asked: the command may have been carried out, as on any network.
    assert await asyncio.gather(*replies) == [None, 0, 1, 99]


@simulated
async def test_a_restart_replays_exactly_what_was_acknowledged(stage: Any) -> None:
    partition = stage.partition_of("a")
    for number in range(3):
        reply = stage.coordinator.submit("a", Put("a", number))
        await stage.settle()
        partition.sync()
        await reply
    lost = stage.coordinator.submit("a", Put("a", 3))
    await stage.settle()
    assert not lost.done()
    partition.lose_unsynced()
    assert await stage.restart().submit("a", Read("a")) == 2


@simulated
async def test_replay_waits_until_what_it_read_is_durable(stage: Any) -> None:
    partition = stage.partition_of("a")
    stage.coordinator.submit("a", Put("a", 1))
    await stage.settle()
    read = stage.restart().submit("a", Read("a"))
    await stage.settle()
    assert not read.done()
    partition.sync()
    assert await read == 1


@simulated
async def test_a_failed_append_drops_the_shard_and_the_next_use_replays(stage: Any) -> None:
    partition = stage.partition_of("a")
    held = stage.coordinator.submit("a", Put("a", 1))
    waiting = stage.coordinator.submit("a", Await("b"))
    await stage.settle()
    partition.append_error = DiskFull("here")
    refused = stage.coordinator.submit("a", Put("a", 2))

    for outstanding in (held, waiting, refused):
        with pytest.raises(CoordinatorUnavailable) as raised:
            await outstanding
        assert isinstance(raised.value.__cause__, DiskFull)
    assert [partition for partition, _ in stage.failures] == [2]
    assert stage.coordinator.loaded() == []

    partition.append_error = None
    partition.sync()
    assert await stage.coordinator.submit("a", Read("a")) == 1


@simulated
async def test_a_request_that_cannot_be_stored_is_told_so_and_does_not_come_back_as_try_again(stage: Any) -> None:
    partition = stage.partition_of("a")
    other = stage.coordinator.submit("a", Await("b"))
    await stage.settle()
    partition.append_error = MessageTooLarge(10, 5)
    with pytest.raises(MessageTooLarge):
        await stage.coordinator.submit("a", Put("a", 2))
    with pytest.raises(CoordinatorUnavailable):
        await other


@simulated
async def test_a_failed_sync_acknowledges_nothing(stage: Any) -> None:
    partition = stage.partition_of("a")
    replies = [stage.coordinator.submit("a", Put("a", 1)), stage.coordinator.submit("a", Read("a"))]
    await stage.settle()
    partition.fail_sync(POISON)
    for reply in replies:
        with pytest.raises(CoordinatorUnavailable):
            await reply
    assert stage.coordinator.loaded() == []


@simulated
async def test_a_log_that_can_promise_nothing_is_not_even_read(stage: Any) -> None:
    partition = stage.partition_of("a")
    stage.coordinator.submit("a", Put("a", 1))
    await stage.settle()
    partition.reached_error = POISON
    with pytest.raises(CoordinatorUnavailable):
        await stage.restart().submit("a", Read("a"))
    assert partition.log.reads == []


@simulated
async def test_a_sync_error_at_the_time_of_asking_drops_the_shard(stage: Any) -> None:
    await stage.coordinator.submit("a", Read("a"))
    stage.partition_of("a").reached_error = POISON
    with pytest.raises(CoordinatorUnavailable):
        await stage.coordinator.submit("a", Put("a", 1))


@simulated
async def test_a_shard_that_cannot_be_loaded_is_not_tried_for_every_request(stage: Any) -> None:
    stage.partition_of("a").reached_error = POISON
    for _ in range(5):
        with pytest.raises(CoordinatorUnavailable):
            await stage.coordinator.submit("a", Read("a"))
    assert stage.opened == [2]
    await asyncio.sleep(1)
    stage.partition_of("a").reached_error = None
    assert await stage.coordinator.submit("a", Read("a")) is None


@simulated
async def test_losing_leadership_fails_what_is_outstanding_and_the_next_use_replays(stage: Any) -> None:
    partition = stage.partition_of("a")
    held = stage.coordinator.submit("a", Put("a", 1))
    await stage.settle()
    stage.coordinator.drop(2, NotLeader("node 2 leads now"))
    stage.coordinator.drop(2, NotLeader("said twice"))
    with pytest.raises(CoordinatorUnavailable) as lost:
        await held
    assert lost.value.may_be_done, "it was written, and the next leader may have it"
    # The old shard's wait ends after its successor was loaded, and disturbs nobody.
    successor = stage.coordinator.submit("a", Read("a"))
    await stage.settle()
    partition.sync()
    assert await successor == 1


@simulated
async def test_a_shard_dropped_while_it_loads_never_runs(stage: Any) -> None:
    stage.may_open = asyncio.Event()
    reply = stage.coordinator.submit("a", Put("a", 1))
    await stage.settle()
    stage.coordinator.drop(2, NotLeader("node 2 leads now"))
    with pytest.raises(CoordinatorUnavailable) as refused:
        await reply
    assert not refused.value.may_be_done
    stage.may_open.set()
    await stage.settle()
    assert stage.partition_of("a").log.end_offset == 0


@simulated
async def test_a_shard_dropped_while_it_loads_takes_nothing_more_in(stage: Any) -> None:
    """Machines share tables with their successors: what a dropped one takes in late would overwrite theirs."""
    taken: list[bytes] = []

    class Telling(Register):
        def apply(self, key: bytes, value: bytes | None) -> None:
            taken.append(key)
            super().apply(key, value)

    reply = stage.coordinator.submit("a", Put("a", 1))
    await stage.settle()
    stage.partition_of("a").sync()
    await reply
    stage.machine_factory = Telling
    stage.restart()
    stage.may_open = asyncio.Event()
    dropped = stage.coordinator.submit("a", Put("a", 2))
    await stage.settle()
    stage.coordinator.drop(stage.coordinator.partition_for("a"), NotLeader("node 2 leads now"))
    with pytest.raises(CoordinatorUnavailable):
        await dropped
    stage.may_open.set()
    await stage.settle()
    assert taken == []


@simulated
async def test_a_bug_in_a_machine_costs_its_shard_and_says_what_it_was(stage: Any) -> None:
    class Buggy(Register):
        def decide(self, ticket: int, command: Any, now_ms: int) -> Decision:
            if isinstance(command, ReadAll):
                raise KeyError("bug")
            return super().decide(ticket, command, now_ms)

    stage.machine_factory = Buggy
    stage.restart()
    waiting = stage.coordinator.submit("a", Await("a"))
    with pytest.raises(KeyError):
        await stage.coordinator.submit("a", ReadAll())
    with pytest.raises(CoordinatorUnavailable):
        await waiting
    assert await stage.coordinator.submit("a", Read("a")) is None


@simulated
async def test_a_record_that_cannot_be_replayed_is_never_skipped_in_silence(stage: Any) -> None:

    class Strict(Register):
        def apply(self, key: bytes, value: bytes | None) -> None:
            raise StorageError("unreadable")

    reply = stage.coordinator.submit("a", Put("a", 1))
    await stage.settle()
    stage.partition_of("a").sync()
    await reply
    stage.machine_factory = Strict
    with pytest.raises(CoordinatorUnavailable, match="unreadable"):
        await stage.restart().submit("a", Read("a"))
    assert isinstance(stage.failures[-1][1], StorageError)


@simulated
async def test_a_command_for_all_is_answered_by_every_shard_in_order(stage: Any) -> None:
    for partition, fake in enumerate(stage.partitions):
        reply = stage.coordinator.submit_to(partition, Put("n", partition))
        await stage.settle()
        fake.sync()
        await reply
    assert await stage.coordinator.submit_all(ReadAll()) == [{"n": number} for number in range(4)]


@simulated
async def test_a_caller_that_goes_away_disturbs_nobody(stage: Any) -> None:
    await stage.coordinator.submit("a", Read("a"))
    gone = stage.coordinator.submit("a", Put("a", 1))
    gone_waiting = stage.coordinator.submit("a", Await("a"))
    stays = stage.coordinator.submit("a", Put("a", 2))
    gone.cancel()
    gone_waiting.cancel()
    stage.partition_of("a").sync()
    assert await stays == 1


@simulated
async def test_too_many_outstanding_requests_are_refused_by_name(stage: Any) -> None:
    coordinator = stage.restart(tickets_max=2)
    waiting = [coordinator.submit("a", Await("a")) for _ in range(2)]
    with pytest.raises(TooBusy):
        await coordinator.submit("a", Read("a"))
    coordinator.drop(2, NotLeader("enough"))
    await asyncio.gather(*waiting, return_exceptions=True)


@simulated
async def test_transactional_records_count_from_their_marker_on_also_after_replay(stage: Any) -> None:
    partition, transaction = stage.partition_of("a"), Transaction(40, 1)
    for command in (Put("a", 1), Put("a", 2, transaction=transaction)):
        reply = stage.coordinator.submit("a", command)
        await stage.settle()
        partition.sync()
        await reply
    assert await stage.coordinator.submit("a", Read("a")) == 1
    assert await stage.restart().submit("a", Read("a")) == 1

    ended = stage.coordinator.end_transaction(2, transaction, commit=True, coordinator_epoch=0)
    await stage.settle()
    assert not ended.done()
    partition.sync()
    await ended
    assert await stage.coordinator.submit("a", Read("a")) == 2
    assert await stage.restart().submit("a", Read("a")) == 2


@simulated
async def test_close_lets_held_replies_out_and_refuses_the_rest(stage: Any) -> None:
    held = stage.coordinator.submit("a", Put("a", 1))
    waiting = stage.coordinator.submit("a", Await("b"))
    await stage.settle()
    closing = asyncio.create_task(stage.coordinator.close())
    await stage.settle()
    assert not closing.done()
    with pytest.raises(ShuttingDown):
        await stage.coordinator.submit("a", Read("a"))
    with pytest.raises(ShuttingDown):
        await stage.coordinator.submit("other", Read("a"))
    stage.partition_of("a").sync()
    await closing
    assert await held is None
    with pytest.raises(ShuttingDown):
        await waiting
    await stage.coordinator.close()


@simulated
async def test_close_does_not_wait_for_a_shard_that_is_still_loading(stage: Any) -> None:
    stage.may_open = asyncio.Event()
    reply = stage.coordinator.submit("a", Read("a"))
    await stage.settle()
    await stage.coordinator.close()
    with pytest.raises(ShuttingDown):
        await reply


class Acknowledging(Register):
    """Answers once its records are on the in-sync replicas, and does not wait for any disk."""

    def decide(self, ticket: int, command: Any, now_ms: int) -> Decision:
        return structs.replace(super().decide(ticket, command, now_ms), safety=Safety.REPLICATED)


@simulated
async def test_a_reply_that_needs_the_replicas_waits_for_them_and_not_for_the_disk(stage: Any) -> None:
    stage.machine_factory = Acknowledging
    coordinator = stage.restart()
    partition = stage.partition_of("a")
    partition.replicas_end = 0
    first, second = coordinator.submit("a", Put("a", 1)), coordinator.submit("a", Put("a", 2))
    await stage.settle()
    assert partition.log.end_offset == 2
    assert not first.done()
    assert not second.done()
    partition.replicate()
    assert await first is None
    # The one wait was for the first alone; the second is asked for when that is over.
    assert await second == 1
    third = coordinator.submit("a", Put("a", 3))
    await stage.settle()
    assert not third.done()
    partition.replicate()
    assert await third == 2
    assert partition.synced == 0


@simulated
async def test_without_other_replicas_such_a_reply_is_given_at_once(stage: Any) -> None:
    stage.machine_factory = Acknowledging
    coordinator = stage.restart()
    assert await coordinator.submit("a", Put("a", 1)) is None
    assert coordinator.submit("a", Put("a", 2)).done()


@simulated
async def test_whoever_waits_for_the_replicas_when_the_term_ends_is_told_who_leads_now(stage: Any) -> None:
    stage.machine_factory = Acknowledging
    coordinator = stage.restart()
    partition = stage.partition_of("a")
    partition.replicas_end = 0
    written = coordinator.submit("a", Put("a", 1))
    await stage.settle()
    partition.end_term(NotLeader("another node leads", leader=7))
    with pytest.raises(NotCoordinator, match="another node leads") as refused:
        await written
    assert refused.value.leader == 7
    partition.lose_unsynced()
    partition.replicate()
    assert await coordinator.submit("a", Read("a")) is None


@simulated
async def test_a_close_waits_for_the_replicas_as_well(stage: Any) -> None:
    stage.machine_factory = Acknowledging
    coordinator = stage.restart()
    partition = stage.partition_of("a")
    partition.replicas_end = 0
    written = coordinator.submit("a", Put("a", 1))
    await stage.settle()
    closing = asyncio.ensure_future(coordinator.close())
    await stage.settle()
    assert not written.done()
    partition.replicate()
    assert await written is None
    # For the snapshot that is left behind.
    partition.sync()
    await closing
