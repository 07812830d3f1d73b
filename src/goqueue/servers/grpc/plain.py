"""Plain methods: one request, one response, answered by the operation that `goqueue.rpc.table` names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from goqueue.errors import InvalidRequest
from goqueue.forms import form_problem
from goqueue.rpc.filling import fill
from goqueue.rpc.table import Row
from goqueue.servers.access.doors import HTTP_NEEDS, require
from goqueue.servers.access.guard import EVERYTHING
from goqueue.servers.grpc.adapting import ADAPT, QUERY
from goqueue.servers.grpc.callers import address_of
from goqueue.servers.grpc.methods import Unary
from goqueue.servers.grpc.transcode import Form, plain_of
from goqueue.servers.operations import Answer, Call, MessagesReply, Route
from goqueue.servers.services import Services

_IN_BRACES = re.compile(r"{(\w+)}")
# What a stock client takes in one message is 4 MiB, with everything around the messages.
_MAX_BYTES = 3 * 1024 * 1024


class Peer(msgspec.Struct, frozen=True):
    """What an operation may know of the connection, and of a query whose names may occur more than once."""

    remote: str
    query: Any = None


def plain_method(row: Row, operations: Mapping[str, Route], response: Any) -> Unary:
    """The method of a row."""
    usual = _Operation(row, operations[row.operation])
    other = None if row.without is None else _Operation(row, operations[row.without])

    async def answer(services: Services, request: Any, context: Any) -> Any:
        operation = usual if other is None or usual.has_path(request) else other
        query = QUERY.get(row.method)
        peer = Peer(address_of(context.peer()), None if query is None else query(request))
        call = operation.call(request, peer)
        if services.access is not EVERYTHING:
            require(services, operation.need, call.path.get("subject"))
        reply = await operation.handle(services, call)
        if isinstance(reply, Answer):
            if reply.sent is not None:
                _when_sent(context, reply.sent)
            reply = reply.body
        return _response(row, response(), reply)

    return answer


class _Operation:
    """A route, as requests of one method become calls of it."""

    def __init__(self, row: Row, route: Route) -> None:
        self.handle = route.handle
        # What the operation needs by itself, the same as over HTTP.
        self.need = HTTP_NEEDS.get((route.method, route.path))
        self._adapt = ADAPT.get(row.method)
        self._names = _IN_BRACES.findall(route.path)
        self._query = None if route.query is None else Form(route.query)
        self._body = None if route.body is None else Form(route.body)
        kind = route.query or route.body
        self._is_limited = kind is not None and "max_bytes" in kind.__struct_fields__

    def has_path(self, request: Any) -> bool:
        """Whether the request says all that the path needs."""
        return all(getattr(request, name) for name in self._names)

    def call(self, request: Any, peer: Peer) -> Call:
        """The typed call that a request makes, or InvalidRequest naming the field."""
        path = {name: str(getattr(request, name)) for name in self._names}
        query = None if self._query is None else self._convert(request, self._query)
        body = None if self._body is None else self._convert(request, self._body)
        return Call(path, query, body, peer)

    def _convert(self, request: Any, form: Form) -> Any:
        plain = plain_of(request, form)
        for name in self._names:
            # What the path says is said there alone.
            plain.pop(name, None)
        if self._is_limited:
            plain.setdefault("max_bytes", _MAX_BYTES)
        if self._adapt is not None:
            self._adapt(request, plain)
        try:
            # By way of JSON, so that both wires are checked by the same rules.
            return msgspec.json.decode(msgspec.json.encode(plain), type=form.kind)
        except msgspec.ValidationError as problem:
            raise form_problem(problem, form.kind) from problem
        except msgspec.DecodeError as problem:
            raise InvalidRequest(f"the request cannot be read: {problem}") from problem


def _response(row: Row, response: Any, reply: Any) -> Any:
    if isinstance(reply, MessagesReply):
        fill(response, reply.reply, row.renamed)
        for message in reply.messages:
            fill(response.messages.add(), message)
        return response
    if not isinstance(reply, msgspec.Struct):
        # A list or a number by itself: the response has one field.
        return fill(response, {response.DESCRIPTOR.fields[0].name: reply})
    if row.wrap is not None:
        fill(getattr(response, row.wrap), reply)
        getattr(response, row.wrap).SetInParent()
        return response
    if row.service == "AckService" and not hasattr(reply, "results"):
        # A single receipt: its failure is the status of the call, so this one succeeded.
        fill(response.results.add(), reply)
        response.succeeded = 1
        return response
    return fill(response, reply, row.renamed)


def _when_sent(context: Any, sent: Any) -> None:
    """Call back once the response has been sent to a client that was still there."""

    def done(_: Any) -> None:
        if not context.cancelled():
            sent()

    context.add_done_callback(done)
