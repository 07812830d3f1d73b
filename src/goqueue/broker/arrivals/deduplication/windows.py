"""The windows of all partitions that have one: whose records are repeats, and which ids count from now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from goqueue.broker.arrivals.deduplication.ids import digest_of
from goqueue.broker.arrivals.deduplication.reading import first_since, read_ids, read_some
from goqueue.broker.arrivals.deduplication.window import Remembered, Window
from goqueue.broker.replicas.opening import Awaited
from goqueue.errors import CoordinatorUnavailable, GoQueueError
from goqueue.metadata.events import Delta, TopicDeleted
from goqueue.records import Header, NewRecord

if TYPE_CHECKING:
    from goqueue.broker.replicas.partitions import Partition, Partitions
    from goqueue.metadata.image import Image
    from goqueue.ports import Offload

_Key = tuple[UUID, int]


class Sifted(NamedTuple):
    """Records on their way in, by position: to be stored, repeats of stored ones, repeats of one before them here."""

    fresh: list[int]
    repeats: dict[int, Remembered]
    twins: dict[int, int]


class _Followed(NamedTuple):
    """The ids below an offset of a log, and the epoch of the record before that offset."""

    window: Window
    end_offset: int
    epoch: int


class _Read(NamedTuple):
    """A window that was begun while the node followed, if there is one, and the ids to add to it."""

    begun: Window | None
    ids: Sequence[tuple[bytes, Remembered]]


class Deduplication:
    """The windows of all partitions that have one."""

    def __init__(self, offload: Offload, *, ids_max: int) -> None:
        self._offload = offload
        self._ids_max = ids_max
        # Windows that are being read, for those who wait.
        self._reading: dict[_Key, Awaited] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Of the partitions that this node leads, with the leader epoch in which the window was read.
        self._windows: dict[_Key, tuple[int, Window]] = {}
        # Of the partitions that it follows: what their windows will begin with when it leads.
        self._followed: dict[_Key, _Followed] = {}

    async def load(self, image: Image, partitions: Partitions, now_ms: int) -> None:
        """Read the ids of each topic's last window out of its log; called before anything is published."""
        for topic in image.topics():
            window_ms = partitions.config(topic).dedup_window_ms
            if not window_ms:
                continue
            for number in partitions.led_with_data(topic.name):
                place = await partitions.open_leader(topic.name, number)
                self._put(place, await self._offload(partial(_read, place, now_ms - window_ms, None)))

    async def follow(self, place: Partition, now_ms: int) -> bool:
        """Take in the next few megabytes of a partition that another node leads; whether there may be more.

        Only what lies below the high watermark counts: no election but an unclean one cuts that off, and then the log
        tells by its epochs that something is gone.
        """
        role, log, key = place.role, place.log, _key_of(place)
        since_ms = now_ms - place.config.dedup_window_ms
        self._windows.pop(key, None)
        followed = self._followed.get(key)
        if followed is None or log.has_lost(followed.end_offset, followed.epoch):
            start = await self._offload(partial(first_since, log, since_ms))
            followed = _Followed(Window(self._ids_max), start, log.epoch_below(start))
        followed.window.drop_before(since_ms)
        upper = min(log.high_watermark, log.end_offset)
        if followed.end_offset < upper:
            first = max(followed.end_offset, log.start_offset)
            ids, end = await self._offload(partial(read_some, log, place.id, first, upper))
            if place.role is not role or end is None:
                # Perhaps this node leads by now and has taken the window, or the rest cannot be read for the moment.
                return False
            for digest, remembered in ids:
                followed.window.add(digest, remembered)
            followed = _Followed(followed.window, min(end, upper), log.epoch_below(min(end, upper)))
        if place.role is role:
            self._followed[key] = followed
        return followed.end_offset < upper

    def preparing(self, place: Partition, now_ms: int) -> Awaited | None:
        """What writes to the partition wait for: in a new term, ids that another node took are read from the log."""
        window_ms = place.config.dedup_window_ms
        if not window_ms:
            return None
        key = _key_of(place)
        if (awaited := self._reading.get(key)) is not None:
            # Also when whoever could not wait has read it meanwhile: nobody overtakes those that wait.
            return awaited
        known = self._windows.get(key)
        if (known is not None and known[0] == place.leader_epoch) or place.log.start_offset == place.log.end_offset:
            return None
        awaited = self._reading[key] = Awaited()
        task = asyncio.get_running_loop().create_task(self._read(place, now_ms - window_ms, awaited))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return awaited

    async def _read(self, place: Partition, since_ms: int, awaited: Awaited) -> None:
        epoch, key, error = place.leader_epoch, _key_of(place), None
        try:
            read = await self._offload(partial(_read, place, since_ms, self._followed.get(key)))
            known = self._windows.get(key)
            # Whoever could not wait has read it meanwhile, and knows of what was written since.
            if place.leader_epoch == epoch and (known is None or known[0] != epoch):
                self._put(place, read)
        except GoQueueError as refusal:
            error = refusal
        except (OSError, asyncio.CancelledError) as failure:
            error = CoordinatorUnavailable(f"the deduplication ids of {place.key} could not be read: {failure!r}")
        finally:
            del self._reading[key]
            awaited.finish(error)

    def sift(self, place: Partition, records: Sequence[NewRecord], taken: Sequence[int], now_ms: int) -> Sifted:
        """Tell repeats from what is new. Nothing is remembered yet: the records are not stored."""
        since_ms = now_ms - place.config.dedup_window_ms
        window = self._window(place, since_ms)
        window.drop_before(since_ms)
        sifted = Sifted([], {}, {})
        firsts: dict[bytes, int] = {}
        for position in taken:
            digest = digest_of(records[position].headers)
            if digest is None:
                sifted.fresh.append(position)
            elif (found := window.find(digest, since_ms)) is not None:
                sifted.repeats[position] = found
            elif (first := firsts.setdefault(digest, position)) != position:
                sifted.twins[position] = first
            else:
                sifted.fresh.append(position)
        window.check_room(len(firsts))
        return sifted

    def remember(self, place: Partition, headers: Sequence[Header], remembered: Remembered) -> None:
        """A record is stored: its id, if it has one, counts from now."""
        digest = digest_of(headers)
        if digest is not None:
            self._window(place, remembered.taken_ms).add(digest, remembered)

    def on_delta(self, delta: Delta) -> None:
        """Forget the ids of topics that are gone."""
        for event in delta.events:
            if isinstance(event, TopicDeleted):
                for table in (self._windows, self._followed):
                    for key in [one for one in table if one[0] == event.topic_id]:
                        del table[key]

    def _window(self, place: Partition, since_ms: int) -> Window:
        key = _key_of(place)
        known = self._windows.get(key)
        if known is None or known[0] != place.leader_epoch:
            # A term has begun since, and whoever writes has not waited (`preparing`).
            return self._put(place, _read(place, since_ms, self._followed.get(key)))
        return known[1]

    def _put(self, place: Partition, read: _Read) -> Window:
        window = read.begun or Window(self._ids_max)
        for digest, remembered in read.ids:
            window.add(digest, remembered)
        key = _key_of(place)
        self._followed.pop(key, None)
        self._windows[key] = (place.leader_epoch, window)
        return window


def _key_of(place: Partition) -> _Key:
    return place.topic_id, place.id


def _read(place: Partition, since_ms: int, followed: _Followed | None) -> _Read:
    """What a window has at the begin of a term: all of it from the log, or the rest of what was followed. Blocks."""
    log = place.log
    if followed is None or log.has_lost(followed.end_offset, followed.epoch):
        return _Read(None, read_ids(log, place.id, first_since(log, since_ms)))
    return _Read(followed.window, read_ids(log, place.id, max(followed.end_offset, log.start_offset)))
