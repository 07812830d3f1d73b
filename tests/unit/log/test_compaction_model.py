"""Compaction against a naive model: any history, any size of map, any number of passes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.frame import Flags
from goqueue.log.state.producer_state import ProducerState

DAY_MS = 24 * 3600 * 1000


KEYS = st.one_of(st.none(), st.sampled_from("abcd"))
VALUES = st.one_of(st.none(), st.sampled_from("xyz"))
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"), st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4), st.sampled_from([-1, 1, 2])
        ),
        st.tuples(st.just("transaction"), st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3), st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(st.just("compact"), st.integers(1, 6), st.sampled_from([200, 600, 10**6])),
        st.tuples(st.just("wait"), st.sampled_from([1, DAY_MS])),
    ),
    max_size=25,
)


@given(steps=STEPS)
@hypothesis_settings(deadline=None)
def test_any_history_ends_as_a_naive_model_says(make_bench, steps):
    """The model: a list of committed records. Whatever compaction removes must be superseded in it."""
    bench, written, transaction = make_bench(), [], 100
    for step in steps:
        if step[0] == "write":
            written += [(bench.end + i, *pair) for i, pair in enumerate(step[1])]
            bench.write(*step[1], producer=step[2])
        elif step[0] == "transaction":
            transaction += 1
            if step[2]:
                written += [(bench.end + i, *pair) for i, pair in enumerate(step[1])]
            bench.write(*step[1], producer=transaction, transactional=True)
            bench.mark(transaction, commit=step[2])
        elif step[0] == "roll":
            bench.roll()
        elif step[0] == "compact":
            bench.compact(keys_max=step[1], segment_bytes=step[2])
        else:
            bench.now_ms += step[1]
    bench.compact_fully(keys_max=3)

    newest = {key: offset for offset, key, _ in written if key is not None}
    wanted = [r for r in written if r[1] is None or newest[r[1]] == r[0]]
    found = bench.records()
    assert [r for r in wanted if r not in found and not (r[1] and r[2] is None)] == []
    assert [r for r in found if r not in wanted] == []
    assert found == sorted(found, key=lambda record: record[0])
    assert bench.reopened(bench.files).records() == found
    # Sequences survive for every producer that the log would still know.
    state = ProducerState()
    for header, batch in bench.batches():
        commit = bool(header.flags & Flags.COMMIT) if header.flags & Flags.CONTROL else None
        state.apply(parse_batch_header(batch), header.offset, commit=commit, now_ms=0)
    assert state.first_open_offset() is None
    last = {info.producer_id: info.last_sequence for info in state.producers()}
    assert last == {info.producer_id: info.last_sequence for info in bench.producers.producers()}
