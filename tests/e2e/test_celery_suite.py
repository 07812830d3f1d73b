"""Celery's own integration tests, run on GoQueue with a Redis as result backend.

Unpack Celery's source package (`celery-5.*.tar.gz`, which the wheel does not contain) and name the folder in
`CELERY_SOURCE`. It needs pytest-rerunfailures, freezegun and python-dateutil beside the packages of the project.
Without the source, or without `redis-server`, the test is skipped. Files that are not listed test other brokers or
backends.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(os.environ.get("CELERY_SOURCE", "missing"))

# Test -> why it does not apply.
LEFT_OUT = {
    "test_inspect.py::test_Inspect::test_scheduled": "expects an ETA task in the worker's memory; the broker holds it",
    "test_canvas.py::test_chain::test_chord_header_id_duplicated_on_rabbitmq_msg_duplication": "publishes what is not "
    "JSON, which only AMQP drops; the suite expects a failure with Redis too",
    "test_worker.py::test_concurrency_auto_sizes_prefork_pool": "starts `celery -b` without importing goqueue.celery",
    "test_worker.py::test_django_fixup_direct_worker": "needs Django",
    "test_worker.py::test_django_fixup_installs_django_task_for_celery_subclass": "needs Django",
    "test_tasks.py::test_trace_log_arguments": "fails in the same way with Redis as the broker",
}
FILES = [
    "test_beat.py",
    "test_canvas.py",
    "test_group_chains.py",
    "test_inspect.py",
    "test_loader.py",
    "test_redis_backend.py",
    "test_request_backend_down.py",
    "test_serialization.py",
    "test_tasks.py",
    "test_upgrade.py",
    "test_worker.py",
]


@pytest.fixture
def redis(tmp_path):
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            assert time.monotonic() < deadline, "redis did not start"
            time.sleep(0.05)
    yield port
    process.terminate()
    process.wait()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not (SOURCE / "t" / "integration").is_dir(), reason="CELERY_SOURCE names no source of Celery")
@pytest.mark.parametrize("file", FILES)
def test_celerys_integration_tests_pass(broker, redis, file):
    left_out = [f"--deselect=t/integration/{name}" for name in LEFT_OUT]
    # One test confirms seven times, for 20 seconds each, that something does not happen.
    settings = ["-c", os.devnull, "--rootdir=.", "-o", "python_classes=test_* Test*", "-W", "ignore", "--timeout=300"]
    plugins = ["-pgoqueue.celery", "-pcelery.contrib.pytest", "-pno:schemathesis", "-pno:cacheprovider", "-pno:xdist"]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *settings, *left_out, "-q", f"t/integration/{file}"],
        cwd=SOURCE,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TEST_BROKER": f"goqueue://{broker.http}",
            "TEST_BACKEND": f"redis://127.0.0.1:{redis}/0",
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(redis),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout[-20_000:]
