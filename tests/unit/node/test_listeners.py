"""Listeners as they are written, and what is wrong with those that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from goqueue.errors import ConfigError
from goqueue.node.config.addresses import Address
from goqueue.node.config.listeners import ListenerSpec, listeners_of
from goqueue.node.config.load_config import load


def listeners(tmp_path: Path, *named: str, **flags: str) -> list[ListenerSpec]:
    config = tmp_path / "broker.toml"
    config.write_text(f"[listeners]\nnamed = {list(named)!r}\n")
    return listeners_of(load(str(config), {}, {f"listeners.{name}": text for name, text in flags.items()}))


def problems(tmp_path: Path, *named: str, **flags: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        listeners(tmp_path, *named, **flags)
    return caught.value.problems


def test_without_settings_there_is_one_of_each_protocol_on_loopback(tmp_path: Path) -> None:
    kafka, http = listeners(tmp_path)
    assert (kafka.name, kafka.protocol, kafka.is_tls, kafka.address) == (
        "kafka",
        "kafka",
        False,
        Address("127.0.0.1", 9092),
    )
    assert (http.name, http.address) == ("http", Address("127.0.0.1", 8080))


def test_named_listeners_are_added_to_the_short_ones(tmp_path: Path) -> None:
    *_, inside = listeners(tmp_path, "inside=kafka://127.0.0.1:9094?advertised=broker.example:19094")
    assert inside.name == "inside"
    assert inside.advertised == Address("broker.example", 19094)
    assert not inside.is_tls


def test_several_listeners_stand_in_one_variable_separated_by_commas() -> None:
    variable = "a=kafka://127.0.0.1:9094, b=http://127.0.0.1:8081"
    assert [one.name for one in listeners_of(load(None, {"GOQUEUE_LISTENERS_NAMED": variable}, {}))] == [
        "kafka",
        "http",
        "a",
        "b",
    ]


def test_a_short_listener_is_switched_off_when_another_has_its_protocol(tmp_path: Path) -> None:
    assert [one.name for one in listeners(tmp_path, "only=kafka://127.0.0.1:0", kafka="")] == ["http", "only"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kafka://127.0.0.1:1", "write name=protocol://host:port"),
        ("a b=kafka://127.0.0.1:1", "'a b' is not a name"),
        ("a=smtp://127.0.0.1:1", "'smtp' is not a protocol"),
        ("a=kafka+ssl://127.0.0.1:1", "'kafka+ssl' is not a protocol"),
        ("a=kafka://127.0.0.1", "give host:port"),
        ("a=kafka://127.0.0.1:1?advertise=x:1", "unknown option 'advertise'"),
        ("a=kafka://127.0.0.1:1?client_certificates=required", "client certificates need TLS"),
        ("a=kafka+tls://127.0.0.1:1?client_certificates=maybe", "is not one of none, optional, required"),
        ("kafka=kafka://127.0.0.1:1", "there are two listeners named 'kafka'"),
        ("a=http://127.0.0.1:9092", "127.0.0.1:9092 is the address of the listener 'kafka' already"),
        ("a=kafka://10.0.0.1:1", "can be reached from other machines"),
        ("a=kafka://127.0.0.1:1?advertised=b:0", "a client cannot connect to port 0"),
    ],
)
def test_a_listener_that_cannot_be_is_named_with_its_reason(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = problems(tmp_path, text)
    assert "listeners.named" in found
    assert problem in found


def test_a_node_has_a_listener_of_each_protocol(tmp_path: Path) -> None:
    assert problems(tmp_path, kafka="") == ["--kafka: there is no listener for kafka: give an address"]


def test_tls_needs_its_files(tmp_path: Path) -> None:
    found = problems(tmp_path, "a=kafka+tls://127.0.0.1:1?client_certificates=optional")
    assert [line.split(":")[0] for line in found] == ["tls.certificate", "tls.key", "tls.client_ca"]


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    assert len(problems(tmp_path, "a", "b=smtp://x:1", http="nonsense")) == 3
