"""Errors as gRPC says them: a status code from the one table, and details that programs can read.

The details are Google's standard messages: `ErrorInfo` with our code, `BadRequest` with the field to blame,
`RetryInfo` where sending again can help. They travel in `grpc-status-details-bin`, as every gRPC library reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from goqueue.errors import GoQueueError, wire_of
from goqueue.protos import common_pb2
from goqueue.servers.field_names import field_in

DOMAIN = "goqueue"
DETAILS_KEY = "grpc-status-details-bin"
_CODES: Mapping[str, Any] = MappingProxyType({code.name: code for code in grpc.StatusCode})
_RETRY_SECONDS = 1
# A longer text does not fit into the metadata that clients accept.
_MESSAGE_CHARS_MAX = 2000


def names_in(request: Any) -> frozenset[str]:
    """Every name that a request of this type may have."""
    return frozenset(one.name for one in request.DESCRIPTOR.fields)


def detail_of(error: GoQueueError, field: str | None) -> Any:
    """The error of one of several items."""
    wire = wire_of(error)
    detail = common_pb2.ErrorDetail(code=wire.code, message=str(error), retriable=wire.retriable)
    if field is not None:
        detail.field = field
    if error.hint is not None:
        detail.hint = error.hint
    return detail


async def refuse(context: Any, error: GoQueueError, names: frozenset[str]) -> None:
    """End the call with the error; raises, as `abort` does."""
    wire = wire_of(error)
    message = str(error)[:_MESSAGE_CHARS_MAX]
    if error.hint:
        message = f"{message} ({error.hint})"[:_MESSAGE_CHARS_MAX]
    code = _CODES[wire.grpc]
    status = status_pb2.Status(code=code.value[0], message=message, details=_details(error, field_in(names, error)))
    await context.abort(code, message, trailing_metadata=((DETAILS_KEY, status.SerializeToString()),))


def _details(error: GoQueueError, field: str | None) -> list[Any]:
    wire = wire_of(error)
    info = error_details_pb2.ErrorInfo(reason=wire.code.upper(), domain=DOMAIN)
    if error.hint is not None:
        info.metadata["hint"] = error.hint
    if field is not None:
        info.metadata["field"] = field
    details = [info]
    if field is not None and wire.grpc == "INVALID_ARGUMENT":
        violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=str(error))
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if wire.retriable:
        delay = duration_pb2.Duration(seconds=_RETRY_SECONDS)
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return [_packed(one) for one in details]


def _packed(detail: Any) -> Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
