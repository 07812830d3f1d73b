"""The daemon of Python workers: a worker whose socket Spark has closed ends without a word."""

from __future__ import annotations

import socket

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.spark import daemon


def unix() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair()


def tcp() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        worker = socket.create_connection(listening.getsockname())
        spark, _ = listening.accept()
    return worker, spark


def send_much(sock: socket.socket, _authenticated: bool) -> int:
    for _ in range(1000):
        sock.sendall(b"rows" * 10_000)
    return 0


@pytest.mark.parametrize("connected", [unix, tcp])
def test_a_worker_whose_rows_nobody_reads_any_more_ends(connected, monkeypatch):
    worker, spark = connected()
    monkeypatch.setattr(daemon, "_work", send_much)
    with worker:
        worker.sendall(b"a row that Spark has not read")
        spark.close()

        assert daemon.work(worker, True) == 1


def test_what_goes_wrong_in_a_worker_is_not_hidden(monkeypatch):
    def fail(_sock: socket.socket, _authenticated: bool) -> int:
        raise FileNotFoundError("no such module")

    monkeypatch.setattr(daemon, "_work", fail)
    worker, spark = unix()
    with worker, spark, pytest.raises(FileNotFoundError):
        daemon.work(worker, True)
