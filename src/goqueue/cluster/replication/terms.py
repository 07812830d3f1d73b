"""The terms of all partitions that this node leads. Makes their writers, and tells streams what there is to send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from goqueue.broker.replicas.local_writer import Syncer
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.replicas.writers import TermLog
from goqueue.clock import Clock
from goqueue.cluster.replicated_writer import ReplicatedWriter
from goqueue.cluster.replication.term import PartitionTerm
from goqueue.errors import StorageError
from goqueue.metadata.eligibility import min_insync_of
from goqueue.metadata.events import AssignmentsChanged, Delta
from goqueue.metadata.store import MetadataStore
from goqueue.records import LogKind, TopicPartition


class Feed(Protocol):
    """Sends the logs of one family to one follower."""

    follower: int

    def mark(self, *, is_urgent: bool) -> None:
        """There is more to send; not urgent: only the high watermark."""
        ...

    def announce(self, kind: LogKind) -> None:
        """The family has another log."""
        ...


class LedPartition:
    """A partition that this node leads: its term, the writers of its logs, and who is sent what they write."""

    __slots__ = ("feeds", "is_active", "sick", "term", "writers")

    def __init__(self, term: PartitionTerm) -> None:
        self.term = term
        self.writers: dict[LogKind, ReplicatedWriter] = {}
        # In the order of their subscriptions: a set would make every run of a simulation another.
        self.feeds: dict[Feed, None] = {}
        # Whether a follower may be behind: only then is its lag looked at.
        self.is_active = False
        # Why another node had better lead; empty if this one can.
        self.sick = ""

    @property
    def is_over(self) -> bool:
        """Whether the term has ended."""
        return self.writers[LogKind.DATA].is_over if LogKind.DATA in self.writers else True

    def advance(self) -> None:
        """Positions or the in-sync replicas have changed."""
        for writer in self.writers.values():
            writer.advance()


class Terms:
    """By partition. A writer factory of the broker's partitions."""

    def __init__(
        self,
        *,
        node_id: int,
        metadata: MetadataStore,
        syncer: Syncer,
        clock: Clock,
        acks_written: bool,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._syncer = syncer
        self._clock = clock
        self._acks_written = acks_written
        self._partitions: Partitions | None = None
        self._led: dict[TopicPartition, LedPartition] = {}
        self.active: dict[TopicPartition, LedPartition] = {}
        # Partitions that this node is to lead and cannot open, and why. They have no term.
        self.unopened: dict[TopicPartition, str] = {}
        # Told when a follower may have become fit to join the in-sync replicas.
        self.on_progress: Callable[[LedPartition, int], None] | None = None
        # Told when a follower must begin anew and nobody may count on it any more.
        self.on_reset: Callable[[LedPartition, int], None] | None = None

    def bind(self, partitions: Partitions) -> None:
        """The partitions that the writers are made for. Called after they have subscribed to the metadata."""
        self._partitions = partitions
        self._metadata.subscribe(self._on_delta)

    def writer(self, term_log: TermLog) -> ReplicatedWriter:
        """The writer of one log for a term that begins."""
        place = term_log.place
        led = self._led.get(place)
        if led is None or led.term.leader_epoch != term_log.leader_epoch or led.term.topic_id != term_log.topic_id:
            led = self._led[place] = LedPartition(self._new_term(term_log))
        is_news = term_log.kind not in led.writers
        writer = led.writers[term_log.kind] = ReplicatedWriter(
            term_log,
            led.term,
            self._syncer,
            min_insync=lambda: self._min_insync(place),
            eligible_below=lambda: self._eligible_below(led.term),
            confirm=self._metadata.catch_up,
            acks_written=self._acks_written,
            on_change=lambda writer, *, is_urgent=True: self._changed(led, writer, is_urgent=is_urgent),
            on_failure=lambda error: self._note_sick(led, error),
        )
        writer.term.began_ms = self._clock.monotonic_ms()
        self._activate(led)
        if is_news and term_log.kind is not LogKind.DATA:
            for feed in list(led.feeds):
                feed.announce(term_log.kind)
        return writer

    def find(self, place: TopicPartition) -> LedPartition | None:
        """The present term in which this node leads the partition; None if it does not, or has not opened it."""
        led = self._led.get(place)
        return None if led is None or led.is_over else led

    def all(self) -> Iterator[LedPartition]:
        """Every partition that this node leads and has opened."""
        return (led for led in list(self._led.values()) if not led.is_over)

    def report(self, led: LedPartition, follower: int, kind: LogKind, written_end: int, synced_end: int) -> None:
        """A follower said how far it is, in this term and under its present session."""
        log = led.term.logs[kind]
        position = log.positions.get(follower)
        if position is None:
            return
        position.report(written_end, synced_end, log, self._clock.monotonic_ms())
        led.writers[kind].advance()
        if follower not in led.term.isr:
            if self.on_progress is not None:
                self.on_progress(led, follower)
            # It may have to sync what it wrote, although nobody waits for that.
            self.remind(led, follower)

    def note_soundness(
        self, led: LedPartition, follower: int, kind: LogKind, *, is_sound: bool, wants_reset: bool
    ) -> None:
        """A follower said whether its log can be read. One that cannot had better not be in sync."""
        led.term.note_soundness(follower, kind, is_sound=is_sound, wants_reset=wants_reset)
        if not is_sound:
            self._activate(led)

    def note_unopened(self, place: TopicPartition, error: Exception) -> None:
        """A follower asked for a log that could not be opened here: another replica had better lead."""
        led = self.find(place)
        if led is None:
            self.unopened[place] = str(error)
        else:
            led.sick = led.sick or str(error)

    def must_leave_first(self, led: LedPartition, follower: int) -> bool:
        """Whether a follower that is about to begin anew could still be elected. If so, that is being changed."""
        assignment = self._metadata.image.assignments(led.term.topic_id)[led.term.place.partition]
        if follower not in (*assignment.isr, *assignment.eligible) and not led.term.counts_on(follower):
            return False
        if self.on_reset is not None:
            self.on_reset(led, follower)
        return True

    def remind(self, led: LedPartition, follower: int) -> None:
        """Send a follower what it has not been told yet."""
        for feed in led.feeds:
            if feed.follower == follower:
                feed.mark(is_urgent=True)

    def show_in_sync(self, led: LedPartition) -> None:
        """Let the check before an append count only replicas that are certain to be in sync."""
        if self._partitions is not None:
            self._partitions.leader(*led.term.place).in_sync_replicas = led.term.certain

    def _new_term(self, term_log: TermLog) -> PartitionTerm:
        place = term_log.place
        assignment = self._metadata.image.assignments(term_log.topic_id)[place.partition]
        term = PartitionTerm(
            place,
            term_log.topic_id,
            node_id=self._node_id,
            leader_epoch=term_log.leader_epoch,
            isr=assignment.isr,
            partition_epoch=assignment.partition_epoch,
            now_ms=self._clock.monotonic_ms(),
        )
        if self._partitions is not None:
            term.kinds |= {kind for kind in LogKind if self._partitions.has_member(place, kind)}
        return term

    def _min_insync(self, place: TopicPartition) -> int:
        partitions = self._partitions
        return 1 if partitions is None else partitions.config(partitions.topic(place.topic)).min_insync_replicas

    def _eligible_below(self, term: PartitionTerm) -> int:
        topic = self._metadata.image.topic_by_id(term.topic_id)
        if topic is None:
            return 1
        return min_insync_of(topic, self._metadata.image.assignments(term.topic_id)[term.place.partition])

    def _changed(self, led: LedPartition, writer: ReplicatedWriter, *, is_urgent: bool) -> None:
        if writer.is_over:
            for feed in list(led.feeds):
                feed.mark(is_urgent=True)
            if self._led.get(led.term.place) is led and led.is_over:
                del self._led[led.term.place]
                self.active.pop(led.term.place, None)
            return
        if is_urgent and not led.is_active:
            self._activate(led)
        for feed in led.feeds:
            feed.mark(is_urgent=is_urgent)

    def _activate(self, led: LedPartition) -> None:
        """A follower may fall behind from now on.

        One that is active stays so, with what is known of the lag of each: this may be called again and again.
        """
        if led.is_active:
            return
        led.is_active = True
        self.active[led.term.place] = led
        # All were at the end until this moment, or the partition would be active.
        led.term.note_caught_up(led.term.counted, self._clock.monotonic_ms())

    def _note_sick(self, led: LedPartition, error: StorageError) -> None:
        led.sick = str(error)

    def _on_delta(self, delta: Delta) -> None:
        for event in delta.events:
            if not isinstance(event, AssignmentsChanged):
                continue
            for number in event.assignments:
                led = self.find(TopicPartition(event.name, number))
                if led is None or led.term.topic_id != event.topic_id:
                    continue
                assignment = self._metadata.image.assignments(event.topic_id)[number]
                if assignment.leader_epoch == led.term.leader_epoch:
                    joined = frozenset(assignment.isr) - led.term.isr
                    led.term.take_isr(assignment.isr, assignment.partition_epoch)
                    # Whoever joins had all that is committed, and has as much time as others to get what is not.
                    led.term.note_caught_up(joined, self._clock.monotonic_ms())
                    self._activate(led)
                    led.advance()
