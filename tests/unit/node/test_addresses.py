from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.cluster.founding import certificates, init
from goqueue.cli.cluster.replace import replace
from goqueue.errors import ConfigError
from goqueue.node.config.addresses import Address, check_hosts, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9092", "127.0.0.1", 9092),
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("0.0.0.0:8080", "0.0.0.0", 8080),
        ("localhost:9092", "localhost", 9092),
        ("broker-1.example.com:65535", "broker-1.example.com", 65535),
        ("[::1]:9092", "::1", 9092),
        ("[::]:9092", "::", 9092),
        ("[fe80::1]:1", "fe80::1", 1),
        (":8080", "0.0.0.0", 8080),
        ("my_host:80", "my_host", 80),
    ],
)
def test_an_address_is_read_as_written(text: str, host: str, port: int) -> None:
    """`0.0.0.0:8080` once became `:0.0.0.0:8080`."""
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9092",
        "localhost",
        "localhost:",
        "localhost:http",
        "localhost:-1",
        "localhost:65536",
        "localhost:+80",
        "localhost:8 0",
        "localhost:٨٠",
        "::1:9092",
        "[::1]",
        "[::1]9092",
        "[localhost]:9092",
        "[]:9092",
        "http://127.0.0.1:8080",
        "127.0.0.256:80",
        "127.0.0:80",
        "two words:80",
        " 127.0.0.1:80",
        "-dash:80",
        "a..b:80",
        "a/b:80",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_address(text)


@given(host=st.ip_addresses(), port=st.integers(0, 65535))
def test_every_address_survives_being_written_down(host: object, port: int) -> None:
    address = Address(str(host), port)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("host", "loopback", "everywhere"),
    [
        ("127.0.0.1", True, False),
        ("127.8.9.10", True, False),
        ("::1", True, False),
        ("localhost", True, False),
        ("app.localhost", True, False),
        ("0.0.0.0", False, True),
        ("::", False, True),
        ("10.0.0.1", False, False),
        ("localhost.example.com", False, False),
        ("broker", False, False),
    ],
)
def test_who_can_reach_an_address(host: str, loopback: bool, everywhere: bool) -> None:
    address = Address(host, 1)
    assert address.is_loopback is loopback
    assert address.is_everywhere is everywhere


def test_hosts_of_nodes_are_names_or_addresses_and_nothing_else() -> None:
    check_hosts(["broker1.example", "10.0.0.1", "fe80::1", "localhost"], "--host")
    for wrong in ("bad host", "b:9092", "http://b", "", "0.0.0.0", "::", "10.0.0", "[::1]"):
        with pytest.raises(ConfigError, match=r"--host .*: give a host name or an address, without scheme and port"):
            check_hosts(["good", wrong], "--host")


def test_a_wrong_host_is_refused_before_anything_is_written_or_removed(tmp_path: Path) -> None:
    """`cluster replace` once removed the etcd member first, and then ended with a traceback."""
    folder = tmp_path / "cluster"
    for command in (
        lambda: replace(2, str(folder / "node.toml"), host="bad host"),
        lambda: init(folder, host=["good", "bad host"]),
        lambda: certificates(folder, host=["bad host"]),
    ):
        with pytest.raises(ConfigError, match="--host 'bad host'"):
            command()
    assert not folder.exists()
