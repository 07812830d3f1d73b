"""Handlers that processes can import."""

from __future__ import annotations

import os
import time
from pathlib import Path

from goqueue.client import QueueMessage, Reject


def note_process(message: QueueMessage) -> None:
    """Leave a file with the message's name and our process id; do as the message says."""
    folder, what = message.text.split(" ", 1)
    with (Path(folder) / what).open("a") as file:
        file.write(f"{os.getpid()}\n")
    if what.startswith("sleep"):
        time.sleep(600)
    if what.startswith("exit") and message.delivery_count == 1:
        os._exit(3)
    if what.startswith("raise") and message.delivery_count == 1:
        raise ValueError("kaboom in a process")
    if what.startswith("reject"):
        raise Reject("never")
