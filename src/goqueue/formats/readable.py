"""Decoded values as JSON that people and programs can read."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import uuid
from typing import Any

import msgspec


def readable_json(value: Any) -> str:
    """The value as JSON text: bytes in base64, times in ISO 8601, decimals as text."""
    return msgspec.json.encode(readable(value)).decode()


def readable(value: Any) -> Any:
    """The value, of JSON's types alone."""
    if isinstance(value, dict):
        return {str(key): readable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [readable(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    return value
