"""What of a partition a reader may see: no markers, and of transactions what was not aborted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from goqueue.codec.markers import marker_is_commit
from goqueue.pipeline.decoding.batches import Batches
from goqueue.pipeline.source.segments import Aborted


def without_aborted(batches: Batches, aborted: Sequence[Aborted]) -> Batches:
    """The batches that a committed reader may see, markers left out."""
    keep = ~batches.is_control
    if aborted and batches.is_transactional.any():
        base_offset, producer_id = batches.base_offset, batches.producer_id
        for one in aborted:
            keep &= ~(
                batches.is_transactional
                & (producer_id == one.producer_id)
                & (base_offset >= one.first_offset)
                & (base_offset <= one.last_offset)
            )
    return batches.where(keep)


def visible(batches: Batches, aborted: Sequence[tuple[int, int]]) -> Batches:
    """Batches without markers and without what was aborted, as every committed reader of Kafka's tells them apart."""
    if not aborted or not batches.is_transactional.any():
        return batches.where(~batches.is_control)
    waiting = sorted(aborted, key=lambda one: one[1], reverse=True)
    ended: set[int] = set()
    keep = np.ones(len(batches), bool)
    for number, header in enumerate(batches.headers()):
        while waiting and waiting[-1][1] <= header.last_offset:
            ended.add(waiting.pop()[0])
        if header.is_control:
            keep[number] = False
            if header.producer_id in ended and not marker_is_commit(batches.bytes_of(number)):
                ended.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in ended:
            keep[number] = False
    return batches.where(keep)
