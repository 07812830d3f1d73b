"""Backups in an object store: a real S3 server process, objects of several parts, kills, and damage."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("moto", reason="needs moto[server]")
pytest.importorskip("s3fs", reason="needs s3fs")

from tests.s3_server import s3_environment, s3_server
from tests.unit.backup.test_files import frame, segment
from tests.unit.backup.test_work import RUN, contents, write

from goqueue.backup.addresses import open_files
from goqueue.backup.store import open_store
from goqueue.backup.work import backup, listed, restore, verify
from goqueue.errors import ConfigError, InvalidRequest

pytestmark = pytest.mark.timeout(180)
LOG = "logs/orders/0/00000000000000000000.log"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server("vault") as address:
        yield address


@pytest.fixture(autouse=True)
def environment(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_environment(s3).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a segment that is sent in more than one part."""
    root = tmp_path / "data"
    write(root / "metadata" / "00000000000000000000.log", segment(2))
    write(root / LOG, b"".join(frame(offset, os.urandom(10_000_000)) for offset in range(6)))
    return root


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_backups_are_taken_verified_and_restored(scheme: str, data: Path, tmp_path: Path) -> None:
    target = f"{scheme}://vault/{scheme}/backups"
    backup(RUN, data, target, ask_instant=lambda: None)
    with (data / LOG).open("ab") as log:
        log.write(frame(6))

    second = backup(RUN, data, target, ask_instant=lambda: None)

    assert second.facts["bytes_to_read"] == len(frame(6))
    assert len(listed(target)) == 2
    assert verify(RUN, target, None).problems == []
    restore(RUN, target, None, tmp_path / "restored")
    assert contents(tmp_path / "restored") == contents(data)


def test_a_backup_that_was_killed_is_not_listed_and_the_next_one_sends_only_the_rest(data: Path) -> None:
    target = "s3://vault/killed"
    script = (
        "import os, signal, sys; from pathlib import Path; from goqueue.backup.local import LocalTasks\n"
        "from goqueue.backup.work import backup\n"
        "backup(LocalTasks(threads=1), Path(sys.argv[1]), sys.argv[2], ask_instant=lambda: None,\n"
        "       at_step=lambda step: os.kill(os.getpid(), signal.SIGKILL))"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(data), target], check=False, timeout=120)
    assert killed.returncode == -9
    assert listed(target) == []
    files, root = open_files(target)
    sent = {name: one["LastModified"] for name, one in files.find(root, detail=True).items()}
    assert len(sent) == 2

    backup(RUN, data, target, ask_instant=lambda: None)

    files.invalidate_cache()
    now = {name: one["LastModified"] for name, one in files.find(root, detail=True).items()}
    assert {name: now[name] for name in sent} == sent
    assert len(listed(target)) == 1
    assert verify(RUN, target, None).problems == []


def test_an_object_that_was_damaged_in_the_store_is_told(data: Path) -> None:
    target = "s3://vault/damaged"
    backup(RUN, data, target, ask_instant=lambda: None)
    file = next(one for one in open_store(target).read().files if one.path == LOG)
    content = bytearray((data / LOG).read_bytes())
    content[5_000_000] ^= 1
    files, root = open_files(target)
    files.pipe_file(f"{root}/objects/{file.hash[:2]}/{file.hash}", bytes(content))

    (problem,) = verify(RUN, target, None).problems

    assert problem.startswith(f"{LOG}: the frame at byte 0 is damaged")


@pytest.mark.parametrize(
    ("target", "error", "told"),
    [
        ("s4://vault/x", InvalidRequest, "there is no scheme 's4'"),
        ("s3://", InvalidRequest, "names no bucket"),
        ("gs://vault/x", ConfigError, "gcsfs"),
        ("abfs://vault/x", ConfigError, "adlfs"),
    ],
)
def test_an_address_that_nothing_here_opens_is_refused_before_anything_runs(
    target: str, error: type[Exception], told: str, data: Path
) -> None:
    asked: list[bool] = []

    with pytest.raises(error, match=told):
        backup(RUN, data, target, ask_instant=lambda: asked.append(True))

    assert asked == []
