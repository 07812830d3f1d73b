"""A Kombu transport: Celery runs on GoQueue, as `broker_url = "goqueue://127.0.0.1:8080"`.

Importing this package makes the name `goqueue` known to Kombu, which has no entry points for transports. Without an
import, `broker_transport = "goqueue.celery:Transport"` means the same. Needs the extra `goqueue[celery]`.

`transport` is the place to begin: `channel` maps AMQP's words to the broker's, `bindings` keeps exchanges in a topic,
`names` escapes queue names. Requests and leases are those of `goqueue.prefork`.
"""

from __future__ import annotations

try:
    from kombu.transport import TRANSPORT_ALIASES
except ModuleNotFoundError:
    raise ModuleNotFoundError("goqueue.celery needs Celery: pip install 'goqueue[celery]'", name="kombu") from None

from goqueue.celery.channel import Channel
from goqueue.celery.transport import Transport

TRANSPORT_ALIASES["goqueue"] = "goqueue.celery.transport:Transport"

__all__ = ["Channel", "Transport"]
