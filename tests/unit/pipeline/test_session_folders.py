"""Folders of Spark sessions: what dead processes left is removed, and what others use stays."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.spark.session import _own_folder

# No process has these numbers: they are above the highest that Linux gives.
IN_ANOTHER_CONTAINER, KILLED, OLD, JUST_BORN = "99999991", "99999992", "99999993", "99999994"


def test_folders_that_nobody_holds_are_removed_and_others_stay(tmp_path: Path) -> None:
    for name in (IN_ANOTHER_CONTAINER, KILLED, OLD, JUST_BORN):
        (tmp_path / name).mkdir()
    (tmp_path / KILLED / "held").touch()
    os.utime(tmp_path / OLD, (0, 0))
    with (tmp_path / IN_ANOTHER_CONTAINER / "held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        mine = _own_folder(tmp_path)

        assert {one.name for one in tmp_path.iterdir()} == {IN_ANOTHER_CONTAINER, JUST_BORN, mine.name}


def test_a_second_session_of_a_process_has_the_same_folder(tmp_path: Path) -> None:
    assert _own_folder(tmp_path) == _own_folder(tmp_path)
