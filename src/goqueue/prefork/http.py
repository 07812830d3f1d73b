"""Requests to the broker from the thread that calls, over connections that are kept.

Celery forks its worker processes. A client with a thread and an event loop would be half copied by that, so this one
has neither: in the child the copied sockets are closed, and the first request opens new ones.
"""

from __future__ import annotations

import http.client
import os
import ssl
import threading
import weakref
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from goqueue.client.credentials import Credentials, from_environment

_TIMEOUT_S = 30.0


class BrokerError(Exception):
    """The broker answered, and the answer is no."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Http:
    """One broker's HTTP API. May be used by any thread, and on both sides of a fork.

    What `credentials` leave open is taken from the environment (GOQUEUE_API_KEY, GOQUEUE_CA and the others).
    """

    def __init__(self, host: str, port: int, credentials: Credentials | None = None, *, is_tls: bool = False) -> None:
        self._address = (host, port)
        known = (credentials or Credentials()).over(from_environment())
        self._headers = {"Content-Type": "application/json", **known.headers()}
        self._tls = _context(known) if is_tls else None
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        _all.add(self)

    def call(
        self, method: str, path: str, body: Any = None, *, params: dict[str, str] | None = None, wait_s: float = 0
    ) -> Any:
        """Send a request and read its answer; raises `BrokerError`, or what the socket raised."""
        target = f"{path}?{urlencode(params)}" if params else path
        data = None if body is None else msgspec.json.encode(body)
        connection, is_new = self._take()
        try:
            try:
                reply = self._exchange(connection, method, target, data, wait_s)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # The broker closes connections that were idle for long: nothing of the request was read.
                connection.close()
                if is_new:
                    raise
                connection = self._open()
                reply = self._exchange(connection, method, target, data, wait_s)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return self._read(*reply)

    def close(self) -> None:
        """Close all connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def forget(self) -> None:
        """In a forked child: the parent's connections are not ours. Closing a copy does not disturb the original."""
        self._lock = threading.Lock()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._idle:
                return self._idle.pop(), False
        return self._open(), True

    def _open(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(*self._address, timeout=_TIMEOUT_S, context=self._tls)
        return http.client.HTTPConnection(*self._address, timeout=_TIMEOUT_S)

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, target: str, data: bytes | None, wait_s: float
    ) -> tuple[int, bytes]:
        connection.timeout = _TIMEOUT_S + wait_s
        connection.request(method, target, body=data, headers=self._headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

    def _read(self, status: int, text: bytes) -> Any:
        answer = msgspec.json.decode(text) if text else {}
        if status >= 400:
            error = answer.get("error", {}) if isinstance(answer, dict) else {}
            raise BrokerError(status, error.get("code", "internal"), error.get("message", f"status {status}"))
        return answer


def _context(credentials: Credentials) -> ssl.SSLContext:
    made = credentials.tls()
    return made if isinstance(made, ssl.SSLContext) else ssl.create_default_context()


def quoted(name: str) -> str:
    """A name inside of a path."""
    return quote(name, safe="")


_all: weakref.WeakSet[Http] = weakref.WeakSet()


def _forget_all() -> None:
    for one in list(_all):
        one.forget()


os.register_at_fork(after_in_child=_forget_all)
