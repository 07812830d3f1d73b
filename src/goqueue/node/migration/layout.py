"""The layout mark: which former topics have been taken over completely. One small file, written durably."""

from __future__ import annotations

import msgspec

from goqueue.errors import StorageError
from goqueue.metadata.image import Image
from goqueue.ports import Files

LAYOUT = "layout.json"
# The internal topics of earlier layouts, in the order in which they are taken over.
DELIVERY_STATE = "__delivery_state"
DELAYED = "__delayed"
FORMER_TOPICS = (DELIVERY_STATE, DELAYED)


class Layout(msgspec.Struct, frozen=True):
    """What the file says."""

    # Former internal topics whose content lies in the logs of partitions now; what is left of them may be removed.
    taken_over: tuple[str, ...] = ()


def former_topics(image: Image) -> list[str]:
    """Which topics of earlier layouts are there still."""
    return [name for name in FORMER_TOPICS if image.topic(name) is not None]


def read_layout(files: Files) -> Layout:
    """What was taken over; nothing, if there is no mark."""
    if not files.exists(LAYOUT):
        return Layout()
    try:
        return msgspec.json.decode(files.read(LAYOUT), type=Layout)
    except msgspec.MsgspecError as error:
        raise StorageError(f"{LAYOUT} cannot be read: {error}") from error


def mark_taken_over(files: Files, topic: str) -> None:
    """From now on the former topic is not read any more. Blocks until that is on the disk."""
    known = read_layout(files)
    files.replace(LAYOUT, msgspec.json.encode(Layout((*known.taken_over, topic))))
