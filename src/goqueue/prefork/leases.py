"""Leases: messages that a worker has received and not acknowledged stay its own for as long as it lives.

A thread of the worker's parent process extends them, prefetched ones included. It does not exist in forked children,
and what a dead process held is redelivered when its lease ends.
"""

from __future__ import annotations

import http.client
import logging
import os
import threading
from collections.abc import Iterable
from typing import Any

from goqueue.prefork.http import BrokerError, Http

_BATCH_MAX = 1000
_log = logging.getLogger("goqueue.prefork")


class Leases:
    """Receipts of one connection, and the thread that extends them."""

    def __init__(self, http_: Http, visibility_s: float) -> None:
        self.visibility_s = visibility_s
        self._http = http_
        self._lock = threading.Lock()
        self._receipts: set[str] = set()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._pid = os.getpid()

    def hold(self, receipts: Iterable[str]) -> None:
        """Extend these from now on."""
        with self._lock:
            self._receipts.update(receipts)
            if self._thread is None:
                self._thread = threading.Thread(target=self._extend_for_ever, name="goqueue-leases", daemon=True)
                self._thread.start()

    def ack(self, receipt: str) -> None:
        """It is done."""
        self._settle("ack", [receipt], {})

    def reject(self, receipt: str) -> None:
        """It can never succeed: it goes to the dead letters."""
        self._settle("reject", [receipt], {"reason": "rejected by its worker"})

    def requeue(self, receipt: str) -> None:
        """It is to be delivered again at once, as a redelivery that counts: one that always fails must end."""
        self._settle("nack", [receipt], {"delay": "0s", "reason": "requeued by its worker"})

    def release(self, receipts: list[str]) -> None:
        """Give these back at once; that does not count as a delivery."""
        self._settle("visibility", receipts, {"extension_seconds": 0})

    def close(self) -> None:
        """End the thread."""
        self._ended.set()

    def _settle(self, action: str, receipts: list[str], fields: dict[str, Any]) -> None:
        if os.getpid() != self._pid:
            # A copy in a forked child: the messages are the parent's.
            return
        with self._lock:
            self._receipts.difference_update(receipts)
        for first in range(0, len(receipts), _BATCH_MAX):
            batch = receipts[first : first + _BATCH_MAX]
            try:
                reply = self._http.call("POST", f"/messages/{action}", {"receipts": batch, **fields})
            except BrokerError as refused:
                _log.warning(
                    "%d messages could not be settled (%s) and may be redelivered: %s", len(batch), action, refused
                )
                continue
            if reply.get("failed"):
                _log.warning("%d of %d leases had ended before %s", reply["failed"], len(batch), action)

    def _extend_for_ever(self) -> None:
        while not self._ended.wait(self.visibility_s / 3):
            with self._lock:
                receipts = list(self._receipts)
            for first in range(0, len(receipts), _BATCH_MAX):
                batch = receipts[first : first + _BATCH_MAX]
                try:
                    self._extend(batch)
                except (BrokerError, OSError, http.client.HTTPException) as problem:
                    # The next round asks again while there is time.
                    _log.warning("leases of %d messages could not be extended: %s", len(batch), problem)

    def _extend(self, batch: list[str]) -> None:
        body = {"receipts": batch, "visibility": f"{int(self.visibility_s * 1000)}ms"}
        reply = self._http.call("POST", "/messages/visibility", body)
        lost = [one["receipt_handle"] for one in reply["results"] if not one["success"]]
        with self._lock:
            # Those that were settled meanwhile are refused too, and are not ours any more either.
            still_held = self._receipts.intersection(lost)
            self._receipts.difference_update(lost)
        if still_held:
            _log.warning("the leases of %d messages were lost: they are redelivered", len(still_held))
