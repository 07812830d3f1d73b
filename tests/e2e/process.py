"""A broker as a user runs it: a real process, on free ports, in a directory of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.companions import NODES, Companions

START_SECONDS_MAX = 20.0 * NODES
STOP_SECONDS_MAX = 15.0
_GOQUEUE = Path(sys.executable).parent / "goqueue"


class BrokerProcess:
    """`goqueue server` in a process. It keeps its ports and directory over `restart()`.

    With `GOQUEUE_TEST_NODES=3` it is one node of a cluster, whose others are its companions.
    """

    def __init__(
        self, home: Path, *, environment: Mapping[str, str] | None = None, companions: Companions | None = None
    ) -> None:
        self.data_dir = home / "data"
        self.log_file = home / "broker.log"
        self.ready_file = home / "ready.json"
        self.kafka = "127.0.0.1:0"
        self.http = "127.0.0.1:0"
        # Empty: without a gRPC listener.
        self.grpc = ""
        self.environment = dict(environment or {})
        # What the command is started by, such as `prlimit`.
        self.prefix: tuple[str, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)
        self._is_companion = companions is not None
        self._companions = companions or (Companions(self, home) if NODES > 1 else None)

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None, "the broker has not been started"
        return self._process.pid

    @property
    def is_cluster(self) -> bool:
        """Whether there are other nodes beside it."""
        return self._companions is not None

    @property
    def data_dirs(self) -> list[Path]:
        """Where its data lies, as a list: a cluster has several."""
        return [self.data_dir]

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """All that the broker has printed, over every start."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def start(self, *, seconds_max: float = START_SECONDS_MAX) -> BrokerProcess:
        """Start, and return once it serves."""
        deadline = time.monotonic() + seconds_max
        while True:
            self.spawn()
            if self.wait_ready(deadline):
                if self._companions is not None and not self._is_companion:
                    self._companions.wait_ready(deadline)
                return self
            # A port kept from before may for a moment belong to some client's socket.
            if "in use" in self.output and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            message = f"the broker ended with {self._process and self._process.returncode}:\n{self.output}"
            raise AssertionError(message)

    def stop(self) -> int:
        """Ask it to stop and wait; returns its exit code. Harmless when it is not running."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL: nothing in the process gets to run again."""
        return self._end(signal.SIGKILL)

    def restart(self) -> BrokerProcess:
        """Start again on the same ports and directory, after a stop if it still runs."""
        self.stop()
        return self.start()

    def signal(self, number: int) -> None:
        """Send any signal (SIGSTOP and SIGCONT freeze and thaw it)."""
        os.kill(self.pid, number)

    def wait(self, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """Wait until the process ends by itself; returns its exit code."""
        assert self._process is not None
        return self._process.wait(seconds_max)

    def spawn(self) -> None:
        """Start without waiting."""
        joined: dict[str, str] = {}
        if self._companions is not None:
            joined = self._companions.settings_of(self)
            if not self._is_companion:
                self._companions.begin()
        self.ready_file.unlink(missing_ok=True)
        command = [
            *self.prefix,
            str(_GOQUEUE),
            "server",
            f"--data-dir={self.data_dir}",
            f"--kafka={self.kafka}",
            f"--http={self.http}",
            *([f"--grpc={self.grpc}"] if self.grpc else []),
            f"--ready-file={self.ready_file}",
        ]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")}
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**inherited, **joined, **self.environment},
                start_new_session=True,
            )

    def wait_ready(self, deadline: float) -> bool:
        """Wait until it serves; false if it has ended."""
        while self.running:
            if self.ready_file.exists():
                ready = json.loads(self.ready_file.read_text())
                assert ready["pid"] == self.pid
                self.kafka, self.http, self.grpc = ready["kafka"], ready["http"], ready.get("grpc", "")
                return True
            if time.monotonic() > deadline:
                self.kill()
                message = f"the broker was not ready in time:\n{self.output}"
                raise AssertionError(message)
            time.sleep(0.01)
        return False

    def _end(self, number: int) -> int:
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            message = f"the broker did not stop within {STOP_SECONDS_MAX} s:\n{self.output}"
            raise AssertionError(message) from None
