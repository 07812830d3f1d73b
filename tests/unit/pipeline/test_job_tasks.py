"""How the pieces of a job are shared out to Spark's tasks."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.pipeline.jobs.tasks import bundles

MIB = 1024 * 1024


def same(size: int) -> int:
    return size


def test_small_pieces_share_a_task_and_large_ones_are_spread() -> None:
    found = bundles([64 * MIB, 64 * MIB, 64 * MIB, 1, 2, 3, 64 * MIB], same, at_least=4)

    assert sorted(sum(bundle) // MIB for bundle in found) == [64, 64, 64, 64]


def test_half_a_gibibyte_is_a_task_and_every_core_gets_as_many() -> None:
    assert len(bundles([16 * MIB] * 64, same, at_least=4)) == 4
    assert len(bundles([16 * MIB] * 128, same, at_least=4)) == 4
    assert len(bundles([16 * MIB] * 129, same, at_least=4)) == 8


@example([0, 0], 2)
@given(st.lists(st.integers(0, 200 * MIB), min_size=1, max_size=60), st.integers(1, 9))
def test_every_piece_is_in_one_task_and_no_task_is_empty(sizes: list[int], at_least: int) -> None:
    found = bundles(sizes, same, at_least=at_least)

    assert sorted(size for bundle in found for size in bundle) == sorted(sizes)
    assert all(found)
