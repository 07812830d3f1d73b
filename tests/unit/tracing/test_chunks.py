"""Chunks: what is stored of events comes back, is small, and is found by its rows."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from goqueue.tracing.chunks import decode_chunk, encode_chunks, events_at, events_of, rows_of, traces_of
from goqueue.tracing.events import At, Attributes, Kind, Noted, Subject

TOPIC = UUID(int=7)
ACK: Attributes = (At.GROUP, "billing", At.MEMBER, "worker-1", At.DELIVERY_COUNT, 1)

attributes = st.sampled_from([(), ACK, (At.GROUP, "g"), (At.REASON, "retention", At.COUNT, 5)])
ranges = st.tuples(st.integers(0, 2**40), st.integers(0, 5000))
events = st.builds(
    lambda kind, partition, at, said, late: Noted(kind, TOPIC, partition, at[0], at[0] + at[1], 1_000 + late, said),
    st.sampled_from(Kind),
    st.integers(0, 2),
    ranges,
    attributes,
    st.integers(0, 99),
)


def single_acks(count: int) -> list[Noted]:
    return [Noted(Kind.CONSUME_ACKED, TOPIC, 0, at, at, 1_000 + at % 100, ACK) for at in range(count)]


@given(st.lists(events, min_size=1, max_size=30))
def test_events_come_back_as_they_were_noted(noted: list[Noted]) -> None:
    for subject, data, _, _ in encode_chunks(noted):
        chunk = decode_chunk(data)
        assert chunk.subject == subject
        of_subject = [one for one in noted if one.partition == subject.partition]
        for event in of_subject:
            for offset in {event.first, (event.first + event.last) // 2, event.last}:
                found = [(one.kind, one.at_ms, one.attributes) for one in events_at(chunk, offset)]
                assert (event.kind, event.at_ms, event.attributes) in found
        stored = sum(one.last - one.first + 1 for one in events_of(chunk))
        assert stored == sum(one.last - one.first + 1 for one in of_subject)


@given(st.lists(events, min_size=1, max_size=200))
def test_every_offset_of_a_chunk_is_found_by_one_of_its_rows(noted: list[Noted]) -> None:
    for subject, data, rows, _ in encode_chunks(noted):
        assert rows == rows_of(decode_chunk(data))
        assert len(rows) <= 64
        for event in (one for one in noted if one.partition == subject.partition):
            for offset in {event.first, (event.first + event.last) // 2, event.last}:
                assert any(offset >> level == bucket for level, bucket in rows)


def test_neighbours_of_one_millisecond_are_one_event() -> None:
    noted = [Noted(Kind.CONSUME_ACKED, TOPIC, 0, at, at, 1_000, ACK) for at in range(1000)]
    [(_, data, rows, _)] = encode_chunks(noted)
    assert len(data) < 120
    assert [(one.first, one.last) for one in events_of(decode_chunk(data))] == [(0, 999)]
    assert len(rows) <= 2


def test_a_single_ack_takes_a_few_bytes() -> None:
    [(_, data, _, _)] = encode_chunks(single_acks(1000))
    assert len(data) / 1000 < 5


def test_names_are_stored_once_for_each_chunk() -> None:
    [(_, data, _, _)] = encode_chunks(single_acks(100))
    assert data.count(b"billing") == data.count(b"worker-1") == 1


def test_messages_that_went_elsewhere_keep_their_own_places() -> None:
    noted = [
        Noted(Kind.DLQ_ROUTED, TOPIC, 0, at, at, 1_000, (At.TO_TOPIC, "t.dlq", At.TO_OFFSET, 50 + at))
        for at in range(3)
    ]
    [(_, data, _, _)] = encode_chunks(noted)
    found = [next(events_at(decode_chunk(data), at)).get(At.TO_OFFSET) for at in range(3)]
    assert found == [50, 51, 52]


def test_trace_ids_are_listed_for_the_index() -> None:
    noted = [Noted(Kind.PUBLISH_RECEIVED, TOPIC, 0, 5, 5, 1_000, (At.TRACE, "ab" * 16, At.PARENT, "cd" * 8))]
    [(subject, data, _, traces)] = encode_chunks(noted)
    assert traces == traces_of(decode_chunk(data)) == ["ab" * 16]
    assert subject == Subject(TOPIC, 0)
