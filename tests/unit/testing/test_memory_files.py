"""The disk in memory: an ordinary disk until the power goes."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import DataDirectoryInUse
from goqueue.ports import ColdRead, File, Files
from goqueue.testing.disk import PAGE_BYTES, Survival
from goqueue.testing.faults import Crash
from goqueue.testing.memory_files import MemoryFiles

SEEDS = range(60)


def with_file(files: MemoryFiles, path: str = "d/f", content: bytes = b"") -> File:
    """A file whose name and content are durable."""
    files.make_dirs("d")
    file = files.open(path, create=True)
    file.append([content])
    file.sync()
    files.sync_dir("d")
    return file


def test_it_is_a_files_port() -> None:
    files: Files = MemoryFiles()
    files.make_dirs("a/b")
    file: File = files.open("a/b/c", create=True)

    assert file.append([b"one", memoryview(b"two"), bytearray(b"!")]) == 0
    assert file.append([b"three"]) == 7

    assert file.size() == files.size("a/b/c") == 12
    assert file.pread(5, 7) == b"three"
    assert file.pread(100, 10) == b"ee"
    assert file.pread(5, 100) == b""
    assert files.read("a/b/c") == b"onetwo!three"
    assert files.list("a") == ["b"]
    assert files.list("nowhere") == []
    assert files.is_dir("a/b")
    assert not files.is_dir("a/b/c")
    assert files.exists("")


def test_names_can_be_changed() -> None:
    files = MemoryFiles()
    files.make_dirs("a")
    files.make_dirs("b")
    files.replace("a/x", b"1")
    files.replace("a/x", b"2")
    files.rename("a/x", "b/y")
    files.replace("a/z", b"3")
    files.rename("a", "c")

    assert files.tree() == {"b/y": b"2", "c/z": b"3"}

    files.remove("b/y")
    files.remove("b/y")
    files.remove_tree("c")
    files.remove_tree("c")
    assert files.list("") == ["b"]


def test_what_is_not_there_or_is_something_else_is_refused_as_by_the_system() -> None:
    files = MemoryFiles()
    files.make_dirs("d/e")
    with pytest.raises(FileNotFoundError):
        files.open("d/f")
    with pytest.raises(FileNotFoundError):
        files.open("nowhere/f", create=True)
    with pytest.raises(FileNotFoundError):
        files.rename("d/f", "d/g")
    with pytest.raises(IsADirectoryError):
        files.open("d")
    with pytest.raises(IsADirectoryError):
        files.remove("d/e")
    with pytest.raises(ValueError, match="leaves the root"):
        files.exists("d/../../etc")
    file = files.open("d/f", create=True)
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.append([b"x"])


def test_a_lock_is_held_by_one_and_ends_with_the_power() -> None:
    files = MemoryFiles()
    with files.lock("data"):
        with pytest.raises(DataDirectoryInUse), files.lock("data"):
            pass
        reopened = files.crash()
        with reopened.lock("data"):
            pass
    with pytest.raises(Crash), files.lock("data"):
        pass


def test_synced_bytes_under_a_synced_name_survive_every_crash() -> None:
    for seed in SEEDS:
        files = MemoryFiles(seed=seed)
        file = with_file(files, content=b"kept")
        file.append([b" perhaps"])
        assert files.unsynced_bytes("d/f") == 8

        content = files.crash().read("d/f")

        assert content.startswith(b"kept")
        assert b"kept perhaps".startswith(content)


def test_a_crash_tears_unsynced_appends_at_any_byte_and_keeps_their_order() -> None:
    outcomes = set()
    for seed in range(400):
        files = MemoryFiles(seed=seed)
        file = with_file(files, content=b"S")
        for part in (b"aa", b"bb", b"cc"):
            file.append([part])
        outcomes.add(files.crash().read("d/f"))
    assert outcomes == {b"Saabbcc"[:size] for size in range(1, 8)}


def test_a_file_whose_name_was_not_synced_may_vanish_though_its_bytes_were() -> None:
    outcomes = set()
    for seed in SEEDS:
        files = MemoryFiles(seed=seed)
        files.make_dirs("d")
        file = files.open("d/f", create=True)
        file.append([b"x"])
        file.sync()
        outcomes.add(files.crash().exists("d/f"))
    assert outcomes == {True, False}


def test_an_unsynced_rename_happened_or_did_not_but_never_halfway() -> None:
    outcomes = set()
    for seed in SEEDS:
        files = MemoryFiles(seed=seed)
        with_file(files, "d/old", b"x")
        files.make_dirs("e")
        files.rename("d/old", "e/new")
        outcomes.add(tuple(files.crash().tree()))
    assert outcomes == {("d/old",), ("e/new",)}


def test_a_removed_file_may_come_back_with_its_bytes() -> None:
    outcomes = set()
    for seed in SEEDS:
        files = MemoryFiles(seed=seed)
        with_file(files, content=b"x")
        files.remove("d/f")
        assert not files.exists("d/f")
        outcomes.add(tuple(files.crash().tree().items()))
    assert outcomes == {(("d/f", b"x"),), ()}


def test_an_unsynced_cut_happened_or_did_not() -> None:
    outcomes = set()
    for seed in SEEDS:
        files = MemoryFiles(seed=seed)
        file = with_file(files, content=b"abcdef")
        file.truncate(2)
        assert file.size() == 2
        outcomes.add(files.crash().read("d/f"))
    assert outcomes == {b"abcdef", b"ab"}


def test_a_cut_followed_by_an_append_never_shows_the_append_behind_what_was_cut() -> None:
    outcomes = set()
    for seed in range(1000):
        files = MemoryFiles(seed=seed)
        file = with_file(files, content=b"abcdef")
        file.truncate(2)
        file.append([b"XY"])
        outcomes.add(files.crash().read("d/f"))
    assert outcomes == {b"abcdef", b"ab", b"abX", b"abXY"}


def test_a_small_file_is_replaced_whole_or_not_at_all_wherever_the_power_goes() -> None:
    for step in range(1, 30):
        for seed in range(8):
            files = MemoryFiles(seed=seed)
            files.make_dirs("d")
            files.replace("d/c", b"old")
            files.faults.crash_at_step = files.faults.steps + step
            try:
                files.replace("d/c", b"new")
            except Crash:
                assert files.crash().read("d/c") in {b"old", b"new"}
            else:
                assert files.crash().read("d/c") == b"new"


def test_killing_the_process_loses_nothing_and_syncs_nothing() -> None:
    files = MemoryFiles()
    file = with_file(files, content=b"ab")
    file.append([b"cd"])
    restarted = files.kill()
    assert restarted.read("d/f") == b"abcd"
    assert restarted.unsynced_bytes("d/f") == 2
    with pytest.raises(Crash):
        file.size()
    assert restarted.crash(Survival.NOTHING).read("d/f") == b"ab"


def test_the_kindest_cut_loses_nothing_and_the_unkindest_all_that_was_not_synced() -> None:
    for survival, content in ((Survival.EVERYTHING, b"abcd"), (Survival.NOTHING, b"ab")):
        files = MemoryFiles(seed=1)
        file = with_file(files, content=b"ab")
        file.append([b"cd"])
        files.open("d/g", create=True)
        survivor = files.crash(survival)
        assert survivor.read("d/f") == content
        assert survivor.exists("d/g") == (survival is Survival.EVERYTHING)


def test_pages_written_back_out_of_order_leave_a_hole_only_in_what_was_not_synced() -> None:
    synced, unsynced = b"s" * 5000, b"u" * (3 * PAGE_BYTES)
    for seed in SEEDS:
        files = MemoryFiles(seed=seed)
        file = with_file(files, content=synced)
        file.append([unsynced])
        content = files.crash(holes=True).read("d/f")
        assert content.startswith(synced)
        assert len(content) == len(synced) or b"\0" in content[len(synced) :]


def test_nothing_from_before_the_crash_works_after_it() -> None:
    files = MemoryFiles()
    file = with_file(files)
    reopened = files.crash()
    for use in (
        lambda: file.append([b"x"]),
        lambda: file.pread(1, 0),
        file.sync,
        lambda: files.list(""),
        lambda: files.open("d/f"),
        files.sync_all,
    ):
        with pytest.raises(Crash):
            use()
    reopened.open("d/f").append([b"works"])


def test_the_power_goes_at_the_step_that_was_chosen_and_stays_away() -> None:
    files = MemoryFiles()
    file = with_file(files)
    files.faults.crash_at_step = files.faults.steps + 2
    file.append([b"one"])
    with pytest.raises(Crash):
        file.append([b"two"])
    assert files.is_down
    with pytest.raises(Crash):
        file.size()
    reopened = files.crash(Survival.EVERYTHING)
    assert reopened.read("d/f") == b"onetwo"
    assert reopened.faults.steps == 0


def test_a_sync_that_the_power_cut_interrupts_did_not_happen() -> None:
    files = MemoryFiles()
    file = with_file(files)
    file.append([b"x"])
    files.faults.crash_at_step = files.faults.steps + 1
    with pytest.raises(Crash):
        file.sync()
    assert files.crash(Survival.NOTHING).read("d/f") == b""


def test_a_full_disk_refuses_an_append_whole_and_takes_it_when_there_is_room() -> None:
    files = MemoryFiles(capacity_bytes=10)
    file = with_file(files, content=b"12345678")
    assert files.free_bytes() == 2
    with pytest.raises(OSError, match="No space") as raised:
        file.append([b"9", b"ab"])
    assert raised.value.errno == errno.ENOSPC
    assert file.size() == 8
    files.faults.capacity_bytes = 11
    file.append([b"9", b"ab"])
    assert files.read("d/f") == b"123456789ab"


def test_planned_errors_come_to_the_operation_the_path_and_the_count_they_were_planned_for() -> None:
    files = MemoryFiles()
    file = with_file(files, "d/f.log", b"x")
    other = with_file(files, "d/f.index", b"y")
    files.faults.fail("pread", "*.log", times=2)
    assert other.pread(1, 0) == b"y"
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            file.pread(1, 0)
    assert file.pread(1, 0) == b"x"
    files.faults.fail("append", code=errno.ENOSPC, times=9)
    files.faults.clear()
    file.append([b"y"])
    assert files.faults.counts["append"] == 3


def test_a_failed_sync_loses_its_bytes_although_the_next_one_succeeds() -> None:
    files = MemoryFiles()
    file = with_file(files, content=b"ok")
    file.append([b"lost"])
    files.faults.fail("sync")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    assert file.pread(10, 0) == b"oklost"
    file.append([b"late"])
    file.sync()
    assert files.crash(Survival.EVERYTHING).read("d/f") == b"ok\0\0\0\0late"


def test_a_flipped_bit_stays_flipped() -> None:
    files = MemoryFiles()
    file = with_file(files, content=b"ab")
    file.append([b"cd"])
    files.flip_bit("d/f", 1, 0)
    files.flip_bit("d/f", 3, 1)
    assert file.pread(4, 0) == b"accf"
    file.sync()
    assert files.crash().read("d/f") == b"accf"


def test_cold_files_refuse_to_be_read_without_waiting() -> None:
    files = MemoryFiles()
    file = with_file(files, content=b"x")
    assert file.pread(1, 0, nowait=True) == b"x"
    files.faults.cold = lambda path: path.endswith("f")
    with pytest.raises(ColdRead):
        file.pread(1, 0, nowait=True)
    assert file.pread(1, 0) == b"x"


def test_syncing_everything_stores_names_and_bytes() -> None:
    files = MemoryFiles()
    files.make_dirs("d")
    files.open("d/f", create=True).append([b"x"])
    synced: list[str] = []
    files.faults.on_sync = synced.append
    files.sync_all()
    files.open("d/f").sync()
    assert synced == ["", "d/f"]
    assert files.crash(Survival.NOTHING).tree() == {"d/f": b"x"}


def test_threads_may_read_while_the_file_grows() -> None:
    files = MemoryFiles()
    file = with_file(files)

    def read() -> bool:
        return all(set(file.pread(1000, 0)) <= {ord("x")} for _ in range(200))

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        for _ in range(500):
            file.append([b"x" * 7])
        assert all(reader.result() for reader in readers)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.binary(min_size=1, max_size=9)),
        st.tuples(st.just("truncate"), st.integers(0, 30)),
        st.just(("sync",)),
    ),
    max_size=12,
)


@given(steps=STEPS, seed=st.integers(0, 2**32))
def test_what_survives_is_always_a_moment_between_the_last_sync_and_now(steps: list[tuple], seed: int) -> None:
    files = MemoryFiles(seed=seed)
    file = with_file(files)
    moments = [b""]
    for step in steps:
        before = files.read("d/f")
        if step[0] == "append":
            file.append([step[1]])
            moments += [before + step[1][:cut] for cut in range(1, len(step[1]) + 1)]
        elif step[0] == "truncate":
            file.truncate(step[1])
            after = files.read("d/f")
            moments += [after] + [after[:size] for size in range(len(before), len(after))]
        else:
            file.sync()
            moments = [before]
    assert files.crash().read("d/f") in moments
