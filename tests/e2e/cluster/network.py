"""A network namespace for each node, joined by a bridge: links go down, or lose everything in one direction.

Names and addresses carry the id of this process, so that two runs on one machine do not meet.
"""

from __future__ import annotations

import os
import shutil
import subprocess

NUMBERS = (1, 2, 3)


class Network:
    """Three namespaces. Root only."""

    def __init__(self) -> None:
        self._id = f"{os.getpid() % 46_656:x}"
        self._subnet = f"10.{100 + os.getpid() // 256 % 100}.{os.getpid() % 256}"
        self._bridge = f"gqb{self._id}"

    def namespace(self, number: int) -> str:
        """Of that node."""
        return f"gq{self._id}n{number}"

    def host(self, number: int) -> str:
        """Its address."""
        return f"{self._subnet}.{number}"

    def make(self) -> None:
        """Make namespaces, links and bridge."""
        self.remove()
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("address", "add", f"{self._subnet}.254/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for number in NUMBERS:
            name, outside, inside = self.namespace(number), self._outside(number), self._inside(number)
            _ip("netns", "add", name)
            _ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name)
            _ip("link", "set", outside, "master", self._bridge, "up")
            _ip("-n", name, "address", "add", f"{self.host(number)}/24", "dev", inside)
            _ip("-n", name, "link", "set", inside, "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def remove(self) -> None:
        """Remove all of it, as far as it is there."""
        for number in NUMBERS:
            subprocess.run(["ip", "netns", "delete", self.namespace(number)], capture_output=True, check=False)
            subprocess.run(["ip", "link", "delete", self._outside(number)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", self._bridge], capture_output=True, check=False)

    def isolate(self, number: int) -> None:
        """Nobody reaches the node, and it reaches nobody."""
        _ip("link", "set", self._outside(number), "down")

    def deafen(self, number: int) -> None:
        """What is sent to the node is lost; what it sends arrives."""
        _drop_all([], self._outside(number))

    def mute(self, number: int) -> None:
        """What the node sends is lost; what is sent to it arrives."""
        _drop_all(["ip", "netns", "exec", self.namespace(number)], self._inside(number))

    def mend(self, number: int) -> None:
        """All its packets arrive again."""
        _ip("link", "set", self._outside(number), "up")
        enter = ["ip", "netns", "exec", self.namespace(number)]
        for prefix, device in (([], self._outside(number)), (enter, self._inside(number))):
            subprocess.run([*prefix, "tc", "qdisc", "del", "dev", device, "root"], capture_output=True, check=False)

    def _outside(self, number: int) -> str:
        return f"gqv{self._id}n{number}"

    def _inside(self, number: int) -> str:
        return f"gqw{self._id}n{number}"


def can_have_namespaces() -> bool:
    """Whether this process may make network namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("tc") is None:
        return False
    made = subprocess.run(["ip", "netns", "add", "gqprobe"], capture_output=True, check=False).returncode == 0
    if made:
        _ip("netns", "delete", "gqprobe")
    return made


def _drop_all(enter: list[str], device: str) -> None:
    # A token bucket that holds less than any packet drops all of them; every kernel has it, unlike netem.
    bucket = ["tbf", "rate", "1kbit", "burst", "1", "latency", "1ms"]
    subprocess.run([*enter, "tc", "qdisc", "add", "dev", device, "root", *bucket], check=True, capture_output=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
