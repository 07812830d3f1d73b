"""A partition log as it should be: plain tuples, obviously right, to hold the real one against.

A `LogModel` is one moment of a log: every frame ever written on the way to it, where the log
starts now, and what compaction was allowed to look at. `objection` compares what was really
read with a moment, and says what is wrong in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.markers import marker_is_commit
from goqueue.records import AbortedTransaction, Record


@dataclass(frozen=True, slots=True)
class ModelFrame:
    """One batch as readers must get it. `commit` is None for data."""

    batch: bytes
    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_transactional: bool
    commit: bool | None
    records: tuple[Record, ...]

    @classmethod
    def of(cls, batch: bytes) -> ModelFrame:
        """The frame of a batch that has its offsets already."""
        header = parse_batch_header(batch)
        return cls(
            batch=batch,
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            leader_epoch=header.leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            last_sequence=header.last_sequence,
            is_transactional=header.is_transactional,
            commit=marker_is_commit(batch) if header.is_control else None,
            records=() if header.is_control else tuple(decode_records(batch)),
        )


@dataclass(slots=True)
class ModelProducer:
    """What the log must remember of one producer."""

    epoch: int
    last_sequence: int = -1
    last_offset: int = -1
    open_first_offset: int = -1
    frames: list[ModelFrame] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LogModel:
    """One moment of a log."""

    frames: tuple[ModelFrame, ...] = ()
    start_offset: int = 0
    # Compaction has not touched anything from here on.
    compacted_to: int = 0
    # Tombstones that were there when compaction first saw them may be gone.
    tombstones_may_go: bool = False

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.frames[-1].last_offset + 1 if self.frames else self.start_offset

    def appended(self, frame: ModelFrame) -> LogModel:
        """The next moment, one frame longer."""
        return replace(self, frames=(*self.frames, frame))

    def cut(self, offset: int) -> LogModel:
        """The frames that lie wholly below the offset."""
        frames = tuple(frame for frame in self.frames if frame.last_offset < offset)
        return replace(self, frames=frames, compacted_to=min(self.compacted_to, offset))

    def stored(self) -> tuple[ModelFrame, ...]:
        """The frames that the log still has to have, if compaction has not taken them."""
        return tuple(frame for frame in self.frames if frame.last_offset >= self.start_offset)

    def producers(self) -> dict[int, ModelProducer]:
        """What all frames together say of their producers."""
        producers: dict[int, ModelProducer] = {}
        for frame in self.frames:
            if frame.producer_id >= 0:
                _note(producers.setdefault(frame.producer_id, ModelProducer(frame.producer_epoch)), frame)
        return producers

    def last_stable_offset(self) -> int:
        """Where the oldest open transaction begins, else the end."""
        opened = [one.open_first_offset for one in self.producers().values() if one.open_first_offset >= 0]
        return min(opened, default=self.end_offset)

    def aborted(self) -> list[AbortedTransaction]:
        """Every aborted transaction, in the order of the markers; the stable offset is left out."""
        found: list[AbortedTransaction] = []
        opened: dict[int, int] = {}
        for frame in self.frames:
            if frame.commit is None:
                if frame.is_transactional:
                    opened.setdefault(frame.producer_id, frame.base_offset)
                continue
            first = opened.pop(frame.producer_id, None)
            if first is not None and not frame.commit:
                found.append(AbortedTransaction(frame.producer_id, first, frame.last_offset, -1))
        return found

    def epochs(self) -> list[tuple[int, int]]:
        """(leader epoch, its first offset), as the frames say."""
        epochs: list[tuple[int, int]] = []
        for frame in self.frames:
            if not epochs or frame.leader_epoch > epochs[-1][0]:
                epochs.append((frame.leader_epoch, frame.base_offset))
        return epochs


def objection(model: LogModel, read: Sequence[bytes], start_offset: int, end_offset: int) -> str | None:
    """Why these batches cannot be this moment cut at `end_offset`; None if they can.

    Every stored frame must be there with the right bytes, none may be there that was not
    written, and what compaction removed must have had to give way to something newer.
    """
    frames = [frame for frame in model.frames if frame.last_offset >= start_offset and frame.base_offset < end_offset]
    if frames and frames[-1].last_offset + 1 != end_offset:
        return f"the log ends at {end_offset}, inside or before {_name(frames[-1])}"
    if not frames and end_offset != max(start_offset, min(model.end_offset, end_offset)):
        return f"the log ends at {end_offset} without a frame there"
    by_base = {frame.base_offset: frame for frame in frames}
    records: set[int] = set()
    last = -1
    for batch in read:
        frame = by_base.get(parse_batch_header(batch).base_offset)
        if frame is None or frame.base_offset <= last:
            return f"a batch at {parse_batch_header(batch).base_offset} was never written there, or comes twice"
        last = frame.last_offset
        if batch != frame.batch and (frame.last_offset >= model.compacted_to or not _is_thinned(batch, frame)):
            return f"{_name(frame)} was read with other bytes or records than were written"
        if frame.commit is None:
            records |= {record.offset for record in decode_records(batch)}
        del by_base[frame.base_offset]
    for frame in by_base.values():
        if frame.last_offset >= model.compacted_to:
            return f"{_name(frame)} is missing"
    return _missing_record(model, frames, records)


def _missing_record(model: LogModel, frames: Iterable[ModelFrame], present: set[int]) -> str | None:
    aborted = model.aborted()
    newest: dict[bytes, int] = {}
    for frame in model.frames:
        if frame.last_offset < model.compacted_to and not _is_aborted(frame, aborted):
            newest |= {record.key: record.offset for record in frame.records if record.key is not None}
    for frame in frames:
        if frame.last_offset >= model.compacted_to or _is_aborted(frame, aborted):
            continue
        for record in frame.records:
            if record.offset in present:
                continue
            if record.key is None or newest[record.key] == record.offset:
                if record.key is not None and record.value is None and model.tombstones_may_go:
                    continue
                return f"record {record.offset} (key {record.key!r}) is missing and nothing newer took its place"
    return None


def _is_thinned(batch: bytes, frame: ModelFrame) -> bool:
    """Whether the batch is the frame's with some records taken out and nothing else changed."""
    header, original = parse_batch_header(batch), parse_batch_header(frame.batch)
    same = (header.last_offset, header.producer_id, header.producer_epoch, header.base_sequence, header.leader_epoch)
    if same != (
        original.last_offset,
        original.producer_id,
        original.producer_epoch,
        original.base_sequence,
        original.leader_epoch,
    ):
        return False
    return frame.commit is None and set(decode_records(batch)) <= set(frame.records)


def _is_aborted(frame: ModelFrame, aborted: Iterable[AbortedTransaction]) -> bool:
    return frame.is_transactional and any(
        one.producer_id == frame.producer_id and one.first_offset <= frame.base_offset <= one.last_offset
        for one in aborted
    )


def _note(producer: ModelProducer, frame: ModelFrame) -> None:
    if frame.producer_epoch > producer.epoch:
        producer.epoch = frame.producer_epoch
        producer.last_sequence = -1
        producer.frames.clear()
    if frame.commit is not None:
        producer.open_first_offset = -1
        return
    producer.last_offset = frame.last_offset
    if frame.base_sequence >= 0:
        producer.last_sequence = frame.last_sequence
        producer.frames.append(frame)
    if frame.is_transactional and producer.open_first_offset < 0:
        producer.open_first_offset = frame.base_offset


def _name(frame: ModelFrame) -> str:
    return f"the batch of {frame.base_offset} to {frame.last_offset}"
