"""A Dramatiq broker: `dramatiq.set_broker(GoQueueBroker("http://127.0.0.1:8080"))`.

Needs the extra `goqueue[dramatiq]`. `broker` has the broker and its consumer, `lanes` maps priorities.
"""

from __future__ import annotations

try:
    import dramatiq as _dramatiq  # noqa: F401 - to say what is missing
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "goqueue.dramatiq needs Dramatiq: pip install 'goqueue[dramatiq]'", name="dramatiq"
    ) from None

from goqueue.dramatiq.broker import GoQueueBroker, GoQueueConsumer

__all__ = ["GoQueueBroker", "GoQueueConsumer"]
