"""`goqueue log`: what an operator sees of the files of a stopped broker."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.codec.builders import some_batch
from typer.testing import CliRunner, Result

from goqueue.cli.files.log import app
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.node.disk.os_files import OsFiles
from goqueue.node.listeners.claims import LOCK_FILE

NOW_MS = 1_700_000_000_000
BATCHES = 100
FRAME_BYTES = 34 + len(some_batch(3))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Topic `orders` with two partitions of three segments, three records a batch, and topic `empty`."""
    files = OsFiles(tmp_path)
    for partition in range(2):
        log = PartitionLog.open(
            files,
            f"logs/orders/{partition}",
            settings=LogSettings(segment_bytes=6000),
            topic_id=UUID(int=1),
            now_ms=NOW_MS,
        )
        for number in range(BATCHES):
            log.append_batch(some_batch(3), now_ms=NOW_MS, leader_epoch=0, priority=number % 2)
        log.close()
    files.close()
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "250"}).invoke(app, [str(argument) for argument in arguments])


def answer(*arguments: object) -> object:
    return json.loads(run(*arguments, "-o", "json").stdout)


def segments(data: Path, partition: int = 0) -> list[Path]:
    return sorted((data / f"logs/orders/{partition}").glob("*.log"))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def test_inspect_shows_every_segment_with_offsets_times_and_lanes(data: Path) -> None:
    rows = answer("inspect", data)
    assert isinstance(rows, list)
    assert [(row["topic"], row["partition"]) for row in rows] == [("orders", 0)] * 3 + [("orders", 1)] * 3
    first = rows[0]
    assert (first["first_offset"], rows[2]["end_offset"]) == (0, 3 * BATCHES)
    assert sum(row["records"] for row in rows[:3]) == 3 * BATCHES
    assert set(first["lanes"]) == {"critical", "high"}
    assert first["first_append"] == first["max_timestamp"] == "2023-11-14T22:13:20.000Z"
    assert first["damage"] == []
    table = run("inspect", data, "--topic", "orders", "--partition", 1).stdout
    assert "END OFFSET" in table
    assert len(table.strip().splitlines()) == 4


def test_inspect_lists_frames_up_to_a_limit(data: Path) -> None:
    rows = answer("inspect", data, "--topic", "orders", "--partition", 0, "--frames")
    assert isinstance(rows, list)
    assert len(rows) == BATCHES
    assert [row["first_offset"] for row in rows] == list(range(0, 3 * BATCHES, 3))
    second = rows[1]
    assert (second["last_offset"], second["records"], second["lane"], second["codec"]) == (5, 3, "high", "none")
    assert second["position"] == rows[0]["bytes"]
    cut = run("inspect", data, "--frames", "--limit", 7)
    assert len(cut.stdout.strip().splitlines()) == 8
    assert "only the first 7 frames" in cut.stderr


def test_verify_says_that_all_is_sound(data: Path) -> None:
    result = run("verify", data)
    assert result.exit_code == 0
    assert "2 partitions, 6 segments, 200 frames, 600 records" in result.stdout
    assert "no damage" in result.stdout
    assert result.stderr == ""


def test_verify_names_file_bytes_and_offsets_of_damage_and_ends_with_1(data: Path) -> None:
    middle = segments(data)[1]
    flip(middle, FRAME_BYTES + 70)
    result = run("verify", data)
    assert result.exit_code == 1
    base = int(middle.stem)
    assert f"logs/orders/0/{middle.name}, bytes {FRAME_BYTES} to {2 * FRAME_BYTES}" in result.stdout
    assert f"offsets {base + 3} to {base + 5}" in result.stdout
    assert "DAMAGED" in result.stdout
    found = answer("verify", data, "--topic", "orders")
    assert isinstance(found, dict)
    assert found["sound"] is False
    assert [len(one["damage"]) for one in found["partitions"]] == [1, 0]
    assert run("verify", data, "--topic", "orders", "--partition", 1).exit_code == 0


