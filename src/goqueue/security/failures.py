"""Failed logins, counted per address: each further one is answered later, and too many at once are not looked at."""

from __future__ import annotations

from collections import OrderedDict

from goqueue.clock import Clock

_ADDRESSES_MAX = 10_000
_WINDOW_MS = 60_000
_FIRST_SECONDS = 0.1
_WAITING_MAX = 32


class FailedLogins:
    """How long the next failure of an address is held back."""

    def __init__(self, clock: Clock, ms_max: int = 5_000) -> None:
        self._clock = clock
        self._seconds_max = ms_max / 1000
        # Failures in the window, when it began, and answers that are held back now.
        self._addresses: OrderedDict[str, list[int]] = OrderedDict()
        self.total = 0

    def may_try(self, address: str) -> bool:
        """Whether credentials from this address are looked at now."""
        row = self._addresses.get(address)
        return row is None or row[2] < _WAITING_MAX

    def failed(self, address: str) -> float:
        """Count a failure; returns the seconds to hold the answer back. `answered` must follow."""
        self.total += 1
        now_ms = self._clock.monotonic_ms()
        row = self._addresses.setdefault(address, [0, now_ms, 0])
        self._addresses.move_to_end(address)
        if now_ms - row[1] > _WINDOW_MS:
            row[0], row[1] = 0, now_ms
        row[0] += 1
        row[2] += 1
        while len(self._addresses) > _ADDRESSES_MAX:
            self._addresses.popitem(last=False)
        return min(self._seconds_max, _FIRST_SECONDS * 2.0 ** min(row[0] - 1, 16))

    def answered(self, address: str) -> None:
        """The answer was sent."""
        row = self._addresses.get(address)
        if row is not None and row[2]:
            row[2] -= 1
