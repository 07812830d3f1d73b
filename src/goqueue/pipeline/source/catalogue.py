"""Which partitions there are and where they begin and end: as a broker says, or as a directory shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from goqueue.client.wire import WireClient
from goqueue.client.wire.offsets import EARLIEST, LATEST, list_offsets, log_directories
from goqueue.codec.batch_decode import decode_records
from goqueue.errors import PartitionNotFound, TopicNotFound
from goqueue.ids import is_internal
from goqueue.pipeline.source.options import SourceOptions
from goqueue.pipeline.source.segment_reader import read_segment
from goqueue.pipeline.source.segments import DataDirectory
from goqueue.records import Isolation, TopicPartition

Offsets = dict[TopicPartition, int]


class Catalogue(Protocol):
    """What planning needs to know."""

    def partitions(self) -> dict[str, list[int]]:
        """The partitions of every topic."""
        ...

    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics that `partitions` found last; who keeps none has no place here."""
        ...

    def earliest(self, places: Iterable[TopicPartition]) -> Offsets:
        """Where the logs begin."""
        ...

    def latest(self, places: Iterable[TopicPartition]) -> Offsets:
        """Where they end for this reader."""
        ...

    def at_times(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """The first record at or after a time; -1 where there is none."""
        ...

    def bytes_of(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """How large the partitions are, for estimates."""
        ...

    def close(self) -> None:
        """End connections."""
        ...


class BrokerCatalogue:
    """Asks a broker."""

    def __init__(self, client: WireClient, options: SourceOptions) -> None:
        self.client = client
        self._options = options
        self._ids: dict[str, str] = {}

    def partitions(self) -> dict[str, list[int]]:
        """The topics of the subscription that exist, or all of them for a pattern."""
        options = self._options
        names = None if options.pattern else {*options.subscribe, *(one.topic for one in options.assign)}
        found = self.client.topics(names)
        # Brokers of before Kafka 2.8 know no ids, and write zero.
        self._ids = {name: str(info.topic_id) for name, info in found.items() if info.topic_id}
        return {name: sorted(info.leaders) for name, info in found.items()}

    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics that `partitions` found last."""
        return self._ids

    def earliest(self, places: Iterable[TopicPartition]) -> Offsets:
        """Where the logs begin."""
        return list_offsets(self.client, dict.fromkeys(places, EARLIEST))

    def latest(self, places: Iterable[TopicPartition]) -> Offsets:
        """The high watermark, or for committed readers the last stable offset."""
        return list_offsets(self.client, dict.fromkeys(places, LATEST), isolation=self._options.isolation)

    def at_times(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """The first record at or after a time; -1 where there is none."""
        return list_offsets(self.client, times, isolation=self._options.isolation)

    def bytes_of(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """How large the partitions are on their leaders."""
        return {place: one.size_bytes for place, one in log_directories(self.client, places).items()}

    def close(self) -> None:
        """End the client's connections."""
        self.client.close()


class DirectoryCatalogue:
    """Looks into a data directory that no broker serves."""

    def __init__(self, directory: DataDirectory, options: SourceOptions) -> None:
        self.directory = directory
        self._options = options

    def partitions(self) -> dict[str, list[int]]:
        """All topics that have been written to."""
        return self.directory.topics()

    def topic_ids(self) -> dict[str, str]:
        """The ids, as the checkpoint of each topic's first partition has them."""
        ids = {
            name: self.directory.topic_id(TopicPartition(name, partitions[0]))
            for name, partitions in self.directory.topics().items()
        }
        return {name: one for name, one in ids.items() if one is not None}

    def earliest(self, places: Iterable[TopicPartition]) -> Offsets:
        """Where the logs begin."""
        return {place: self.directory.start_offset(place) for place in places}

    def latest(self, places: Iterable[TopicPartition]) -> Offsets:
        """The end of the last whole frame, or for committed readers the first open transaction."""
        committed = self._options.isolation is Isolation.READ_COMMITTED
        looks = {place: self.directory.look(place) for place in places}
        return {place: one.stable_offset if committed else one.end_offset for place, one in looks.items()}

    def at_times(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """The first record at or after a time; -1 where there is none."""
        return {place: self._at_time(place, time_ms) for place, time_ms in times.items()}

    def bytes_of(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """How large the files are."""
        return {place: self.directory.bytes_of(place) for place in places}

    def close(self) -> None:
        """Files are open only while they are read."""

    def _at_time(self, place: TopicPartition, time_ms: int) -> int:
        for segment in self.directory.segments(place):
            for batches in read_segment(segment, self.directory.start_offset(place), 2**62, 1 << 22):
                # As the broker: 0 or less is no time, and such a batch has that of its append.
                untimed = batches.max_timestamp_ms <= 0
                times = np.where(untimed, batches.append_ms, batches.max_timestamp_ms)
                (late,) = np.nonzero((times >= time_ms) & ~batches.is_control)
                for number in late.tolist():
                    for record in decode_records(batches.bytes_of(number)):
                        if record.timestamp_ms >= time_ms or (untimed[number] and record.timestamp_ms <= 0):
                            return record.offset
        return -1


def open_client(options: SourceOptions) -> WireClient:
    """A client of the brokers that the options name."""
    return WireClient(
        options.servers or "", client_id=options.kafka.get("client.id", "goqueue-spark"), security=options.kafka
    )


def open_catalogue(options: SourceOptions) -> Catalogue:
    """The broker where one is named, else the directory."""
    if options.transport == "files":
        DataDirectory(options.path or "")
    if options.servers:
        return BrokerCatalogue(open_client(options), options)
    return DirectoryCatalogue(DataDirectory(options.path or ""), options)


def subscribed(options: SourceOptions, catalogue: Catalogue) -> list[TopicPartition]:
    """The partitions of the subscription; a topic that is named and not there is an error."""
    there = catalogue.partitions()
    if options.assign:
        for place in options.assign:
            if place.topic not in there:
                raise TopicNotFound(place.topic)
            if place.partition not in there[place.topic]:
                raise PartitionNotFound(*place)
        return sorted(options.assign)
    if options.pattern:
        # A part of the name is enough, as for Spark's Kafka connector: anchor with ^ and $ to mean whole names.
        finds = re.compile(options.pattern).search
        names = [name for name in there if finds(name) and not is_internal(name)]
    else:
        names = list(options.subscribe)
        for name in names:
            if name not in there:
                raise TopicNotFound(name)
    return [TopicPartition(name, one) for name in sorted(names) for one in there[name]]
