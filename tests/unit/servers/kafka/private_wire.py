"""Our own APIs as bytes, written by hand: what a client in another language would have to send."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

OPEN_PARTICIPANT, DECIDE_PREPARED = 10100, 10101


def open_request(writer: str, epoch: int, task: str) -> bytes:
    """The frame of an OpenParticipant request, without its length."""
    return _header(OPEN_PARTICIPANT) + _text(writer) + struct.pack(">q", epoch) + _text(task) + b"\0"


def open_response(frame: bytes) -> dict[str, Any]:
    """What an OpenParticipant response says."""
    error_code, position, message = _error(frame)
    committed, producer_id, epoch = struct.unpack_from(">?qh", frame, position)
    assert frame[position + 11 :] == b"\0"
    return {
        "error_code": error_code,
        "error_message": message,
        "already_committed": committed,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }


def decide_request(
    writer: str, epoch: int, tasks: Sequence[str | tuple[str, int, int]] = (), *, commit: bool = True
) -> bytes:
    """The frame of a DecidePrepared request, without its length."""
    rows = b""
    for one in tasks:
        task, producer_id, producer_epoch = (one, -1, -1) if isinstance(one, str) else one
        rows += _text(task) + struct.pack(">qh", producer_id, producer_epoch) + b"\0"
    body = _text(writer) + struct.pack(">q?", epoch, commit) + bytes([len(tasks) + 1]) + rows + b"\0"
    return _header(DECIDE_PREPARED) + body


def decide_response(frame: bytes) -> dict[str, Any]:
    """What a DecidePrepared response says."""
    error_code, position, message = _error(frame)
    already, committed, aborted = struct.unpack_from(">?ii", frame, position)
    assert frame[position + 9 :] == b"\0"
    return {
        "error_code": error_code,
        "error_message": message,
        "already_decided": already,
        "committed": committed,
        "aborted": aborted,
    }


def _header(api_key: int) -> bytes:
    return struct.pack(">hhi", api_key, 0, 7) + struct.pack(">h", 4) + b"test" + b"\0"


def _text(text: str) -> bytes:
    data = text.encode()
    assert len(data) < 127, "longer ones have a longer length"
    return bytes([len(data) + 1]) + data


def _error(frame: bytes) -> tuple[int, int, str | None]:
    """The error, and the position behind correlation id, tags and both fields of the error."""
    correlation_id, tags, error_code = struct.unpack_from(">ibh", frame)
    assert (correlation_id, tags) == (7, 0)
    # Lengths are varints; an error message has fewer than 128 * 128 bytes.
    length, position = frame[7], 8
    if length >= 128:
        length, position = (length & 127) | frame[8] << 7, 9
    if not length:
        return error_code, position, None
    return error_code, position + length - 1, frame[position : position + length - 1].decode()
