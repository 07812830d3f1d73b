"""A run over queries that fall: when each is started again, and when the run has ended. Without Spark's JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.declared.load import load_values
from goqueue.pipeline.declared.running import run as module
from goqueue.pipeline.declared.running.run import BUSY_FAILURES_MAX, FAILURES_MAX, PipelineFailed, PipelineRun


class Query:
    """A query as Spark shows it."""

    def __init__(self) -> None:
        self.isActive = True
        self.recentProgress: list[dict[str, Any]] = []
        self._error: Exception | None = None

    def write(self, batch: int, rows: int) -> None:
        observed = {"written": {"rows": rows}}
        self.recentProgress.append({"batchId": batch, "numInputRows": rows, "observedMetrics": observed})

    def end(self, error: Exception | None = None) -> None:
        self.isActive = False
        self._error = error

    def exception(self) -> Exception | None:
        return self._error


class World:
    """A run with one sink, a clock that is set by hand, and the queries that were started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 0
        self.queries: list[Query] = []
        monkeypatch.setattr(module, "build", lambda *_: SimpleNamespace(frames={"events": None}))
        monkeypatch.setattr(module, "start_sink", lambda *_: self._started())
        values = {"name": "small", "sources": {"events": {"topic": "events"}}, "sinks": [{"console": {}}]}
        self.run = PipelineRun(load_values(values), SimpleNamespace(), now_ms=lambda: self.now_ms)  # type: ignore[arg-type]

    def _started(self) -> Query:
        self.queries.append(Query())
        return self.queries[-1]

    @property
    def status(self) -> dict[str, Any]:
        (status,) = self.run.status()
        return status


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    assert not made.run.step()
    return made


def test_a_run_has_ended_with_its_query(world: World) -> None:
    world.queries[0].write(0, 3)
    assert not world.run.step()

    world.queries[0].end()

    assert world.run.step()
    assert (world.status["rows_written"], world.status["restarts"]) == (3, 0)


def test_a_query_that_was_started_again_and_finds_nothing_left_ends_the_run(world: World) -> None:
    world.queries[0].write(0, 3)
    world.queries[0].end(RuntimeError("the planner died"))
    assert not world.run.step()
    world.now_ms = 1_000
    assert not world.run.step()

    world.queries[1].end()

    assert world.run.step()
    assert (world.status["rows_written"], world.status["restarts"]) == (3, 1)


def test_a_query_that_falls_waits_ever_longer_until_it_has_fallen_too_often(world: World) -> None:
    for pause_ms in (1_000, 2_000, 4_000, 8_000):
        world.queries[-1].end(RuntimeError("no broker"))
        world.run.step()
        started = len(world.queries)
        world.now_ms += pause_ms - 1
        world.run.step()
        assert len(world.queries) == started
        world.now_ms += 1
        world.run.step()
        assert len(world.queries) == started + 1

    world.queries[-1].end(RuntimeError("no broker"))
    with pytest.raises(PipelineFailed, match=f"console failed {FAILURES_MAX} times in a row: no broker"):
        world.run.step()


def test_a_batch_that_was_finished_makes_earlier_falls_forgotten(world: World) -> None:
    for batch in range(2 * FAILURES_MAX):
        world.queries[-1].write(batch, 1)
        world.queries[-1].end(RuntimeError("no broker"))
        world.run.step()
        world.now_ms += 1_000
        world.run.step()

    assert world.status["restarts"] == 2 * FAILURES_MAX
    assert world.status["rows_written"] == 2 * FAILURES_MAX


def test_a_machine_that_is_busy_is_given_more_time(world: World) -> None:
    told = "Python worker failed to connect back."
    for _ in range(BUSY_FAILURES_MAX - 1):
        world.queries[-1].end(RuntimeError(told))
        world.run.step()
        world.now_ms += 60_000
        world.run.step()

    world.queries[-1].end(RuntimeError(told))
    with pytest.raises(PipelineFailed, match=f"console failed {BUSY_FAILURES_MAX} times in a row: {told}"):
        world.run.step()
