"""Names of queues as names of topics: what a topic refuses is escaped, and can be read back.

`celery@host` is the topic `celery_x40_host`. An underscore stays as it is unless it would read as an escape, or
begins the name: the broker's own topics begin with two.
"""

from __future__ import annotations

import re

_REFUSED = re.compile(r"[^A-Za-z0-9._-]|_(?=x)|^_|^\.{1,2}$")
_ESCAPED = re.compile(r"_x([0-9a-f]+)_")


def topic_of(queue: str) -> str:
    """The topic that holds a queue."""
    return _REFUSED.sub(lambda found: "".join(f"_x{ord(one):x}_" for one in found[0]), queue)


def queue_of(topic: str) -> str:
    """The queue that a topic holds."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), topic)
