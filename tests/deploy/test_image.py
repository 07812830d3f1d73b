"""The image: really built by buildah, on a base that debootstrap makes, and its root file system really run.

No registry and no container engine is needed (`make test-image`, as root). The file system is started by chroot in a
mount namespace of its own, read-only but for the volume and /tmp, with the image's user, entry point and variables.
What this does not run: the engine's own handling of HEALTHCHECK and STOPSIGNAL, dropped capabilities, and arm64.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.tools import DEPLOY, ROOT, need

pytestmark = pytest.mark.slow

SUITE = "trixie"
MIRROR = "http://deb.debian.org/debian"
SECONDS_MAX = 60
# Started inside of the namespace: root read-only, the volume and /tmp writable, then the image's user.
ENTER = """
set -eu
mount --bind "$ROOT" "$ROOT"
mount --bind "$VOLUME" "$ROOT/var/lib/goqueue"
mount -t tmpfs tmpfs "$ROOT/tmp"
mount -t proc proc "$ROOT/proc"
mount --bind /dev "$ROOT/dev"
mount -o remount,bind,ro "$ROOT"
exec chroot --userspec=10001:10001 "$ROOT" env -i "$@"
"""


class Image:
    """The built image: its configuration and its root file system."""

    def __init__(self, config: dict[str, Any], root: Path) -> None:
        self.config, self.root = config, root

    def command(self, *program: str, **extra: str) -> list[str]:
        """Run a program in the image with its variables."""
        variables = [*self.config["Env"], *(f"{name}={text}" for name, text in extra.items())]
        return ["unshare", "--mount", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", *variables, *program]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if os.getuid() != 0:
        pytest.skip("debootstrap and chroot need root")
    home = tmp_path_factory.mktemp("image")
    store = [need("buildah"), "--storage-driver=vfs", f"--root={home}/store", f"--runroot={home}/run"]

    def buildah(*arguments: str) -> str:
        done = subprocess.run([*store, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, f"buildah {arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout.strip()

    # A file system that was made before saves the minutes of making it.
    base = Path(os.environ.get("IMAGE_BASE_DIR") or home / "base")
    if not (base / "usr" / "bin" / "python3").exists():
        packages = "python3,python3-venv,ca-certificates"
        command = [need("debootstrap"), "--variant=minbase", f"--include={packages}", SUITE, str(base), MIRROR]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    scratch = buildah("from", "scratch")
    buildah("add", "--quiet", scratch, str(base), "/")
    buildah("commit", "--quiet", scratch, "base")
    # Certificates and settings of pip as on this machine, which may reach an index in its own way.
    mounts = ["--volume=/etc/ssl/certs:/etc/ssl/certs:ro"]
    mounts += ["--volume=/etc/pip.conf:/etc/pip.conf:ro"] if Path("/etc/pip.conf").exists() else []
    facts = ["--build-arg=BASE=localhost/base", "--build-arg=VERSION=1.4.0", "--build-arg=COMMIT=c0ffee00c0ffee"]
    chroot = ["--isolation=chroot", "--format=docker", "--pull=false", "--network=host"]
    buildah("bud", *chroot, *mounts, *facts, f"--file={DEPLOY}/docker/Dockerfile", "--tag=goqueue", str(ROOT))
    container = buildah("from", "--pull=false", "localhost/goqueue")
    config = json.loads(buildah("inspect", "--type=image", "localhost/goqueue"))["Docker"]["config"]
    try:
        yield Image(config, Path(buildah("mount", container)))
    finally:
        buildah("umount", container)
        buildah("rm", "--all")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """As an engine makes one: owned as the image's folder is."""
    folder = tmp_path / "volume"
    folder.mkdir(mode=0o750)
    os.chown(folder, 10001, 10001)
    return folder


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


class Started:
    """A broker of the image."""

    def __init__(self, image: Image, volume: Path) -> None:
        self.image, self.environment = image, {**os.environ, "ROOT": str(image.root), "VOLUME": str(volume)}
        self.kafka, self.http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        entry = [*image.config["Entrypoint"], *image.config["Cmd"]]
        listeners = {"GOQUEUE_LISTENERS_KAFKA": self.kafka, "GOQUEUE_LISTENERS_HTTP": self.http}
        self.process = subprocess.Popen(image.command(*entry, **listeners), env=self.environment)
        deadline = time.monotonic() + SECONDS_MAX
        while self.health() != 0:
            assert self.process.poll() is None, "the broker ended"
            assert time.monotonic() < deadline, "the broker was not healthy in time"
            time.sleep(0.2)

    def health(self) -> int:
        """The image's own health check, on the port that this test gave the broker."""
        kind, *check = self.image.config["Healthcheck"]["Test"]
        assert kind == "CMD"
        check = [part.replace("127.0.0.1:8080", self.http) for part in check]
        return subprocess.run(
            self.image.command(*check), env=self.environment, capture_output=True, check=False
        ).returncode

    def stop(self) -> int:
        """The signal that the image names, to the broker itself: `unshare` waits for it."""
        number = signal.Signals[self.image.config["StopSignal"]]
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(children[0]), number)
        return self.process.wait(SECONDS_MAX)


async def published_and_read(kafka: str, value: bytes) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=kafka, acks="all") as producer:
        await producer.send_and_wait("greetings", value, partition=0)
    async with AIOKafkaConsumer(bootstrap_servers=kafka, auto_offset_reset="earliest") as consumer:
        from aiokafka import TopicPartition

        place = TopicPartition("greetings", 0)
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        return [(await asyncio.wait_for(consumer.getone(), SECONDS_MAX)).value for _ in range(end)]


def test_the_image_starts_is_healthy_serves_a_kafka_client_stops_and_keeps_its_data(image: Image, volume: Path) -> None:
    broker = Started(image, volume)
    assert asyncio.run(published_and_read(broker.kafka, b"before")) == [b"before"]
    assert broker.stop() == 0

    broker = Started(image, volume)
    assert asyncio.run(published_and_read(broker.kafka, b"after")) == [b"before", b"after"]
    assert broker.stop() == 0


def test_the_health_check_fails_without_a_broker(image: Image, volume: Path) -> None:
    environment = {**os.environ, "ROOT": str(image.root), "VOLUME": str(volume)}
    check = ["goqueue-cli", "health", "--server", f"http://127.0.0.1:{free_port()}"]

    done = subprocess.run(image.command(*check), env=environment, capture_output=True, check=False)

    assert done.returncode != 0


def test_the_image_says_what_it_was_built_from(image: Image, volume: Path) -> None:
    environment = {**os.environ, "ROOT": str(image.root), "VOLUME": str(volume)}

    shown = subprocess.run(
        image.command("goqueue", "version"), env=environment, capture_output=True, text=True, check=True
    ).stdout

    assert shown.startswith("goqueue 1.4.0 (Python 3.")
    assert "commit c0ffee00" in shown
    assert image.config["Labels"]["org.opencontainers.image.version"] == "1.4.0"


def test_the_image_holds_no_tools_of_the_build_and_runs_as_nobody_in_particular(image: Image) -> None:
    assert image.config["User"] == "10001:10001"
    assert not (image.root / "opt" / "build").exists()
    assert not (image.root / "opt" / "goqueue" / "bin" / "pip").exists()
    assert not (image.root / "source").exists()
