"""SaslHandshake: the client names the mechanism by which it authenticates.

Version 1; with version 0 the messages that follow would not be requests. GSSAPI and delegation tokens are refused by
name. Where clients need not authenticate, the request is an error, as it is in Kafka.
"""

from __future__ import annotations

from goqueue.errors import GoQueueError
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply, error_code

API = Api(
    key=17,
    name="SaslHandshake",
    versions=(1, 1),
    # librdkafka looks for version 0 before it uses version 1.
    advertised_from=0,
    order=Order.CHANGE,
    gaps=(
        "Version 0 is listed, as Kafka lists it, but closes the connection.",
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER; GSSAPI is not supported.",
    ),
)
ILLEGAL_SASL_STATE = 34


def handle(context: Context, request: Message) -> Reply:
    """Begin a login."""
    gate = context.peer.gate
    if gate is None:
        return {"error_code": ILLEGAL_SASL_STATE, "mechanisms": []}
    mechanisms = list(gate.mechanisms)
    try:
        gate.handshake(request.mechanism)
    except GoQueueError as error:
        return {"error_code": error_code(error), "mechanisms": mechanisms}
    return {"error_code": 0, "mechanisms": mechanisms}
