"""Publish, fetch, sync, removal, commits and transactions, as events."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.broker.arrivals.arrival import Arrival
from goqueue.broker.replicas.partition_files import LOGS
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.caller import Caller
from goqueue.clock import Clock
from goqueue.codec.batch import BatchHeader
from goqueue.errors import GoQueueError
from goqueue.groups.commands import OffsetToCommit
from goqueue.ids import INTERNAL_PREFIX
from goqueue.log.partition_log import PartitionLog
from goqueue.records import TopicPartition
from goqueue.tracing.context import context_of
from goqueue.tracing.events import At, Attributes, Kind
from goqueue.tracing.recorder import Recorder

_CALLERS_MAX = 10_000
_RECEIVED, _FETCHED = Kind.PUBLISH_RECEIVED, Kind.CONSUME_FETCHED


class Hooks:
    """Callables for the composition root to hand out."""

    def __init__(self, recorder: Recorder, partitions: Partitions, clock: Clock) -> None:
        self._recorder = recorder
        self._partitions = partitions
        self._clock = clock
        # By identity: a connection's caller is one object for all of its requests.
        self._callers: dict[int, tuple[Caller, Attributes]] = {}

    # --- the way in ----------------------------------------------------------------------

    def appended(self, arrival: Arrival, first: int, last: int) -> None:
        """A batch is in its log."""
        recorder = self._recorder
        if not recorder.active:
            return
        place = arrival.partition
        if place.internal or last < first:
            return
        header = arrival.header
        attributes = self.caller_attributes(arrival.caller)
        if header[9] >= 0:
            attributes += (At.PRODUCER_ID, header[9], At.PRODUCER_EPOCH, header[10])
        if arrival.opened is not None or arrival.facts.has_traces or place.config.trace_index:
            self._append_opened(arrival, first, last, attributes)
        else:
            recorder.note(_RECEIVED, place.topic_id, place.id, first, last, arrival.now_ms, attributes)

    def _append_opened(self, arrival: Arrival, first: int, last: int, attributes: Attributes) -> None:
        """The records are at hand: those with a trace context of their own are noted with it."""
        place, recorder, now_ms = arrival.partition, self._recorder, arrival.now_ms
        shift = first - arrival.header.base_offset
        try:
            records = arrival.records()
        except GoQueueError:
            # It is stored, and whoever wants to read it will be told what is wrong with it.
            records = ()
        begin = first
        for record in records:
            context = context_of(record.headers) if record.headers else None
            if context is None:
                continue
            offset = record.offset + shift if record.offset < first else record.offset
            if offset > begin:
                recorder.note(_RECEIVED, place.topic_id, place.id, begin, offset - 1, now_ms, attributes)
            own = (*attributes, At.TRACE, context.trace_id, At.PARENT, context.span_id)
            recorder.note(_RECEIVED, place.topic_id, place.id, offset, offset, now_ms, own)
            begin = offset + 1
        if begin <= last:
            recorder.note(_RECEIVED, place.topic_id, place.id, begin, last, now_ms, attributes)

    def quarantined(self, arrival: Arrival, at: TopicPartition, first: int, reasons: Sequence[str]) -> None:
        """Records that their schema does not allow lie in quarantine, from `first` on, each for its reason."""
        if not self._recorder.active:
            return
        topic_id = self._partitions.topic(at.topic).topic_id
        who = self.caller_attributes(arrival.caller)
        why = f"not allowed in {arrival.partition.topic_name}"
        for offset, reason in enumerate(reasons, first):
            attributes = (*who, At.REASON, why, At.ERROR, reason)
            self._recorder.note(
                Kind.SCHEMA_REJECTED, topic_id, at.partition, offset, offset, arrival.now_ms, attributes
            )

    def synced(self, log: PartitionLog, first: int, end: int) -> None:
        """A log is on the disk up to here."""
        if not self._recorder.active:
            return
        root, _, place = log.directory.partition("/")
        topic, _, partition = place.rpartition("/")
        if root == LOGS and partition.isdecimal() and not topic.startswith(INTERNAL_PREFIX):
            now_ms = self._clock.now_ms()
            self._recorder.note(Kind.PUBLISH_SYNCED, log.topic_id, int(partition), first, end - 1, now_ms)

    def removed(self, place: Partition, first: int, last: int, reason: str) -> None:
        """Records are no longer in their log."""
        if self._recorder.active and not place.internal:
            attributes = (At.REASON, reason)
            self._recorder.note(
                Kind.LOG_REMOVED, place.topic_id, place.id, first, last, self._clock.now_ms(), attributes
            )

    # --- the way out ---------------------------------------------------------------------

    def given(self, place: Partition, first: int, last: int, caller: Caller) -> None:
        """A reader got records."""
        if self._recorder.active and not place.internal:
            self._recorder.note(
                _FETCHED, place.topic_id, place.id, first, last, self._clock.now_ms(), self.caller_attributes(caller)
            )

    def committed(self, group: str, member: str, offset: OffsetToCommit, before: int) -> None:
        """A group's offset moves on from `before`."""
        if self._recorder.active and offset.offset > before:
            attributes: Attributes = (At.GROUP, group, At.COMMITTED, offset.offset)
            if member:
                attributes += (At.MEMBER, member)
            self._recorder.note(
                Kind.GROUP_COMMITTED,
                offset.topic_id,
                offset.partition,
                before,
                offset.offset - 1,
                self._clock.now_ms(),
                attributes,
            )

    # --- transactions --------------------------------------------------------------------

    def ended(
        self, at: TopicPartition, marker: BatchHeader, first: int, last: int, now_ms: int, *, commit: bool
    ) -> None:
        """A transaction ended in a partition."""
        if self._recorder.active and last >= first:
            place = self._partitions.leader(*at)
            attributes = (At.PRODUCER_ID, marker.producer_id, At.PRODUCER_EPOCH, marker.producer_epoch)
            kind = Kind.TRANSACTION_COMMITTED if commit else Kind.TRANSACTION_ABORTED
            self._recorder.note(kind, place.topic_id, place.id, first, last, now_ms, attributes)

    def caller_attributes(self, caller: Caller) -> Attributes:
        """Who asked, as attributes; worked out once for each caller."""
        found = self._callers.get(id(caller))
        if found is not None and found[0] is caller:
            return found[1]
        attributes: list[int | str] = []
        for name, value in (
            (At.CLIENT, caller.client_id),
            (At.PRINCIPAL, caller.principal),
            (At.ADDRESS, caller.address),
            (At.PROTOCOL, caller.protocol),
        ):
            if value:
                attributes += (name, value)
        if len(self._callers) >= _CALLERS_MAX:
            self._callers.clear()
        found = (caller, tuple(attributes))
        self._callers[id(caller)] = found
        return found[1]
