"""SaslAuthenticate: one message of a login, and the answer to it.

Versions 0-2. The answer to the last message says how long the session lasts; before it ends the client authenticates
again on the same connection (KIP-368), as the same principal and by the same mechanism.
"""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, error_code, error_message
from goqueue.servers.kafka.handlers.sasl_handshake import ILLEGAL_SASL_STATE

API = Api(key=36, name="SaslAuthenticate", versions=(0, 2), order=Order.CHANGE)


async def handle(context: Context, request: Message) -> Reply:
    """Take the login one step further."""
    gate = context.peer.gate
    if gate is None:
        return {"error_code": ILLEGAL_SASL_STATE, "error_message": "clients need not authenticate here"}
    try:
        step = await gate.step(bytes(request.auth_bytes))
    except GoQueueError as error:
        return {"error_code": error_code(error), "error_message": error_message(error)}
    return {"error_code": 0, "auth_bytes": step.message, "session_lifetime": step.lifetime_ms}
