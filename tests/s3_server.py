"""A server of S3 in a process of its own: moto's, which speaks the protocol and keeps objects in memory."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def s3_server(*buckets: str) -> Iterator[str]:
    """The address of a server with these buckets, all empty."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as output:
        # A session of its own: what ends a test's process group does not end the server that other tests share.
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "MOTO_S3_CUSTOM_ENDPOINTS": address},
            start_new_session=True,
        )
        try:
            for bucket in buckets:
                _make(bucket, address, server)
            yield address
        finally:
            ended_early = server.poll()
            server.terminate()
            server.wait(30)
            _forget_clients()
            output.seek(0)
            last_lines = output.read()[-2000:].decode(errors="replace")
            assert ended_early is None, f"moto ended with {ended_early} while tests used it:\n{last_lines}"


def s3_environment(address: str) -> dict[str, str]:
    """What clients of the server read."""
    keys = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}
    regions = {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
    return {**keys, **regions, "AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true"}


def _forget_clients() -> None:
    """Let the next server of this process be found: s3fs keeps clients by their arguments, not by the environment."""
    s3fs = sys.modules.get("s3fs")
    if s3fs is not None:
        s3fs.S3FileSystem.clear_instance_cache()


def _make(bucket: str, address: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            request = urllib.request.Request(f"{address}/{bucket}", method="PUT")
            urllib.request.urlopen(request, timeout=5).close()
        except OSError:
            assert server.poll() is None, "moto did not start"
            assert time.monotonic() < deadline, "moto does not answer"
            time.sleep(0.2)
        else:
            return