def test_verify_names_synced_records_that_are_gone_from_the_end_of_a_file(data: Path) -> None:
    """The file ends between two frames: only the checkpoint tells that more was there."""
    *_, last = segments(data)
    left = last.stat().st_size - 2 * FRAME_BYTES
    os.truncate(last, left)
    result = run("verify", data)
    assert result.exit_code == 1
    where = f"damaged: logs/orders/0/{last.name}, at byte {left}"
    assert f"{where}: the file ends here, but more was synced; offsets 294 to 299" in result.stdout
    assert "DAMAGED" in result.stdout
    assert where in run("inspect", data).stderr
    assert [row["sound"] for row in answer("verify", data)["partitions"]] == [False, True]


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (-1, "the file is missing, and it was synced; offsets {base} to 299"),
        (-2, "frames are missing before it; offsets {base} to {last}"),
        (None, "the file is missing, and it was synced; offsets 0 to 299"),
    ],
)
def test_verify_names_the_offsets_of_a_segment_that_is_missing(data: Path, missing: int | None, said: str) -> None:
    files = segments(data)
    bases = [int(one.stem) for one in files]
    for one in files if missing is None else [files[missing]]:
        one.unlink()
    result = run("verify", data)
    assert result.exit_code == 1
    numbers = {"base": bases[missing or 0], "last": bases[-1] - 1}
    assert said.format(**numbers) in result.stdout


def test_repair_keeps_the_offsets_of_records_that_are_gone_from_the_end(data: Path) -> None:
    *_, last = segments(data)
    os.truncate(last, last.stat().st_size - 2 * FRAME_BYTES)
    result = run("repair", data, "--topic", "orders", "--partition", 0)
    assert result.exit_code == 1
    assert "next offset 300" in result.stdout
    assert "offsets 294 to 299" in result.stdout


def test_inspect_shows_damaged_bytes_among_the_frames(data: Path) -> None:
    flip(segments(data)[0], 40)
    rows = answer("inspect", data, "-t", "orders", "-p", 0, "--frames")
    assert isinstance(rows, list)
    assert rows[0]["flags"] == ["DAMAGED"]
    assert "checksum" in rows[0]["damage"]
    assert len(rows) == BATCHES


def test_verify_tells_stale_indexes_and_repair_builds_them_again(data: Path) -> None:
    index = segments(data)[0].with_suffix(".laneindex")
    index.write_bytes(b"rubbish")
    result = run("verify", data)
    assert result.exit_code == 1
    assert f"stale:   logs/orders/0/{index.name}" in result.stdout
    assert run("repair", data).exit_code == 0
    assert run("verify", data).exit_code == 0


def test_repair_cuts_only_when_told_and_says_exactly_what_was_lost(data: Path) -> None:
    last = segments(data)[-1]
    content = last.read_bytes()
    last.write_bytes(content[:-1])
    untold = run("repair", data)
    assert untold.exit_code == 1
    assert last.read_bytes() == content[:-1]
    assert "orders-0: not changed, because its end is damaged" in untold.stdout
    assert "--cut-damaged-tail would lose" in untold.stdout
    told = run("repair", data, "--cut-damaged-tail")
    assert told.exit_code == 0
    assert f"lost: logs/orders/0/{last.name} from byte {last.stat().st_size} on: {FRAME_BYTES - 1} bytes" in told.stdout
    assert "offsets 297 to 299, 0 sound records and 3 damaged ones" in told.stdout
    assert run("verify", data).exit_code == 0


def test_repair_answers_programs_too(data: Path) -> None:
    rows = answer("repair", data)
    assert isinstance(rows, list)
    assert [(row["end_offset"], row["cut"], row["would_lose"], row["damage"]) for row in rows] == [
        (300, False, None, [])
    ] * 2


@pytest.mark.parametrize("command", ["inspect", "verify", "repair"])
def test_nothing_runs_beside_a_broker(data: Path, command: str) -> None:
    files = OsFiles(data)
    with files.lock(LOCK_FILE):
        result = run(command, data)
    files.close()
    assert result.exit_code == 1
    assert str(data) in result.stderr


@pytest.mark.parametrize("command", ["inspect", "verify", "repair"])
def test_what_is_no_data_directory_is_refused_and_not_touched(tmp_path: Path, command: str) -> None:
    result = run(command, tmp_path)
    assert result.exit_code == 2
    assert "not the data directory" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert run(command, tmp_path / "missing").exit_code == 2


def test_a_topic_or_partition_that_is_not_there_is_named(data: Path) -> None:
    assert "topic 'nope'" in run("verify", data, "--topic", "nope").stderr
    assert "partition 7 of topic 'orders'" in run("verify", data, "--topic", "orders", "--partition", 7).stderr
    assert run("verify", data, "--partition", 7).exit_code == 2


@pytest.mark.parametrize("command", ["inspect", "verify", "repair"])
def test_the_data_directory_may_be_named_as_the_server_names_it(data: Path, command: str) -> None:
    assert run(command, "--data-dir", data).stdout == run(command, data).stdout != ""
    assert run(command, data, "--data-dir", data).exit_code == 0
    for arguments in ([], [data, "--data-dir", data / "other"]):
        refused = run(command, *arguments)
        assert refused.exit_code == 2
        assert "name one data directory, as an argument or with --data-dir" in refused.output
