"""Lanes: one for each exporter, with a bounded queue and a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from goqueue.tracing.spans import Span

BATCH_SPANS = 512
_ATTEMPTS = 3
_RETRY_SECONDS = 1.0

# (which exporter, why): spans were dropped.
OnFailure = Callable[[str, BaseException], None]


class Exporter(Protocol):
    """Sends spans somewhere."""

    name: str

    def export(self, spans: Sequence[Span]) -> None:
        """Send them, or raise. May block: it is called in a thread of its own."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class Lane:
    """The queue of one exporter. `put` never waits; the oldest spans make room for the newest."""

    def __init__(self, exporter: Exporter, *, queue_max: int, on_failure: OnFailure) -> None:
        self.name = exporter.name
        self.exported = 0
        self.dropped = 0
        self.failures = 0
        self._exporter = exporter
        self._queue_max = queue_max
        self._on_failure = on_failure
        self._queue: deque[Span] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Spans in the queue."""
        return len(self._queue)

    def put(self, spans: Sequence[Span]) -> None:
        """Queue spans."""
        with self._changed:
            if self._closed:
                return
            self._queue.extend(spans)
            while len(self._queue) > self._queue_max:
                self._queue.popleft()
                self.dropped += 1
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"export-{self.name}", daemon=True)
                self._thread.start()

    def close(self, seconds_max: float = 5.0) -> None:
        """Send what is queued, as far as that goes within the time."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(seconds_max)
            self.dropped += len(self._queue)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if not self._queue:
                    break
                batch = [self._queue.popleft() for _ in range(min(BATCH_SPANS, len(self._queue)))]
            self._export(batch)
        self._exporter.close()

    def _export(self, batch: Sequence[Span]) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._exporter.export(batch)
            except Exception as error:  # noqa: BLE001 - an exporter may fail in any way and must not end its lane
                self.failures += 1
                if attempt == _ATTEMPTS or self._closed:
                    self.dropped += len(batch)
                    self._on_failure(self.name, error)
                    return
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, _RETRY_SECONDS * attempt)
            else:
                self.exported += len(batch)
                return
