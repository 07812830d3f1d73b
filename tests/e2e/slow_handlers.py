"""A handler whose module takes longer to import in a process than its time limit allows."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

from goqueue.client import QueueMessage

IMPORT_S = 0.4

if multiprocessing.parent_process() is not None:
    time.sleep(IMPORT_S)


def note(message: QueueMessage) -> None:
    """Leave a file that says how often the message was delivered."""
    Path(message.text).write_text(str(message.delivery_count))
