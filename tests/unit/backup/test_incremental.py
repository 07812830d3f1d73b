"""An incremental backup reads only what is new, and notices a log that was cut off and written anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.backup.test_files import frame, segment
from tests.unit.backup.test_work import RUN, contents, write

from goqueue.backup.manifest import Manifest
from goqueue.backup.plan import PARTS_MAX
from goqueue.backup.store import open_store
from goqueue.backup.work import Outcome, backup, restore, verify

SEGMENT = "logs/orders/0/00000000000000000000.log"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with one log that is written to."""
    root = tmp_path / "data"
    write(root / "metadata" / "00000000000000000000.log", segment(2))
    write(root / SEGMENT, segment(5))
    return root


def taken(data: Path, store: Path) -> Outcome:
    return backup(RUN, data, store, ask_instant=lambda: None)


def parts(store: Path) -> list[tuple[int, int]]:
    manifest: Manifest = open_store(store).read()
    return [(file.start, file.size) for file in manifest.files if file.path == SEGMENT]


def append(data: Path, content: bytes) -> None:
    with (data / SEGMENT).open("ab") as log:
        log.write(content)


def test_with_nothing_new_nothing_is_read(data: Path, tmp_path: Path) -> None:
    taken(data, tmp_path / "store")

    again = taken(data, tmp_path / "store")

    assert again.facts["bytes_to_read"] == 0
    assert again.facts["files_to_read"] == 0
    assert verify(RUN, tmp_path / "store", None).problems == []


def test_of_a_segment_that_has_grown_only_its_end_is_read_and_it_is_restored_whole(data: Path, tmp_path: Path) -> None:
    store, size = tmp_path / "store", len(segment(5))
    taken(data, store)
    append(data, frame(5) + frame(6))
    second = taken(data, store)
    append(data, frame(7))
    third = taken(data, store)

    one = len(frame(5))
    assert (second.facts["bytes_to_read"], third.facts["bytes_to_read"]) == (2 * one, one)
    assert parts(store) == [(0, size), (size, 2 * one), (size + 2 * one, one)]
    restored = restore(RUN, store, None, tmp_path / "restored")
    assert contents(tmp_path / "restored") == contents(data)
    assert {row["topic"]: row["frames"] for row in restored.topics} == {"metadata": 2, "orders": 8}
    # The older ones are restored alone as well.
    restore(RUN, store, str(second.facts["backup"]), tmp_path / "older")
    assert (tmp_path / "older" / SEGMENT).read_bytes() == (data / SEGMENT).read_bytes()[:-one]


def test_a_log_that_was_cut_off_and_written_anew_with_the_same_size_is_read_again(data: Path, tmp_path: Path) -> None:
    taken(data, tmp_path / "store")
    # The last message was lost with a power cut, and others of the same size took its place.
    (data / SEGMENT).write_bytes(segment(4) + frame(4, b"anew" + bytes(6)) + frame(5))

    again = taken(data, tmp_path / "store")

    assert again.facts["bytes_to_read"] == len(segment(6))
    restore(RUN, tmp_path / "store", None, tmp_path / "restored")
    assert contents(tmp_path / "restored") == contents(data)


def test_a_write_that_was_cut_off_behind_a_known_part_is_no_part(data: Path, tmp_path: Path) -> None:
    taken(data, tmp_path / "store")
    append(data, frame(5)[:20])

    taken(data, tmp_path / "store")

    assert parts(tmp_path / "store") == [(0, len(segment(5)))]
    restore(RUN, tmp_path / "store", None, tmp_path / "restored")
    assert (tmp_path / "restored" / SEGMENT).read_bytes() == segment(5)


def test_after_many_parts_a_segment_is_stored_as_one_again(data: Path, tmp_path: Path) -> None:
    counts = []
    for offset in range(5, 5 + PARTS_MAX + 1):
        taken(data, tmp_path / "store")
        counts.append(len(parts(tmp_path / "store")))
        append(data, frame(offset))

    assert counts == [*range(1, PARTS_MAX + 1), 1]
    assert verify(RUN, tmp_path / "store", None).problems == []


def test_a_backup_of_the_format_before_is_restored_and_its_files_are_known(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    name = str(taken(data, store).facts["backup"])
    path = store / "backups" / f"{name}.json"
    path.write_text(path.read_text().replace('"format": 3', '"format": 2'))

    assert restore(RUN, store, name, tmp_path / "restored").problems == []
    assert contents(tmp_path / "restored") == contents(data)
    assert taken(data, store).facts["parent"] == name
