"""The shard: pure bookkeeping of what is written, what is durable and who must wait."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from goqueue.broker.replicas.safety import Safety
from goqueue.coordinator.shard import Decision, Entry, Record, Shard, Transaction
from goqueue.errors import Conflict, DiskFull
from goqueue.testing.register import KEYS, VALUES, Await, CompareAndSet, Key, Put, Read, ReadAll, Register, Value


class ListJournal:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.is_full = False

    @property
    def end(self) -> int:
        return self.entries[-1].end_offset if self.entries else 0

    def append(self, records: Sequence[Record], transaction: Transaction | None, now_ms: int) -> int:
        if self.is_full:
            raise DiskFull("here")
        end = self.end + len(records)
        self.entries.append(Entry(end, records, transaction.producer_id if transaction else None))
        return end

    def append_marker(self, transaction: Transaction, *, commit: bool, coordinator_epoch: int, now_ms: int) -> int:
        self.entries.append(Entry(self.end + 1, (), transaction.producer_id, commit))
        return self.end


def new_shard() -> tuple[Shard, ListJournal]:
    journal = ListJournal()
    return Shard(Register(), journal, end_offset=0), journal


def test_a_command_without_records_is_answered_at_once() -> None:
    shard, _ = new_shard()
    assert list(shard.submit(7, Read("a"), 0)) == [(7, None)]
    assert not shard.holds_replies


def test_a_write_is_applied_at_once_and_answered_when_durable() -> None:
    shard, journal = new_shard()
    assert list(shard.submit(0, Put("a", 1), 0)) == []
    assert shard.machine.numbers() == {"a": 1}
    assert len(journal.entries) == 1
    assert shard.holds_replies
    assert shard.durable_to(0) == []
    assert shard.durable_to(1) == [(0, None)]


def test_a_reply_that_rests_on_what_was_loaded_waits_until_the_replicas_have_synced_that_once() -> None:
    class Unsure(Register):
        def decide(self, ticket: int, command: object, now_ms: int) -> Decision:
            found = super().decide(ticket, command, now_ms)
            return structs.replace(found, rests_on_loaded=True, safety=Safety.WRITTEN)

    shard = Shard(Unsure(), ListJournal(), end_offset=0)
    shard.loaded_to(5)
    assert list(shard.submit(0, Read("a"), 0)) == []
    assert shard.holds_replies
    assert shard.durable_to(5) == [(0, None)]
    shard.take(Entry(6))
    assert list(shard.submit(1, Read("a"), 0)) == [(1, None)], "what was written since does not matter"


def test_a_reply_that_rests_on_what_was_loaded_and_on_what_was_written_since_waits_for_both() -> None:
    class Unsure(Register):
        def decide(self, ticket: int, command: object, now_ms: int) -> Decision:
            return structs.replace(super().decide(ticket, command, now_ms), rests_on_loaded=True)

    shard = Shard(Unsure(), ListJournal(), end_offset=0)
    shard.loaded_to(5)
    assert list(shard.submit(0, Read("a"), 0)) == []
    assert shard.durable_to(5) == [(0, None)]
    shard.take(Entry(6))
    assert list(shard.submit(1, Read("a"), 0)) == []
    assert shard.durable_to(6) == [(1, None)]


def test_a_reply_that_need_not_be_held_is_given_once_it_is_written() -> None:
    class Hasty(Register):
        def decide(self, ticket: int, command: object, now_ms: int) -> Decision:
            return structs.replace(super().decide(ticket, command, now_ms), safety=Safety.WRITTEN)

    journal = ListJournal()
    shard = Shard(Hasty(), journal, end_offset=0)
    assert list(shard.submit(0, Put("a", 1), 0)) == [(0, None)]
    assert len(journal.entries) == 1
    assert not shard.holds_replies


def test_a_read_that_rests_on_an_undurable_write_waits_with_it() -> None:
    shard, _ = new_shard()
    shard.submit(0, Put("a", 1), 0)
    assert list(shard.submit(1, Read("a"), 0)) == []
    assert shard.durable_to(1) == [(0, None), (1, 1)]
    assert list(shard.submit(2, Read("a"), 0)) == [(2, 1)]


def test_a_refusal_that_rests_on_an_undurable_write_waits_too() -> None:
    shard, _ = new_shard()
    shard.submit(0, Put("a", 1), 0)
    assert list(shard.submit(1, CompareAndSet("a", None, 2), 0)) == []
    (_, (ticket, error)) = shard.durable_to(1)
    assert ticket == 1
    assert isinstance(error, Conflict)


def test_one_command_may_answer_the_tickets_of_others() -> None:
    shard, _ = new_shard()
    assert list(shard.submit(0, Await("a"), 0)) == []
    assert not shard.holds_replies
    shard.submit(1, Put("a", 5), 0)
    assert shard.durable_to(1) == [(1, None), (0, 5)]


def test_replies_leave_in_the_order_in_which_they_were_given() -> None:
    shard, _ = new_shard()
    for number in range(5):
        shard.submit(number, Put("a", number), 0)
    assert shard.durable_to(3) == [(0, None), (1, 0), (2, 1)]
    assert shard.durable_to(5) == [(3, 2), (4, 3)]


def test_nothing_is_applied_when_the_append_fails() -> None:
    shard, journal = new_shard()
    journal.is_full = True
    with pytest.raises(DiskFull):
        shard.submit(0, Put("a", 1), 0)
    assert shard.machine.numbers() == {}


def test_tick_writes_like_any_command() -> None:
    shard, journal = new_shard()
    shard.submit(0, Put("a", 1, expires_at_ms=100), 0)
    assert shard.machine.wake_at_ms() == 100
    assert list(shard.tick(100)) == []
    assert journal.entries[-1].records == [(KEYS.encode(Key("a")), None)]
    assert shard.machine.numbers() == {}


def test_records_of_a_transaction_count_when_it_commits_and_never_when_it_aborts() -> None:
    shard, _ = new_shard()
    first, second = Transaction(1, 0), Transaction(2, 0)
    shard.submit(0, Put("a", 1, transaction=first), 0)
    shard.submit(1, Put("b", 2, transaction=second), 0)
    shard.submit(2, Put("a", 3, transaction=first), 0)
    assert shard.machine.numbers() == {}
    assert shard.snapshot() == b""

    shard.end_transaction(3, second, commit=False, coordinator_epoch=0, now_ms=0)
    assert shard.machine.numbers() == {}
    shard.end_transaction(4, first, commit=True, coordinator_epoch=0, now_ms=0)
    assert shard.machine.numbers() == {"a": 3}
    assert shard.snapshot() != b""
    assert [ticket for ticket, _ in shard.durable_to(5)] == [0, 1, 2, 3, 4]


def test_a_machine_with_nothing_to_say_writes_nothing() -> None:
    shard, journal = new_shard()
    assert list(shard._carry_out(Decision(), 0)) == []
    assert journal.entries == []


COMMANDS = st.one_of(
    st.builds(Put, st.sampled_from("abc"), st.integers(0, 9)),
    st.builds(
        Put,
        st.sampled_from("abc"),
        st.integers(0, 9),
        transaction=st.builds(Transaction, st.integers(1, 2), st.just(0)),
    ),
    st.builds(CompareAndSet, st.sampled_from("abc"), st.integers(0, 9) | st.none(), st.integers(0, 9)),
    st.builds(Read, st.sampled_from("abc")),
    st.builds(ReadAll),
    st.tuples(st.integers(1, 2), st.booleans()),
    st.just("sync"),
)


@given(commands=st.lists(COMMANDS, max_size=30))
def test_replaying_the_log_gives_the_same_state_and_no_reply_leaves_early(commands: list[object]) -> None:
    shard, journal = new_shard()
    written_before: dict[int, int] = {}
    for ticket, command in enumerate(commands):
        if command == "sync":
            replies = shard.durable_to(shard.written_end)
        elif isinstance(command, tuple):
            transaction = Transaction(command[0], 0)
            replies = shard.end_transaction(ticket, transaction, commit=command[1], coordinator_epoch=0, now_ms=0)
        else:
            replies = shard.submit(ticket, command, 0)
        written_before[ticket] = journal.end
        assert all(written_before[answered] <= shard.durable_end for answered, _ in replies)

    replayed = Shard(Register(), ListJournal(), end_offset=0)
    for entry in journal.entries:
        replayed.take(entry)
    assert replayed.machine.values == shard.machine.values
    assert replayed.written_end == shard.written_end
    assert replayed.snapshot() == shard.snapshot()


def test_the_register_remembers_what_its_snapshot_says() -> None:
    register = Register({"a": Value(1, None), "b": Value(2, 5)})
    other = Register()
    other.restore(register.snapshot())
    assert other.values == register.values
    assert VALUES.decode(VALUES.encode(Value(1, 2))) == Value(1, 2)
