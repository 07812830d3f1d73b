"""Apache Kafka's own client: a producer with its defaults (idempotent, acks=all), and a group that commits."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from pathlib import Path
from shutil import which

from tests.e2e.cluster.loads.numbered import PARTITIONS, NumberedMessages

# Where `make peers-install` puts them.
JARS = Path.home() / ".cache/goqueue-peers/kafka"
PROGRAM = Path(__file__).parents[2] / "java/UnderFaults.java"
_END_SECONDS_MAX = 300


def has_java() -> bool:
    """Whether a JDK and Kafka's jars are here."""
    return which("javac") is not None and bool(list(JARS.glob("kafka-clients-*.jar")))


class JavaLoad(NumberedMessages):
    """A process of its own. It ends when its input is closed, and tells then what it knows."""

    def __init__(self, servers: str, topic: str, log: Path) -> None:
        super().__init__(servers, topic)
        self._log = log
        self.seen: dict[int, set[int]] = defaultdict(set)
        self.met = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begin."""
        command = ["java", "-Xmx256m", "-cp", f"{JARS}/*", str(PROGRAM), self._servers, self._topic, str(PARTITIONS)]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def stop(self) -> None:
        """Send no more; all that was acknowledged is read by the group before it ends."""
        assert self._process is not None
        try:
            output, _ = self._process.communicate(timeout=_END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the Java client does not end: {self._log.read_text()[-2000:]}") from None
        assert self._process.returncode == 0, self._log.read_text()[-2000:]
        for line in output.splitlines():
            self._take(*line.split(" ", 2))

    def kill(self) -> None:
        """End it whatever it does."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def check(self) -> None:
        """What the topic has, and what the group saw."""
        assert self.acknowledged_count > 0
        super().check()
        self.check_seen(self.seen, "java-readers")

    def figures(self) -> str:
        """For the report."""
        return f"Java: {self.acknowledged_count} acknowledged, met {self.met or 'nothing'}"

    def _take(self, what: str, place: str, rest: str) -> None:
        if what == "sent":
            self.sent[int(place)] = int(rest)
        elif what == "failed":
            self.failed.append(rest)
        elif what == "met":
            self.met = rest
        else:
            assert what in {"acknowledged", "seen"}, what
            numbers = (self.acknowledged if what == "acknowledged" else self.seen)[int(place)]
            for run in rest.split(","):
                first, _, last = run.partition("-")
                numbers.update(range(int(first), int(last or first) + 1))
