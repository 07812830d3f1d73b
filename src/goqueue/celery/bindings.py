"""Bindings of queues to exchanges, kept in a compacted topic of the broker so that every process sees them.

A queue that expires is bound again every now and then by the process that reads it. A binding that was not renewed in
time is that of a process that died: it no longer counts.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from goqueue.prefork.http import BrokerError, Http, quoted

TOPIC = "kombu.bindings"
_READ_MAX = 1000
# A renewal may be late by this factor before its queue counts as gone.
EXPIRY_FACTOR = 3

Binding = tuple[str, str, str]


class Bindings:
    """The broker's bindings as far as we have read them."""

    def __init__(self, http_: Http) -> None:
        self._http = http_
        self._next = 0
        # By exchange: binding -> when it ends, in milliseconds since 1970; None: never.
        self._tables: dict[str, dict[Binding, int | None]] = {}

    def table(self, exchange: str) -> list[Binding]:
        """Routing key, pattern and queue of every binding of an exchange, as the broker has them now."""
        self._read_on()
        now_ms = int(time.time() * 1000)
        found = self._tables.get(exchange, {})
        return [one for one, ends_ms in found.items() if ends_ms is None or ends_ms > now_ms]

    def add(self, exchange: str, binding: Binding, expires_ms: int | None) -> None:
        """Bind, or renew a binding that expires."""
        if expires_ms is None and binding in self.table(exchange):
            return
        self._write(exchange, binding, msgspec.json.encode({"expires_ms": expires_ms}).decode())

    def remove(self, exchange: str, binding: Binding) -> None:
        """Unbind."""
        self._write(exchange, binding, None)

    def of_queue(self, queue: str) -> list[tuple[str, Binding]]:
        """Every binding of a queue."""
        self._read_on()
        return [(exchange, one) for exchange, table in self._tables.items() for one in table if one[2] == queue]

    def _write(self, exchange: str, binding: Binding, value: str | None) -> None:
        key = msgspec.json.encode([exchange, *binding]).decode()
        body = {"key": key, "value": value, "partition": 0}
        try:
            self._http.call("POST", f"/topics/{TOPIC}/messages", body)
        except BrokerError as refused:
            if refused.status != 404:
                raise
            self._create()
            self._http.call("POST", f"/topics/{TOPIC}/messages", body)

    def _create(self) -> None:
        try:
            config = {"cleanup.policy": "compact"}
            self._http.call("POST", "/topics", {"name": TOPIC, "num_partitions": 1, "config": config})
        except BrokerError as refused:
            if refused.code != "topic_exists":
                raise

    def _read_on(self) -> None:
        while True:
            params = {"offset": str(self._next), "limit": str(_READ_MAX)}
            try:
                reply = self._http.call("GET", f"/topics/{quoted(TOPIC)}/partitions/0/messages", params=params)
            except BrokerError as refused:
                if refused.status == 404:
                    return
                raise
            for message in reply["messages"]:
                self._apply(message)
            if reply["next_offset"] <= self._next:
                return
            self._next = reply["next_offset"]
            if len(reply["messages"]) < _READ_MAX:
                return

    def _apply(self, message: dict[str, Any]) -> None:
        exchange, routing_key, pattern, queue = msgspec.json.decode(message["key"])
        table = self._tables.setdefault(exchange, {})
        if message.get("value") is None:
            table.pop((routing_key, pattern, queue), None)
            return
        expires_ms = msgspec.json.decode(message["value"])["expires_ms"]
        ends_ms = None if expires_ms is None else message["timestamp"] + expires_ms * EXPIRY_FACTOR
        table[routing_key, pattern, queue] = ends_ms
