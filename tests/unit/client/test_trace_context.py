"""OpenTelemetry's context goes into headers and comes back as a parent, wherever a message is handled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from goqueue.client.producing.outgoing import prepare
from goqueue.client.queues.pools import LoopPool, ThreadPool
from goqueue.client.trace_context import MODE, Following, call_in_context, link_of, with_context
from goqueue.client.types import QueueMessage

tracer = TracerProvider().get_tracer("test")
TRACE_ID = 0x4BF92F3577B34DA6A3CE929D0E0E4736
TRACEPARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def message(*headers: tuple[str, bytes | None]) -> QueueMessage:
    return QueueMessage("t", 0, 0, 0, None, b"", headers, receipt="r", delivery_count=1, visible_until_ms=0)


TRACED = message(("traceparent", TRACEPARENT))


def current() -> int:
    return trace.get_current_span().get_span_context().trace_id


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    assert current() == 0, "the context is as it was before"


def test_a_record_carries_the_context_of_the_current_span() -> None:
    with tracer.start_as_current_span("checkout") as span:
        sent = prepare("t", b"v", headers={"a": "b"}).message.headers
    assert sent is not None
    assert sent["a"] == "b"
    assert f"{span.get_span_context().trace_id:032x}" in str(sent["traceparent"])
    assert prepare("t", b"v").message.headers is None, "without a span nothing is added"


def test_a_traceparent_that_is_given_stays() -> None:
    with tracer.start_as_current_span("checkout"):
        assert with_context({"traceparent": TRACEPARENT}) == {"traceparent": TRACEPARENT}


def test_a_loop_over_messages_runs_in_the_context_of_each() -> None:
    async def source() -> object:
        following = Following()
        for one in (TRACED, message(), TRACED):
            following.enter(one)
            yield one
            following.leave()

    async def main() -> list[int]:
        return [current() async for _ in source()]  # type: ignore[attr-defined]

    assert asyncio.run(main()) == [TRACE_ID, 0, TRACE_ID]


def test_handlers_run_in_the_context_of_their_message_on_the_loop_and_in_threads() -> None:
    seen: list[int] = []

    async def on_loop(_: QueueMessage) -> None:
        await asyncio.sleep(0)
        seen.append(current())

    def in_thread(_: QueueMessage) -> None:
        seen.append(current())

    async def main() -> None:
        await asyncio.gather(*(LoopPool(on_loop).call(one, None) for one in (TRACED, message())))
        threads = ThreadPool(in_thread, own_loops=False)
        await threads.call(TRACED, None)
        await threads.call(message(), None)
        await threads.close()

    asyncio.run(main())
    assert sorted(seen[:2]) == [0, TRACE_ID]
    assert seen[2:] == [TRACE_ID, 0]


def test_an_exception_leaves_no_context_behind() -> None:
    def failing(_: QueueMessage) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        call_in_context(failing, TRACED)


def test_what_is_not_a_traceparent_changes_nothing() -> None:
    assert call_in_context(lambda _: current(), message(("traceparent", b"\xff nonsense"))) == 0


@pytest.mark.parametrize("mode", ["link", "off"])
def test_a_program_may_keep_its_own_context(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv(MODE, mode)
    assert call_in_context(lambda _: current(), TRACED) == 0
    assert link_of(TRACED).context.trace_id == TRACE_ID
    assert link_of(message()) is None
    with tracer.start_as_current_span("checkout"):
        assert ("traceparent" in with_context({})) is (mode == "link")
