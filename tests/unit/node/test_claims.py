"""Addresses and the directory: ours before anything is opened, or everything said at once."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from goqueue.config import BrokerConfig, Config, ListenersConfig
from goqueue.errors import ConfigError, DataDirectoryInUse
from goqueue.node.config.addresses import Address
from goqueue.node.listeners.claims import LOCK_FILE, claim_directory, claim_listeners
from goqueue.node.listeners.listening import CannotListen, bind, bound_address


def config(kafka: str, http: str, data_dir: str = "data") -> Config:
    return Config(broker=BrokerConfig(data_dir=data_dir), listeners=ListenersConfig(kafka=kafka, http=http))


def test_port_0_takes_a_free_port_that_is_known_at_once() -> None:
    with ExitStack() as stack:
        kafka, http = claim_listeners(config("127.0.0.1:0", "127.0.0.1:0"), stack)
        assert kafka.address.host == "127.0.0.1"
        assert 0 < kafka.address.port != http.address.port > 0


def test_nothing_is_accepted_before_a_server_listens() -> None:
    with bind(Address("127.0.0.1", 0)) as bound, pytest.raises(ConnectionRefusedError):
        socket.create_connection(bound.getsockname(), timeout=5)


def test_ipv6_is_bound_where_the_machine_has_it() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        bound = bind(Address("::1", 0))
    except CannotListen:
        pytest.skip("no IPv6 loopback here")
    with bound:
        assert str(bound_address(Address("::1", 0), bound)).startswith("[::1]:")


def test_localhost_is_one_address_and_one_port() -> None:
    with bind(Address("localhost", 0)) as bound:
        assert bound.family == socket.AF_INET


def test_every_address_in_the_way_is_named(tmp_path: Path) -> None:
    """A listener that failed was only logged."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        taken = [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, two)]
        with pytest.raises(ConfigError) as caught, ExitStack() as stack:
            claim_listeners(config(taken[0], taken[1], str(tmp_path / "data")), stack)
    assert caught.value.problems == [f"cannot listen on {each}: the address is in use" for each in taken]
    assert list(tmp_path.iterdir()) == []


def test_addresses_and_directory_are_reported_together(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, ExitStack() as holder:
        claim_directory(str(tmp_path), holder)
        with pytest.raises(ConfigError) as caught, ExitStack() as stack:
            claim_listeners(config(f"127.0.0.1:{taken.getsockname()[1]}", "127.0.0.1:0", str(tmp_path)), stack)
    assert len(caught.value.problems) == 2
    assert "is in use by another process" in caught.value.problems[1]


def test_a_refused_claim_lets_go_of_the_other_address() -> None:
    with bind(Address("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError), ExitStack() as stack:
        claim_listeners(config(f"127.0.0.1:{port}", f"127.0.0.1:{taken.getsockname()[1]}"), stack)
    bind(Address("127.0.0.1", port)).close()


def test_a_host_that_does_not_exist_is_a_clear_refusal() -> None:
    with pytest.raises(CannotListen, match=r"cannot listen on no-such-host.invalid:80: .+"):
        bind(Address("no-such-host.invalid", 80))


def test_an_address_of_another_machine_is_a_clear_refusal() -> None:
    with pytest.raises(CannotListen, match=r"cannot listen on 192\.0\.2\.1:80"):
        bind(Address("192.0.2.1", 80))


def test_the_directory_is_made_and_held(tmp_path: Path) -> None:
    with ExitStack() as stack:
        files = claim_directory(str(tmp_path / "a/b"), stack)
        assert files.exists(LOCK_FILE)
        with pytest.raises(DataDirectoryInUse), ExitStack() as other:
            claim_directory(str(tmp_path / "a/b"), other)
    with ExitStack() as stack:
        claim_directory(str(tmp_path / "a/b"), stack)


def test_a_directory_that_cannot_be_made_is_a_clear_refusal() -> None:
    with pytest.raises(ConfigError, match="data directory /proc/goqueue"), ExitStack() as stack:
        claim_directory("/proc/goqueue", stack)


def test_a_directory_that_holds_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    for name in ("c", "b", "a", "d"):
        (tmp_path / name).mkdir()
    with pytest.raises(ConfigError) as caught, ExitStack() as stack:
        claim_directory(str(tmp_path), stack)
    assert caught.value.problems == [
        (
            f"data directory {tmp_path}: not empty, and not the data directory of a broker (it holds a, b, c, "
            "...): set broker.data_dir (--data-dir) to an empty or a new directory"
        )
    ]
    assert not (tmp_path / LOCK_FILE).exists()


@pytest.mark.parametrize("names", [(), ("lost+found",), ("metadata", "notes.txt"), (LOCK_FILE,)])
def test_an_empty_directory_and_one_of_a_broker_are_taken(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).touch() if name == LOCK_FILE else (tmp_path / name).mkdir()
    with ExitStack() as stack:
        assert claim_directory(str(tmp_path), stack).exists(LOCK_FILE)
