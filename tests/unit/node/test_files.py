"""What every `Files` must do, on a real directory and on the disk in memory alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goqueue.errors import DataDirectoryInUse
from goqueue.node.disk.os_files import OsFiles
from goqueue.ports import Files
from goqueue.testing.memory_files import MemoryFiles


@pytest.fixture(params=["os", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Files]:
    if request.param == "memory":
        yield MemoryFiles()
        return
    real = OsFiles(tmp_path / "root", create=True)
    yield real
    real.close()


def test_an_append_returns_where_its_bytes_begin(files: Files) -> None:
    file = files.open("a.log", create=True)
    assert file.append([b"one", bytearray(b"two")]) == 0
    assert file.append([memoryview(b"three")]) == 6
    assert file.size() == 11
    assert file.pread(100, 0) == b"onetwothree"
    file.close()


def test_more_parts_than_one_system_call_takes_are_all_written(files: Files) -> None:
    file = files.open("many.log", create=True)
    parts = [str(number).encode() for number in range(3000)]
    file.append(parts)
    assert file.pread(1 << 20, 0) == b"".join(parts)
    file.close()


def test_an_append_of_nothing_is_harmless(files: Files) -> None:
    file = files.open("a.log", create=True)
    assert file.append([]) == 0
    assert file.append([b"", b""]) == 0
    assert file.size() == 0
    file.close()


def test_a_memoryview_of_wider_items_is_written_by_its_bytes(files: Files) -> None:
    file = files.open("wide.log", create=True)
    file.append([memoryview(b"12345678").cast("I"), b"x"])
    assert file.size() == 9
    assert file.pread(9, 0) == b"12345678x"
    file.close()


@pytest.mark.parametrize("nowait", [False, True])
def test_a_read_is_short_only_at_the_end(files: Files, nowait: bool) -> None:
    file = files.open("a.log", create=True)
    file.append([b"0123456789"])
    assert file.pread(4, 3, nowait=nowait) == b"3456"
    assert file.pread(100, 8, nowait=nowait) == b"89"
    assert file.pread(5, 10, nowait=nowait) == b""
    assert file.pread(5, 99, nowait=nowait) == b""
    file.close()


def test_the_size_is_known_again_after_reopening(files: Files) -> None:
    first = files.open("a.log", create=True)
    first.append([b"kept"])
    first.close()
    again = files.open("a.log")
    assert again.size() == 4
    assert again.append([b"more"]) == 4
    assert files.size("a.log") == 8
    again.close()


def test_truncating_cuts_and_the_next_append_follows_the_cut(files: Files) -> None:
    file = files.open("a.log", create=True)
    file.append([b"0123456789"])
    file.truncate(4)
    assert file.size() == 4
    assert file.append([b"ab"]) == 4
    assert file.pread(100, 0) == b"0123ab"
    file.close()


def test_closing_twice_is_harmless_and_a_closed_file_refuses_work(files: Files) -> None:
    file = files.open("a.log", create=True)
    file.append([b"x"])
    file.close()
    file.close()
    with pytest.raises(OSError):
        file.append([b"y"])
    with pytest.raises(OSError):
        file.pread(1, 0)


def test_opening_what_is_not_there_fails_unless_asked_to_create(files: Files) -> None:
    with pytest.raises(FileNotFoundError):
        files.open("missing")
    assert not files.exists("missing")
    files.open("missing", create=True).close()
    assert files.exists("missing")


def test_creating_in_a_missing_directory_fails(files: Files) -> None:
    with pytest.raises(FileNotFoundError):
        files.open("no/such/place", create=True)


def test_directories_are_made_with_their_parents_and_listed_in_order(files: Files) -> None:
    files.make_dirs("logs/orders/0")
    files.make_dirs("logs/orders/0")
    files.make_dirs("logs/audit/0")
    assert files.is_dir("logs/orders/0")
    assert files.list("logs") == ["audit", "orders"]
    assert files.list("") == ["logs"]
    assert files.list("nowhere") == []
    assert not files.is_dir("nowhere")


def test_a_file_is_no_directory(files: Files) -> None:
    files.open("plain", create=True).close()
    assert not files.is_dir("plain")
    assert files.list("plain") == []
    with pytest.raises(OSError):
        files.make_dirs("plain/below")


def test_replacing_a_file_swaps_all_of_it_and_leaves_nothing_else(files: Files) -> None:
    files.replace("state", b"a long first version")
    files.replace("state", b"second")
    assert files.read("state") == b"second"
    assert files.list("") == ["state"]


def test_renaming_replaces_the_file_of_that_name(files: Files) -> None:
    files.replace("old", b"old")
    files.replace("new", b"new")
    files.rename("old", "new")
    assert files.list("") == ["new"]
    assert files.read("new") == b"old"
    with pytest.raises(FileNotFoundError):
        files.rename("old", "other")


def test_a_directory_can_be_renamed_with_all_in_it(files: Files) -> None:
    files.make_dirs("topic/0")
    files.replace("topic/0/a", b"x")
    files.rename("topic", "aside")
    assert files.read("aside/0/a") == b"x"
    assert not files.exists("topic")


def test_removing_what_is_gone_is_no_error(files: Files) -> None:
    files.remove("missing")
    files.remove_tree("missing")
    files.make_dirs("tree/branch")
    files.replace("tree/branch/leaf", b"x")
    files.remove("tree/branch/leaf")
    files.replace("tree/branch/leaf", b"x")
    files.remove_tree("tree")
    assert not files.exists("tree")


def test_an_open_file_outlives_its_name(files: Files) -> None:
    file = files.open("a.log", create=True)
    file.append([b"still here"])
    files.remove("a.log")
    assert file.pread(100, 0) == b"still here"
    file.close()


def test_every_kind_of_sync_returns_on_a_healthy_disk(files: Files) -> None:
    files.make_dirs("d")
    file = files.open("d/a.log", create=True)
    file.append([b"x"])
    file.sync()
    files.sync_dir("d")
    files.sync_dir("")
    files.sync_all()
    with pytest.raises(FileNotFoundError):
        files.sync_dir("nowhere")
    file.close()


def test_only_one_holds_the_lock_and_it_can_be_taken_again_after(files: Files) -> None:
    with files.lock(".lock"):
        with pytest.raises(DataDirectoryInUse), files.lock(".lock"):
            pass
        # A refused attempt must not have let go of the holder's lock.
        with pytest.raises(DataDirectoryInUse), files.lock(".lock"):
            pass
    with files.lock(".lock"):
        pass


def test_free_space_is_a_number_of_bytes(files: Files) -> None:
    assert files.free_bytes() > 1 << 20


@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "a/..", "logs/../../../etc/passwd"])
@pytest.mark.parametrize(
    "act",
    [
        lambda files, path: files.open(path, create=True),
        lambda files, path: files.exists(path),
        lambda files, path: files.size(path),
        lambda files, path: files.list(path),
        lambda files, path: files.make_dirs(path),
        lambda files, path: files.read(path),
        lambda files, path: files.replace(f"{path}/x", b"x"),
        lambda files, path: files.rename(path, "y"),
        lambda files, path: files.remove(path),
        lambda files, path: files.remove_tree(path),
        lambda files, path: files.sync_dir(path),
    ],
)
def test_no_operation_leaves_the_root(files: Files, path: str, act: Callable[[Files, str], object]) -> None:
    """A name that became a path must not reach another directory."""
    with pytest.raises(ValueError, match="leaves the root"):
        act(files, path)


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.binary(max_size=40), max_size=5)),
        st.tuples(st.just("truncate"), st.integers(0, 200)),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=20,
)


@given(steps=_steps)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_run_of_appends_cuts_and_reopens_keeps_the_bytes(files: Files, steps: list[tuple[str, object]]) -> None:
    files.remove("model.log")
    file = files.open("model.log", create=True)
    model = b""
    for step, argument in steps:
        if step == "append":
            assert file.append(argument) == len(model)  # type: ignore[arg-type]
            model += b"".join(argument)  # type: ignore[arg-type]
        elif step == "truncate":
            size = min(int(argument), len(model))  # type: ignore[call-overload]
            file.truncate(size)
            model = model[:size]
        else:
            file.close()
            file = files.open("model.log")
        assert file.size() == len(model)
    assert file.pread(1 << 20, 0) == model
    file.close()
