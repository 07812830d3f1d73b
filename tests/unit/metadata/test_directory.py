"""The clean-stop mark: left by an orderly stop, believed once, and by its own directory only."""

from __future__ import annotations

from random import Random

import pytest

from goqueue.metadata.directory import CLEAN_STOP, IDENTITY, DataDirectory
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles


def begin(files: MemoryFiles, seed: int = 1) -> DataDirectory:
    directory = DataDirectory(files)
    directory.begin(Random(seed))
    return directory


def stop(directory: DataDirectory) -> None:
    directory.leave(None, None, None)


def test_a_new_directory_knows_nothing_of_a_stop_and_gets_an_id_for_good() -> None:
    files = MemoryFiles()
    directory = DataDirectory(files)
    assert directory.was_clean is None
    first = directory.begin(Random(1))
    stop(directory)
    directory = DataDirectory(files.crash(Survival.NOTHING))
    assert directory.was_clean is True
    second = directory.begin(Random(2))
    assert second.directory_id == first.directory_id
    assert (first.epoch, second.epoch) == (1, 2)
    assert first.token != second.token


@pytest.mark.parametrize("was_clean", [None, True, False])
def test_a_directory_that_is_only_looked_at_stays_as_it_was(was_clean: bool | None) -> None:
    files = MemoryFiles()
    if was_clean is not None:
        directory = begin(files)
        if was_clean:
            stop(directory)
    before = files.tree()
    stop(DataDirectory(files))
    assert files.tree() == before
    assert DataDirectory(files).was_clean is was_clean


def test_a_mark_is_believed_once() -> None:
    files = MemoryFiles()
    stop(begin(files))
    mark = files.read(CLEAN_STOP)
    assert begin(files, seed=2).was_clean is True
    # The next life crashed. Even a mark that comes back, from a copy say, is one of an earlier life.
    files = files.crash(Survival.NOTHING)
    assert not files.exists(CLEAN_STOP)
    files.replace(CLEAN_STOP, mark)
    assert begin(files, seed=3).was_clean is False


def test_the_mark_of_another_directory_is_not_believed() -> None:
    ours, theirs = MemoryFiles(), MemoryFiles()
    begin(ours, seed=1)
    stop(begin(theirs, seed=2))
    ours.replace(CLEAN_STOP, theirs.read(CLEAN_STOP))
    assert begin(ours, seed=3).was_clean is False


def test_a_spoiled_life_and_one_that_ends_with_an_error_leave_no_mark() -> None:
    files = MemoryFiles()
    spoiled = begin(files)
    spoiled.spoil()
    stop(spoiled)
    assert begin(files, seed=2).was_clean is False
    begin(files, seed=3).leave(OSError, OSError("no"), None)
    assert begin(files, seed=4).was_clean is False


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"epoch": 1}'])
def test_files_that_cannot_be_read_are_no_clean_stop(content: bytes) -> None:
    files = MemoryFiles()
    stop(begin(files))
    files.replace(CLEAN_STOP, content)
    assert begin(files, seed=2).was_clean is False
    files.replace(IDENTITY, content)
    files.replace(CLEAN_STOP, content)
    assert begin(files, seed=3).was_clean is False


def test_on_a_full_disk_a_life_begins_all_the_same_and_its_stop_is_not_taken_for_clean() -> None:
    files = MemoryFiles()
    stop(begin(files))
    files.faults.capacity_bytes = 0
    full = begin(files, seed=2)
    assert full.was_clean is True
    files.faults.capacity_bytes = None
    stop(full)
    assert begin(files, seed=3).was_clean is False


@pytest.mark.parametrize("survival", list(Survival))
def test_a_power_cut_after_the_start_is_never_taken_for_a_clean_stop(survival: Survival) -> None:
    for seed in range(20):
        files = MemoryFiles(seed=seed)
        stop(begin(files))
        begin(files, seed=2)
        assert begin(files.crash(survival), seed=3).was_clean is False
