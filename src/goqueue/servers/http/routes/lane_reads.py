"""Stateless reads of one partition by priority: strictly, or in fair rounds.

They are for looking at a partition and for replaying it: nothing is kept.
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from goqueue.delivery.lanes.lane_order import LaneOrder
from goqueue.errors import InvalidRequest
from goqueue.records import Priority, TopicPartition
from goqueue.servers.http.bodies.large_answers import MessagesReply, size_of
from goqueue.servers.http.bodies.message_json import unreadable_ranges
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.routes.read import Start, isolation_of, messages_of, start_positions
from goqueue.servers.http.routes.topics import partition_index
from goqueue.servers.http.types.common import ReadLanes
from goqueue.servers.services import Services

_LANES = tuple(lane.name.lower() for lane in Priority)
_PAIR = '"?([a-z]{1,10})"? *: *([0-9]{1,19})'
_PAIRS = re.compile(_PAIR)
_OFFSETS = re.compile(rf"({{ *)?{_PAIR}( *, *{_PAIR})*( *}})?")
_OFFSET_MAX = 2**63 - 1
_MAX_BYTES = 4 * 1024 * 1024


class LaneReadQuery(Start, kw_only=True):
    """How much to read, and from where on in each lane.

    `offsets` begins each lane at its own: `next_offsets` of the answer before, as it is or as `critical:5,low:7`.
    Lanes that it does not name begin where `from` or `timestamp` says.
    """

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    max_bytes: Annotated[int, Meta(ge=1, le=52_428_800)] = _MAX_BYTES
    offsets: Annotated[str, Meta(max_length=1_000)] | None = None


async def by_priority(services: Services, call: Call) -> MessagesReply:
    """Read one partition: every message of a lane before any of a less urgent one."""
    return await _read(services, call, LaneOrder.PRIORITY)


async def fairly(services: Services, call: Call) -> MessagesReply:
    """Read one partition in rounds over the lanes, by the topic's weights; each call begins a round."""
    return await _read(services, call, LaneOrder.FAIR)


async def _read(services: Services, call: Call, order: LaneOrder) -> MessagesReply:
    at = TopicPartition(call.path["topic"], partition_index(call))
    query: LaneReadQuery = call.query
    given = _given_offsets(query)
    start = (await start_positions(services, [at], query))[at]
    await services.answers.room()
    found = await services.lane_reads.read(
        at,
        [given.get(lane, start) for lane in _LANES],
        order=order,
        limit=query.limit,
        max_bytes=query.max_bytes,
        isolation=isolation_of(query),
    )
    reply = ReadLanes(
        messages=[],
        next_offsets=dict(zip(_LANES, found.next_offsets, strict=True)),
        high_watermark=found.high_watermark,
        unreadable=unreadable_ranges(at, found.unreadable),
    )
    return MessagesReply(reply, messages_of(at, found.records, query), size_of(found.records))


def _given_offsets(query: LaneReadQuery) -> dict[str, int]:
    """The offsets that a reader hands back, by lane: a JSON object, or `critical:5,low:7`."""
    if query.offsets is None:
        return {}
    if query.offset is not None:
        raise InvalidRequest("offset and offsets exclude each other", field="offsets", hint="send offsets alone")
    pairs = _PAIRS.findall(query.offsets) if _OFFSETS.fullmatch(query.offsets) else []
    if not pairs:
        raise InvalidRequest(
            f"offsets={query.offsets[:64]!r} is not a list of lanes and their offsets",
            field="offsets",
            hint='send next_offsets of the last answer, {"critical":5,"low":7}, or critical:5,low:7',
        )
    given: dict[str, int] = {}
    for lane, offset in pairs:
        if lane not in _LANES:
            raise InvalidRequest(
                f"offsets names lane {lane!r}", field="offsets", hint=f"the lanes are {', '.join(_LANES)}"
            )
        if lane in given:
            raise InvalidRequest(f"offsets names lane {lane!r} twice", field="offsets", hint="name each lane once")
        if int(offset) > _OFFSET_MAX:
            raise InvalidRequest(
                f"offset {offset} of lane {lane!r} is too large", field="offsets", hint=f"at most {_OFFSET_MAX}"
            )
        given[lane] = int(offset)
    return given


ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/partitions/{partition}/messages/priority",
        by_priority,
        "Read a partition by priority",
        {200: ReadLanes},
        query=LaneReadQuery,
        errors=(400, 404, 416),
    ),
    Route(
        "GET",
        "/topics/{topic}/partitions/{partition}/messages/fair",
        fairly,
        "Read a partition, lanes by weight",
        {200: ReadLanes},
        query=LaneReadQuery,
        errors=(400, 404, 416),
    ),
)
