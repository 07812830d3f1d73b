"""Where the events of a process go: to stderr, from the level on that the settings name."""

from __future__ import annotations

import logging
import sys

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def set_up_logging(level: str) -> None:
    """Write events of that level and above to stderr."""
    logging.basicConfig(
        level=_LEVELS[level], format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", stream=sys.stderr
    )
