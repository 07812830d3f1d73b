"""LogOpener: from a partition's directory to its log. Runs on any thread; all logs share one bound on open files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from goqueue.broker.replicas.family import member_settings
from goqueue.broker.replicas.local_writer import Syncer
from goqueue.broker.replicas.partition_files import PartitionFiles
from goqueue.clock import Clock
from goqueue.config import LogConfig
from goqueue.errors import StorageError
from goqueue.log.durability.write_failures import WriteObserver, lacks_handles, storage_error
from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.settings import LogSettings
from goqueue.metadata.events import Topic
from goqueue.metadata.settings.topic_config import TopicConfig, log_settings
from goqueue.ports import MakeLock
from goqueue.records import LogKind

# Files of segments that a node keeps open which was not told how many handles its process has.
OPEN_FILES_DEFAULT = 512

# Files with unsynced bytes that may be open however few are wanted: one burst of small segments has so many.
_KEPT_FILES_MIN = 160


class LogOpener:
    """Opens the logs of one node."""

    def __init__(
        self,
        files: PartitionFiles,
        syncer: Syncer,
        clock: Clock,
        log_config: LogConfig,
        observer: WriteObserver | None,
        make_lock: MakeLock,
    ) -> None:
        self._files = files
        self._syncer = syncer
        self._clock = clock
        self._log_config = log_config
        self._member_settings = member_settings(log_config)
        self._observer = observer
        self.make_lock = make_lock
        self._loop: asyncio.AbstractEventLoop | None = None
        # One bound on open segments for all partitions together.
        open_files_max = log_config.open_files_max or OPEN_FILES_DEFAULT
        self.open_segments = SegmentCache(
            open_files_max,
            kept_files_max=max(open_files_max * 3 // 2, _KEPT_FILES_MIN),
            on_crowded=self._flush_soon,
            may_close_unsynced=files.files.sync_all_reports_closed_files,
        )

    def opener(self, topic: Topic, partition: int, config: TopicConfig) -> Callable[[], PartitionLog]:
        """Opens the log of one partition, on any thread. Asked for on the event loop. Raises OSError."""
        self._loop = asyncio.get_running_loop()
        return partial(
            self._open,
            topic,
            partition,
            LogKind.DATA,
            settings=log_settings(config, self._log_config),
            now_ms=self._clock.now_ms(),
        )

    def member_opener(self, topic: Topic, partition: int, kind: LogKind) -> Callable[[], PartitionLog]:
        """As `opener`, for another log of the partition's family."""
        self._loop = asyncio.get_running_loop()
        return partial(self._open, topic, partition, kind, settings=self._member_settings, now_ms=self._clock.now_ms())

    def failure(
        self,
        topic: Topic,
        partition: int,
        error: OSError,
        log: PartitionLog | None = None,
        kind: LogKind = LogKind.DATA,
    ) -> StorageError:
        """What the disk said, in our words; whoever watches is told. For the event loop."""
        if log is not None:
            return log.note_write_failure(error)
        directory = self._files.directory(topic.name, partition, kind)
        if self._observer is not None and lacks_handles(error):
            # Writes are refused for it. What else keeps a log from being opened is told to whoever asks for it.
            self._observer.failed(directory, error)
        return storage_error(directory, error, failed="opened")

    def _open(self, topic: Topic, partition: int, kind: LogKind, *, settings: LogSettings, now_ms: int) -> PartitionLog:
        self._files.set_aside_stranger(topic.name, partition, topic.topic_id, kind)
        return PartitionLog.open(
            self._files.files,
            self._files.directory(topic.name, partition, kind),
            settings=settings,
            topic_id=topic.topic_id,
            now_ms=now_ms,
            cache=self.open_segments,
            observer=self._observer,
            lock=self.make_lock(),
        )

    def _flush_soon(self) -> None:
        """The cache is crowded, which a thread that opens a partition may find out as well."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._syncer.flush_soon)
        else:
            self._syncer.flush_soon()
