"""Forwarding: an operation is answered by the node at which it is at home, whichever node was asked.

The peer runs the same operation, in the name of the same caller, and does not forward it again: it answers or refuses.
Requests and replies travel as the JSON of the route's own types.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from multidict import MultiDict

from goqueue.anywhere.asking import Asking, PeerMethod, is_elsewhere
from goqueue.caller import Caller
from goqueue.errors import GoQueueError, InvalidProducerIdMapping, NotFound, UnknownPeerCall
from goqueue.records import TopicPartition
from goqueue.servers.homes.kinds import AtCoordinator, AtLeader, Everywhere, Here, Home
from goqueue.servers.homes.merging import merged
from goqueue.servers.operations import Answer, Call, Handler, MessagesReply, Route, TextReply
from goqueue.servers.services import Services

# Joins and long polls wait long; a peer that is lost is noticed by its connection.
_TIMEOUT_MS = 600_000
# Replies whose sending is not confirmed yet; the oldest is forgotten first.
_UNSENT_MAX = 10_000
_encode = msgspec.json.Encoder().encode


class _Forwarded(msgspec.Struct, frozen=True, array_like=True):
    operation: str
    path: dict[str, str]
    query: bytes
    body: bytes
    remote: str
    # The query as it was written, for operations whose names may occur more than once.
    pairs: list[tuple[str, str]]


class _Reply(msgspec.Struct, frozen=True, array_like=True):
    status: int
    body: bytes
    headers: dict[str, str]
    media_type: str = ""
    # Names the reply when its sending is to be confirmed.
    token: int = 0


class _Request(msgspec.Struct, frozen=True):
    """What an operation may know of the request that another node got."""

    remote: str
    query: MultiDict[str]


_FORWARD: PeerMethod[_Forwarded, _Reply] = PeerMethod("operation", _Forwarded, _Reply)
_SENT: PeerMethod[int, None] = PeerMethod("operation.sent", int, None)


class Forwarding:
    """Operations of all nodes. `services` are those that an operation gets here."""

    def __init__(
        self, asking: Asking, routes: Sequence[Route], homes: Mapping[str, Home], services: Callable[[], Services]
    ) -> None:
        self._asking = asking
        self._homes = homes
        self._services = services
        self._routes = {_name(route): route for route in routes}
        self._unsent: dict[int, Callable[[], None]] = {}
        self._token = 0
        self._under_way: set[asyncio.Task[None]] = set()
        asking.answer(_FORWARD, self._answer)
        asking.answer(_SENT, self._confirm)

    def routes(self) -> tuple[Route, ...]:
        """The routes, each with a handler that finds who answers."""
        return tuple(
            route
            if isinstance(self._homes[name], Here)
            else msgspec.structs.replace(route, handle=self._handler(route, self._homes[name]))
            for name, route in self._routes.items()
        )

    def _handler(self, route: Route, home: Home) -> Handler:
        async def handle(services: Services, call: Call) -> Any:
            match home:
                case AtLeader(place):
                    where = TopicPartition(*place(call))
                    return await self._at(lambda: self._leader_of(where), route, services, call)
                case AtCoordinator(topic, key):
                    name = key(call)
                    if name is None:
                        return await self._whoever(route, services, call, (InvalidProducerIdMapping,))
                    homes = self._asking.homes
                    return await self._at(lambda: homes.coordinator_of(topic, name), route, services, call)
                case Everywhere():
                    return await self._everywhere(route, services, call, home)
                case Here():
                    return await route.handle(services, call)

        return handle

    def _leader_of(self, place: TopicPartition) -> int:
        try:
            return self._asking.homes.leader_of(place)
        except NotFound:
            # The operation itself says so, in its own words.
            return self._asking.homes.node_id

    async def _at(self, home: Callable[[], int], route: Route, services: Services, call: Call) -> Any:
        return await self._asking.at_home(home, lambda node: self._ask(node, route, services, call))

    async def _whoever(
        self, route: Route, services: Services, call: Call, unknown: tuple[type[GoQueueError], ...]
    ) -> Any:
        """This node first, then the others, until one knows."""
        try:
            return await route.handle(services, call)
        except unknown as error:
            refusal: GoQueueError = error
        for node in self._asking.homes.others():
            try:
                return await self._ask(node, route, services, call)
            except unknown:
                continue
        raise refusal

    async def _everywhere(self, route: Route, services: Services, call: Call, home: Everywhere) -> Any:
        skip, limit = getattr(call.query, "skip", 0), getattr(call.query, "limit", None)
        if home.is_paged and skip:
            query = msgspec.structs.replace(call.query, skip=0, limit=None if limit is None else skip + limit)
            call = msgspec.structs.replace(call, query=query)
        refusals: list[GoQueueError] = []

        async def ask(node: int) -> Any:
            try:
                return _body_of(await self._ask(node, route, services, call))
            except GoQueueError as refusal:
                if not isinstance(refusal, NotFound) and not is_elsewhere(refusal):
                    raise
                # What one node does not know, or does not lead, another may.
                refusals.append(refusal)
                return None

        replies = [one for one in await self._asking.everywhere(ask) if one is not None]
        if not replies:
            raise refusals[0]
        if len(replies) == 1 and not home.is_paged:
            return replies[0]
        return msgspec.convert(merged(replies, home, skip=skip, limit=limit), route.replies[200])

    async def _ask(self, node: int, route: Route, services: Services, call: Call) -> Any:
        if node == self._asking.homes.node_id:
            return await route.handle(services, call)
        pairs = getattr(call.request, "query", None)
        question = _Forwarded(
            _name(route),
            dict(call.path),
            b"" if call.query is None else _encode(call.query),
            b"" if call.body is None else _encode(call.body),
            call.request.remote or "",
            [] if pairs is None else list(pairs.items()),
        )
        reply = await self._asking.ask(node, _FORWARD, question, services.caller, timeout_ms=_TIMEOUT_MS)
        return self._received(node, route, reply, services.caller)

    def _received(self, node: int, route: Route, reply: _Reply, caller: Caller) -> Any:
        if reply.media_type:
            return TextReply(reply.body.decode(), reply.media_type)
        body = msgspec.json.decode(reply.body, type=route.replies.get(reply.status, Any))
        sent = (lambda: self._tell_sent(node, reply.token, caller)) if reply.token else None
        if reply.status == 200 and not reply.headers and sent is None:
            return body
        return Answer(reply.status, body, reply.headers, sent)

    def _tell_sent(self, node: int, token: int, caller: Caller) -> None:
        async def tell() -> None:
            # Whoever is not told gives the same again, which is what happens when an answer is lost.
            with suppress(GoQueueError):
                await self._asking.ask(node, _SENT, token, caller)

        task = asyncio.get_running_loop().create_task(tell())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    # --- the node that is asked ------------------------------------------------------------

    async def _answer(self, asked: _Forwarded, caller: Caller) -> _Reply:
        route = self._routes.get(asked.operation)
        if route is None:
            raise UnknownPeerCall(asked.operation)
        call = Call(
            asked.path,
            None if not asked.query else _query_of(route, asked.query),
            None if not asked.body else msgspec.json.decode(asked.body, type=route.body),
            _Request(asked.remote, MultiDict(asked.pairs)),
        )
        answer = await route.handle(self._services().for_caller(caller), call)
        if isinstance(answer, TextReply):
            return _Reply(200, answer.text.encode(), {}, answer.media_type)
        if not isinstance(answer, Answer):
            return _Reply(200, _json_of(answer), {})
        token = 0 if answer.sent is None else self._keep(answer.sent)
        return _Reply(answer.status, _json_of(answer.body), dict(answer.headers), token=token)

    def _keep(self, sent: Callable[[], None]) -> int:
        self._token += 1
        self._unsent[self._token] = sent
        if len(self._unsent) > _UNSENT_MAX:
            self._unsent.pop(next(iter(self._unsent)))
        return self._token

    async def _confirm(self, token: int, _caller: Caller) -> None:
        sent = self._unsent.pop(token, None)
        if sent is not None:
            sent()


def _query_of(route: Route, raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw, type=route.query)
    except msgspec.ValidationError:
        # The node that was asked has checked it, and asks for all rows up to the end of a page: more than a client may.
        return route.query(**msgspec.json.decode(raw))


def _name(route: Route) -> str:
    return f"{route.method} {route.path}"


def _body_of(answer: Any) -> Any:
    answer = answer.body if isinstance(answer, Answer) else answer
    return _whole(answer) if isinstance(answer, MessagesReply) else answer


def _json_of(body: Any) -> bytes:
    return _encode(_whole(body) if isinstance(body, MessagesReply) else body)


def _whole(answer: MessagesReply) -> Any:
    return msgspec.structs.replace(answer.reply, messages=list(answer.messages))
