"""What was copied to this node, counted for the metrics, and how far the replicas of what it leads are behind."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from goqueue.cluster.peer_watch import Lag
from goqueue.cluster.replication.terms import LedPartition, Terms
from goqueue.histogram import Histogram
from goqueue.metadata.image import Image
from goqueue.records import LogKind, TopicPartition


class Surplus(NamedTuple):
    """What a replica has and its leader has not, so that the replica is cut."""

    place: TopicPartition
    follower: int
    # From here on.
    offset: int
    records: int
    # Of the leader that wrote the last of them.
    last_epoch: int


class CopyCounts:
    """Rounds and bytes that this node took from leaders, and records that replicas had and leaders had not."""

    __slots__ = ("_cut_by_topic", "_cuts", "_lost", "bytes_by_topic", "on_lost", "seconds_by_leader")

    def __init__(self) -> None:
        self.bytes_by_topic: Counter[str] = Counter()
        self._cut_by_topic: Counter[str] = Counter()
        # From threads, not added up yet.
        self._cuts: deque[tuple[str, int]] = deque()
        self._lost: dict[TopicPartition, int] = {}
        # Whether a surplus is lost for good, which it is after an unclean election; told of each, on the leader.
        self.on_lost: Callable[[Surplus], bool] | None = None
        # One entry per round: how long it took until it was written here.
        self.seconds_by_leader: dict[int, Histogram] = {}

    def took(self, topic: str, size_bytes: int) -> None:
        """Frames of a topic were written."""
        self.bytes_by_topic[topic] += size_bytes

    def cut(self, topic: str, records: int) -> None:
        """The end of a copy on this node was cut off. Any thread may say so."""
        self._cuts.append((topic, records))

    def cut_by_topic(self) -> Counter[str]:
        """Records that were cut off copies on this node."""
        while self._cuts:
            topic, records = self._cuts.popleft()
            self._cut_by_topic[topic] += records
        return self._cut_by_topic

    def forget(self, topic: str) -> None:
        """The topic is deleted."""
        self.bytes_by_topic.pop(topic, None)
        self.cut_by_topic().pop(topic, None)
        self._lost = {place: records for place, records in self._lost.items() if place.topic != topic}

    def has_surplus(self, found: Surplus) -> None:
        """A replica of what this node leads has more than this node."""
        if self.on_lost is not None and self.on_lost(found):
            # Several replicas may have had the same records.
            self._lost[found.place] = max(self._lost.get(found.place, 0), found.records)

    def lost_by_topic(self) -> Counter[str]:
        """Records of led partitions that were lost by unclean elections, as replicas show when they come back."""
        lost: Counter[str] = Counter()
        for place, records in self._lost.items():
            lost[place.topic] += records
        return lost

    def took_round(self, leader: int, seconds: float) -> None:
        """All of a round was dealt with."""
        self.seconds_by_leader.setdefault(leader, Histogram()).add(seconds)


def lags_of(terms: Terms, image: Image) -> list[Lag]:
    """Replicas of led partitions that do not have all of the data log, or whose position is not known."""
    return [lag for led in terms.all() for lag in _lags_of(led, image)]


def high_watermarks(terms: Terms) -> dict[str, int]:
    """The high watermarks of the partitions that this node leads, summed by topic."""
    found: Counter[str] = Counter()
    for led in terms.all():
        log = led.term.logs.get(LogKind.DATA)
        if log is not None:
            found[led.term.place.topic] += max(log.high_watermark, 0)
    return dict(found)


def _lags_of(led: LedPartition, image: Image) -> Iterator[Lag]:
    term = led.term
    log = term.logs.get(LogKind.DATA)
    assignments = image.assignments(term.topic_id)
    if log is None or term.place.partition >= len(assignments):
        return
    one = assignments[term.place.partition]
    for node_id in (*one.replicas, *one.adding):
        if node_id == term.node_id:
            continue
        position = log.positions.get(node_id)
        is_known = position is not None and position.written_end >= 0
        records = max(0, log.end() - position.written_end) if position is not None and is_known else -1
        if records:
            yield Lag(term.place.topic, term.place.partition, node_id, records)
