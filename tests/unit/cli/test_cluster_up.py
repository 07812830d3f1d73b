"""`goqueue cluster up` on the folder of a cluster that is there already starts that one, or says why it does not."""

from __future__ import annotations

import io
import socket
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest
from rich.console import Console
from tests.etcd_server import free_ports

from goqueue.cli.cluster.table import table_of
from goqueue.cli.cluster.up import settings_in, up
from goqueue.errors import ConfigError
from goqueue.metadata.events import Node, NodeChanged
from goqueue.metadata.image import Image
from goqueue.node.cluster.founding import Manner, Ports, found, planned


@pytest.mark.parametrize("secure", [False, True])
def test_another_number_of_nodes_is_refused(tmp_path: Path, *, secure: bool) -> None:
    written = found(tmp_path / "c", planned(["127.0.0.1"] * 3, Ports()), Manner(3, secure=secure))
    assert settings_in(tmp_path / "c") == written
    with pytest.raises(ConfigError, match=r"--nodes 5: the cluster in .* has 3 nodes"):
        up(data_dir=tmp_path / "c", nodes=5)


def test_ports_of_others_are_told_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the command with other ports would start the folder with those of the first try."""
    monkeypatch.setattr("goqueue.node.cluster.voter.check_program", lambda: "etcd")
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(2)]
        with pytest.raises(ConfigError) as refused:
            up(data_dir=tmp_path / "c", nodes=1, kafka_port=taken[0], http_port=taken[1], etcd_port=free_ports(1)[0])
    assert [problem.partition(":")[0] for problem in refused.value.problems][:2] == ["--kafka-port", "--http-port"]
    assert not (tmp_path / "c").exists()


def test_tls_is_not_promised_where_there_is_none(tmp_path: Path) -> None:
    found(tmp_path / "c", planned(["127.0.0.1"] * 3, Ports()), Manner(3))
    with pytest.raises(ConfigError, match="was founded without TLS") as refused:
        up(data_dir=tmp_path / "c", nodes=1, secure=True)
    assert len(refused.value.problems) == 2, "all at once"


def test_a_cluster_that_runs_already_is_not_started_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one's ready files were there, so the command said that the cluster is ready before its nodes failed."""
    monkeypatch.setattr("goqueue.node.cluster.operations.checking.check_program", lambda: "etcd")
    with ExitStack() as stack:
        taken = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
        ports = Ports(taken, *free_ports(3))
        found(tmp_path / "one", planned(["127.0.0.1"], ports), Manner(1))
        with pytest.raises(ConfigError, match=r"the cluster in .*one runs already"):
            up(data_dir=tmp_path / "one")
        found(tmp_path / "two", planned(["127.0.0.1", "127.0.0.2"], ports), Manner(1))
        with pytest.raises(ConfigError, match=rf"node1.toml: listeners.kafka cannot listen on 127.0.0.1:{taken}"):
            up(data_dir=tmp_path / "two")


def test_ports_that_two_listeners_would_share_are_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder was left behind, and refused every later start with other ports."""
    monkeypatch.setattr("goqueue.node.cluster.voter.check_program", lambda: "etcd")
    with pytest.raises(
        ConfigError, match=r"--http-port of node 1 is 127.0.0.1:9092, which --kafka-port of node 1 is too"
    ):
        up(data_dir=tmp_path / "c", nodes=1, kafka_port=9092, http_port=9092, etcd_port=free_ports(1)[0])
    with pytest.raises(
        ConfigError, match=r"--kafka-port of node 2 is 127.0.0.1:9093, which --http-port of node 1 is too"
    ):
        found(tmp_path / "c", planned(["127.0.0.1"] * 2, Ports(9092, 9093)), Manner(1))
    assert not (tmp_path / "c").exists()


def test_the_live_table_shows_whole_addresses_on_a_terminal_of_80_columns() -> None:
    image = Image()
    for number in (1, 2, 3):
        addresses = {"kafka": f"127.0.0.1:3909{number}", "http": f"127.0.0.1:3808{number}"}
        image.apply(NodeChanged(number, Node(number, UUID(int=number), addresses=addresses)), number)
    console = Console(width=80, file=(shown := io.StringIO()))
    console.print(table_of(image, 3, {}))
    for number in (1, 2, 3):
        assert f"127.0.0.1:3909{number}  127.0.0.1:3808{number}" in shown.getvalue()
