"""Backups in Azure's blob store, as Azurite serves it: `npm install azurite`, on PATH or named by GOQUEUE_AZURITE."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("adlfs", reason="needs adlfs")

from tests.unit.backup.test_files import frame, segment
from tests.unit.backup.test_work import RUN, contents, write

from goqueue.backup.addresses import open_files
from goqueue.backup.work import backup, listed, restore, verify

# aiohttp tells adlfs that it sends large bodies as bytes.
pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")]
LOG = "logs/orders/0/00000000000000000000.log"
# The account that Azurite has when nobody names another; its key is printed in its manual.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The connection string of a server of its own."""
    program = os.environ.get("GOQUEUE_AZURITE") or shutil.which("azurite-blob")
    if program is None:
        pytest.skip("needs Azurite: npm install azurite")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent", "--skipApiVersionCheck"]
    server = subprocess.Popen(
        [program, *words, "--location", str(tmp_path_factory.mktemp("azurite"))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert server.poll() is None, "Azurite did not start"
                assert time.monotonic() < deadline, "Azurite does not answer"
                time.sleep(0.1)
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        yield f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.parametrize("scheme", ["abfs", "az"])
def test_backups_are_taken_verified_and_restored(
    scheme: str, azure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azure)
    data = tmp_path / "data"
    write(data / "metadata" / "00000000000000000000.log", segment(2))
    write(data / LOG, b"".join(frame(offset, os.urandom(5_000_000)) for offset in range(3)))
    target = f"{scheme}://{scheme}-vault/backups"
    files, _ = open_files(target)
    files.mkdir(f"{scheme}-vault")

    backup(RUN, data, target, ask_instant=lambda: None)
    with (data / LOG).open("ab") as log:
        log.write(frame(3))
    second = backup(RUN, data, target, ask_instant=lambda: None)

    assert second.facts["bytes_to_read"] == len(frame(3))
    assert len(listed(target)) == 2
    assert verify(RUN, target, None).problems == []
    restore(RUN, target, None, tmp_path / "restored")
    assert contents(tmp_path / "restored") == contents(data)
