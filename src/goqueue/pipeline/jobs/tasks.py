"""File tasks: one piece of work per partition of an RDD, with progress while they run.

Rows never enter the JVM: a task reads and writes files itself and returns a small result. That
is three to four times as fast as rows through SQL, where no join, group or sort is needed.
"""

from __future__ import annotations

import heapq
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from goqueue.pipeline.spark.worker_heap import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

_LOOK_S = 0.2
# Starting a task takes up to 60 ms: worth it for this much, and often enough to see progress.
_TASK_BYTES = 512 * 1024 * 1024


class ShowProgress(Protocol):
    """Told how many of how many pieces are done."""

    def __call__(self, done: int, total: int, /) -> None:
        """Show it."""
        ...


def run_tasks(
    spark: SparkSession,
    name: str,
    work: Callable[[T], R],
    pieces: Sequence[T],
    show: ShowProgress,
    *,
    size: Callable[[T], int] | None = None,
    announce: Callable[[T], object] = lambda _piece: None,
) -> list[R]:
    """Do `work` on every piece; the results in the order of the pieces.

    Each piece is a task, unless `size` tells their bytes: then small ones share one. `announce`
    gets the piece after the one that is worked on, so that the disk can begin with it.
    """
    if not pieces:
        return []
    context = spark.sparkContext
    numbered = list(enumerate(pieces))
    tasks = [[one] for one in numbered]
    if size is not None:
        tasks = bundles(numbered, lambda one: size(one[1]), at_least=2 * context.defaultParallelism)
    # Not the name alone: a session may run the same job twice, and progress is that of one of them.
    group = f"{name}-{uuid.uuid4().hex}"
    results: dict[int, R] = {}
    failures: list[BaseException] = []

    def do_all(task: list[tuple[int, T]]) -> list[tuple[int, R]]:
        settle()
        done = []
        for at, (number, piece) in enumerate(task):
            for _, following in task[at + 1 : at + 2]:
                announce(following)
            done.append((number, work(piece)))
        return done

    def collect() -> None:
        try:
            context.setJobGroup(group, name)
            for done in context.parallelize(tasks, len(tasks)).map(do_all).collect():
                results.update(done)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            failures.append(error)

    worker = threading.Thread(target=collect, name=name, daemon=True)
    worker.start()
    tracker = context.statusTracker()
    show(0, len(tasks))
    while _still_works(worker):
        stages = [
            tracker.getStageInfo(stage) for job in tracker.getJobIdsForGroup(group) for stage in _stages(tracker, job)
        ]
        show(sum(one.numCompletedTasks for one in stages if one is not None), len(tasks))
    if failures:
        raise failures[0]
    show(len(tasks), len(tasks))
    return [results[number] for number in range(len(pieces))]


def bundles(pieces: Sequence[T], size: Callable[[T], int], *, at_least: int) -> list[list[T]]:
    """Pieces shared out to tasks of about the same size, largest first: as many tasks as the bytes deserve.

    A multiple of `at_least`, so that no core is left without a task while others do their last.
    """
    rounds = max(-(-sum(map(size, pieces)) // (_TASK_BYTES * at_least)), 1)
    count = min(rounds * at_least, len(pieces))
    filled: list[tuple[int, int, list[T]]] = [(0, number, []) for number in range(count)]
    for piece in sorted(pieces, key=size, reverse=True):
        used, number, bundle = filled[0]
        bundle.append(piece)
        # An empty file is a piece of work too; without weight, all of them would go to one task.
        heapq.heapreplace(filled, (used + max(size(piece), 1), number, bundle))
    return [bundle for _, _, bundle in filled]


def _still_works(worker: threading.Thread) -> bool:
    worker.join(_LOOK_S)
    return worker.is_alive()


def _stages(tracker: object, job: int) -> Sequence[int]:
    info = tracker.getJobInfo(job)  # type: ignore[attr-defined]  # pyspark has no types for it
    return [] if info is None else list(info.stageIds)
