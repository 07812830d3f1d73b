"""Requests that are not HTTP: one line in the log instead of a traceback.

aiohttp logs each request that it cannot parse as an error with its traceback. A port scanner, a TLS client on a plain
port or a broken proxy would fill the log of a broker in which nothing is wrong.
"""

from __future__ import annotations

import logging

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

LOGGER_NAME = "goqueue.http.requests"


def request_logger() -> logging.Logger:
    """The logger that aiohttp's server writes to."""
    logger = logging.getLogger(LOGGER_NAME)
    if not any(isinstance(one, _MalformedRequests) for one in logger.filters):
        logger.addFilter(_MalformedRequests())
    return logger


class _MalformedRequests(logging.Filter):
    """Turns what was logged of a malformed request into one line; what is our own mistake keeps its traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, web.RequestPayloadError):
            # The route has answered for this body; aiohttp meets the same error once more when it reads on.
            return False
        if not isinstance(error, HttpProcessingError):
            return True
        remote = record.args[0] if isinstance(record.args, tuple) and record.args else "an unknown address"
        # The message quotes the caller's bytes on further lines; the first line says what is wrong.
        reason = next((line.strip(" :") for line in error.message.splitlines() if line.strip()), "no reason given")
        record.msg, record.args = "refused a malformed HTTP request from %s: %s", (remote, reason)
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
        return True
