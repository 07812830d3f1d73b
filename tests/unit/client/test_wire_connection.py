"""One connection: answers of any size come whole, and a broker that falls silent is told of in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest

from goqueue.client.wire.connection import WireConnection
from goqueue.client.wire.errors import AnswerLost

API_VERSIONS = 18


def serve(answer: Callable[[socket.socket], None]) -> tuple[str, int]:
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listener, listener.accept()[0] as peer:
            answer(peer)

    threading.Thread(target=run, daemon=True).start()
    return listener.getsockname()[:2]


def connect(address: tuple[str, int], timeout_s: float) -> WireConnection:
    return WireConnection(*address, client_id="test", timeout_s=timeout_s)


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", b"\x00\x00\x01\x00half"])
def test_a_broker_that_falls_silent_is_given_up_after_the_timeout(sent):
    gone = threading.Event()

    def fall_silent(peer: socket.socket) -> None:
        peer.recv(1000)
        peer.sendall(sent)
        gone.wait(10)

    connection = connect(serve(fall_silent), timeout_s=0.25)
    began = time.monotonic()
    with pytest.raises(AnswerLost, match=r"timed out after 0\.25 s"):
        connection.call(API_VERSIONS, 0, {})
    gone.set()
    assert 0.2 < time.monotonic() - began < 5
    assert not connection.is_open


def test_an_answer_that_comes_in_many_pieces_is_whole():
    def answer_slowly(peer: socket.socket) -> None:
        asked = peer.recv(1000)
        keys = b"".join(number.to_bytes(2, "big") + b"\x00\x00\x00\x01" for number in range(500))
        body = asked[8:12] + b"\x00\x00" + (500).to_bytes(4, "big") + keys
        whole = len(body).to_bytes(4, "big") + body
        for start in range(0, len(whole), 700):
            peer.sendall(whole[start : start + 700])

    connection = connect(serve(answer_slowly), timeout_s=5)
    answer = connection.call(API_VERSIONS, 0, {})
    connection.close()
    assert [one.api_key for one in answer.api_keys] == list(range(500))


def test_a_broker_that_hangs_up_in_the_middle_is_told():
    def hang_up(peer: socket.socket) -> None:
        peer.recv(1000)
        peer.sendall(b"\x00\x00\x01\x00half")

    with pytest.raises(AnswerLost, match="closed the connection"):
        connect(serve(hang_up), timeout_s=5).call(API_VERSIONS, 0, {})


def test_closing_wakes_a_thread_that_waits_for_an_answer():
    asked, gone = threading.Event(), threading.Event()

    def say_nothing(peer: socket.socket) -> None:
        peer.recv(1000)
        asked.set()
        gone.wait(10)

    connection = connect(serve(say_nothing), timeout_s=30)
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            connection.call(API_VERSIONS, 0, {})
        except AnswerLost as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert asked.wait(5)
    connection.close()
    thread.join(5)
    gone.set()
    assert not thread.is_alive()
    assert len(errors) == 1
