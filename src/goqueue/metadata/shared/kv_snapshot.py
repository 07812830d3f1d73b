"""The metadata of a cluster as it is now, read once, by somebody who is no node of it."""

from __future__ import annotations

from goqueue.metadata.image import ABSENT, Image
from goqueue.metadata.shared.kv import Kv
from goqueue.metadata.shared.kv_pairs import below
from goqueue.metadata.shared.kv_values import changes


async def read_image(kv: Kv, prefix: str) -> Image:
    """Everything below the cluster's prefix; raises `KvError`."""
    found = await kv.range(prefix)
    pairs = below(prefix, found.pairs)
    image = Image()
    for event in changes(image, pairs, sorted(pairs)):
        image.apply(event, found.revision, lambda key: pairs.get(key, (b"", ABSENT))[1])
    image.revision = found.revision
    return image
