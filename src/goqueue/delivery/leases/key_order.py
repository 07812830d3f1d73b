"""KeyChains: where keys are kept in order, which outstanding messages share a key. The first of them may go."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator


class KeyChains:
    """Each key of each lane with its outstanding offsets, in order."""

    __slots__ = ("_chains", "_key_of")

    def __init__(self) -> None:
        self._key_of: dict[int, tuple[int, int]] = {}
        self._chains: dict[tuple[int, int], list[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._key_of)

    def __contains__(self, place: tuple[int, int]) -> bool:
        """Whether a message of this (lane, key) is outstanding."""
        return place in self._chains

    def is_first(self, offset: int) -> bool:
        """Whether no earlier message of its key is outstanding."""
        return self._chains[self._key_of[offset]][0] == offset

    def keys(self, offsets: Iterable[int]) -> list[int]:
        """The key of each, 0 for none; empty if none has one."""
        keys = [self._key_of.get(offset, (0, 0))[1] for offset in offsets] if self._key_of else []
        return keys if any(keys) else []

    def join(self, lane: int, offsets: Iterable[int], keys: Iterable[int]) -> None:
        """They are outstanding behind those that were before."""
        for offset, key in zip(offsets, keys, strict=True):
            if key:
                place = (lane, key)
                self._key_of[offset] = place
                chain = self._chains.setdefault(place, [])
                if chain and offset < chain[-1]:
                    # Reopened: it goes before later messages that wait, but not before the one that is out.
                    insort(chain, offset, lo=1)
                else:
                    chain.append(offset)

    def leave(self, offset: int) -> tuple[int, int] | None:
        """It stands in nobody's way any more; returns the lane and the offset of the first that is left, if any."""
        place = self._key_of.pop(offset, None)
        if place is None:
            return None
        chain = self._chains[place]
        chain.remove(offset)
        if chain:
            return place[0], chain[0]
        del self._chains[place]
        return None

    def sort(self, is_parked: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
        """Put them in order after they joined in any; then the lane and the offset of the first of each key.

        The one that is out comes first, even if an earlier one was reopened meanwhile and waits for it.
        """
        for chain in self._chains.values():
            chain.sort(key=lambda offset: (is_parked(offset), offset))
        return ((lane, chain[0]) for (lane, _), chain in self._chains.items())
